"""Karpenter objects as the v1 API takes them: versions, keys, values, references, and where fields belong now."""

import re
from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.requirements import INSTANCE_DOMAINS
from guardrails.values import Hidden, get, is_hidden, items, listed, mapping, mappings, text, whole
from guardrails.world import World

API = Rule(
    id="karpenter-api-old",
    severity=Severity.ERROR,
    sentence="Karpenter objects are of API version v1.",
    why="v1beta1 and older are served by nothing since Karpenter 1.1; the API server refuses the objects.",
    remedy="use karpenter.sh/v1 NodePool and karpenter.k8s.aws/v1 EC2NodeClass",
    source="Karpenter upgrade guide; terraform-aws-eks#3244",
)
KEY = Rule(
    id="karpenter-key-unknown",
    severity=Severity.ERROR,
    sentence="A requirement's key is a label that Karpenter knows, or clearly one of your own.",
    why="An unknown key is taken as a custom label: the pool is not restricted, and any type may launch.",
    remedy="use the full name, for example node.kubernetes.io/instance-type",
    source="kubernetes-sigs/karpenter pkg/apis/v1/labels.go; karpenter-provider-aws#7513",
)
ENUM = Rule(
    id="karpenter-value-invalid",
    severity=Severity.ERROR,
    sentence="Fields with a fixed set of values have one of them.",
    why="The API server refuses the object.",
    remedy="use one of the values that the message lists",
    source="Karpenter 1.14 CRDs",
)
NODE_CLASS_REF = Rule(
    id="node-class-ref-invalid",
    severity=Severity.ERROR,
    sentence="nodeClassRef has group, kind and name, and no apiVersion.",
    why="The API server refuses the pool.",
    remedy="write {group: karpenter.k8s.aws, kind: EC2NodeClass, name: …}",
    source="Karpenter 1.14 CRD karpenter.sh_nodepools",
)
MOVED = Rule(
    id="karpenter-field-moved",
    severity=Severity.ERROR,
    sentence="Fields stand where the v1 API has them.",
    why="A field in its old place is refused or dropped, so the setting does nothing.",
    remedy="move it to the place that the message names",
    source="Karpenter v1 migration guide",
)
AMI_TERMS = Rule(
    id="ami-selector-missing",
    severity=Severity.ERROR,
    sentence="An EC2NodeClass says which AMI it uses.",
    why="amiSelectorTerms is required since v1; the API server refuses the object.",
    remedy="add amiSelectorTerms: [{alias: bottlerocket@v1.64.0}]",
    source="Karpenter 1.14 CRD karpenter.k8s.aws_ec2nodeclasses",
    reads=("EC2NodeClass:spec.amiSelectorTerms",),
)
PRIMARY = Rule(
    id="primary-interface-missing",
    severity=Severity.ERROR,
    sentence="networkInterfaces has the primary one: card 0, device 0, type interface.",
    why="The API server refuses the object; a node without it has no address.",
    remedy="add {networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}",
    source="karpenter-provider-aws pkg/apis/v1/ec2nodeclass.go",
)

OLD_GROUPS = ("karpenter.sh", "karpenter.k8s.aws")
V1_KINDS = ("NodePool", "NodeClaim", "EC2NodeClass")
OLD_KINDS = ("Provisioner", "AWSNodeTemplate", "Machine")


def _pools(world: World) -> list[Subject]:
    return world.kind("NodePool", group="karpenter.sh")


def _classes(world: World) -> list[Subject]:
    return world.kind("EC2NodeClass", group="karpenter.k8s.aws")


def api(world: World) -> Iterator[Hit]:
    """Objects of versions that nothing serves."""
    for subject in world.kind(*OLD_KINDS, *V1_KINDS):
        if subject.group not in OLD_GROUPS:
            continue
        if subject.kind in OLD_KINDS:
            instead = "EC2NodeClass" if subject.kind == "AWSNodeTemplate" else "NodePool"
            yield Hit(subject, ("kind",), f"{subject.kind} is gone since Karpenter 1.0; it is {instead} now")
        elif not subject.api.endswith("/v1"):
            yield Hit(subject, ("apiVersion",), f"{subject.api} is served by nothing since Karpenter 1.1")


# ---------------------------------------------------------------------- requirement keys

_INSTANCE = (
    "instance-family", "instance-size", "instance-category", "instance-generation", "instance-cpu",
    "instance-cpu-manufacturer", "instance-cpu-sustained-clock-speed-mhz", "instance-memory", "instance-gpu-name",
    "instance-gpu-manufacturer", "instance-gpu-count", "instance-gpu-memory", "instance-accelerator-name",
    "instance-accelerator-manufacturer", "instance-accelerator-count", "instance-local-nvme",
    "instance-network-bandwidth", "instance-ebs-bandwidth", "instance-hypervisor", "instance-tenancy",
    "instance-encryption-in-transit-supported", "instance-capability-flex",
)  # fmt: skip
_AWS_ONLY = (
    "capacity-reservation-id", "capacity-reservation-type", "capacity-reservation-interruptible", "ec2nodeclass",
    "placement-group-id", "placement-group-partition",
)  # fmt: skip
# Short name -> the key that is meant.
MEANT: Mapping[str, str] = {
    "instance-type": "node.kubernetes.io/instance-type",
    "capacity-type": "karpenter.sh/capacity-type",
    "arch": "kubernetes.io/arch",
    "os": "kubernetes.io/os",
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "lifecycle": "karpenter.sh/capacity-type",
}
_KNOWN_DOMAINS = re.compile(
    r"(?:[\w.-]+\.)?(?:kubernetes\.io|k8s\.io|karpenter\.sh|k8s\.aws|aws|amazonaws\.com|amazon\.com)"
)
_WELL_KNOWN = frozenset(
    {
        *MEANT.values(), "beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/windows-build", "topology.k8s.aws/zone-id", "topology.ebs.csi.aws.com/zone",
        "kubernetes.io/os", "node-restriction.kubernetes.io", "app.kubernetes.io",
    }
)  # fmt: skip
FORBIDDEN = ("kubernetes.io/hostname", "karpenter.sh/nodepool")


def key(world: World) -> Iterator[Hit]:
    """Keys that restrict nothing."""
    for subject in _pools(world):
        path: Path = ("spec", "template", "spec")
        spec = mapping(subject.get(*path))
        group = text(get(spec, "nodeClassRef", "group")) or "karpenter.k8s.aws"
        for index, item in mappings(spec.get("requirements")):
            written = text(item.get("key")) or ""
            problem = _key_problem(written, group)
            if problem:
                yield Hit(subject, (*path, "requirements", index, "key"), problem)


def _key_problem(written: str, group: str) -> str:
    """What is wrong with a requirement's key; empty where nothing is."""
    if written in FORBIDDEN:
        return f"requirement key {written} is not allowed: Karpenter sets it itself"
    domain, _, name = written.rpartition("/")
    wanted = "eks.amazonaws.com" if group == "eks.amazonaws.com" else "karpenter.k8s.aws"
    meant = MEANT.get(name) or (f"{wanted}/{name}" if name in (*_INSTANCE, *_AWS_ONLY) else "")
    if written in _WELL_KNOWN or not written:
        problem = ""
    elif domain in INSTANCE_DOMAINS:
        problem = _instance_problem(written, domain, name, wanted, meant)
    elif domain == "karpenter.sh":
        problem = (
            f"requirement key {written} is refused: below karpenter.sh only capacity-type is allowed"
            + _hint(meant)
        )
    else:  # without a domain or in one of Kubernetes or AWS it was meant to be a known label
        problem = (
            _custom(written, meant) if meant and (not domain or _KNOWN_DOMAINS.fullmatch(domain)) else ""
        )
    return problem


def _instance_problem(written: str, domain: str, name: str, wanted: str, meant: str) -> str:
    known = (
        name in _INSTANCE
        or name in _AWS_ONLY
        or (domain == "eks.amazonaws.com" and name in ("compute-type", "capacityType"))
    )
    if not known:
        return f"requirement key {written} is refused: Karpenter has no such label" + _hint(meant)
    if domain != wanted and name in _INSTANCE:
        who = "EKS Auto Mode" if wanted == "eks.amazonaws.com" else "Karpenter's EC2NodeClass"
        return f"requirement key {written} is not one of {who}; did you mean {wanted}/{name}?"
    return ""


def _custom(written: str, meant: str) -> str:
    return f"requirement key {written} is a custom label and restricts nothing; did you mean {meant}?"


def _hint(meant: str) -> str:
    return f"; did you mean {meant}?" if meant else ""


# ---------------------------------------------------------------------- values

_SPEC: Path = ("spec", "template", "spec")
_DURATION = re.compile(r"([0-9]+(s|m|h))+|Never")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# Path in an object -> the values its CRD allows. "*" stands for every element of a list.
ENUMS: Mapping[str, tuple[tuple[Path, tuple[str, ...]], ...]] = {
    "NodePool": (
        (
            ("spec", "disruption", "consolidationPolicy"),
            ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"),
        ),
        (("spec", "disruption", "budgets", "*", "reasons", "*"), ("Underutilized", "Empty", "Drifted")),
        ((*_SPEC, "taints", "*", "effect"), EFFECTS),
        ((*_SPEC, "startupTaints", "*", "effect"), EFFECTS),
        ((*_SPEC, "requirements", "*", "operator"), OPERATORS),
    ),
    "EC2NodeClass": (
        (
            ("spec", "amiFamily"),
            ("AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"),
        ),
        (("spec", "instanceStorePolicy"), ("RAID0",)),
        (("spec", "networkInterfaces", "*", "interfaceType"), ("interface", "efa-only")),
        (
            ("spec", "blockDeviceMappings", "*", "ebs", "volumeType"),
            ("standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"),
        ),
        (("spec", "metadataOptions", "httpEndpoint"), ("enabled", "disabled")),
        (("spec", "metadataOptions", "httpTokens"), ("required", "optional")),
        (("spec", "metadataOptions", "httpProtocolIPv6"), ("enabled", "disabled")),
    ),
}
# Requirement key -> the values that there are.
VALUES: Mapping[str, tuple[str, ...]] = {
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
}
ALIAS_FAMILIES = ("al2", "al2023", "bottlerocket", "windows2019", "windows2022", "windows2025")
_BEFORE = {"WhenUnderutilized": "WhenEmptyOrUnderutilized", "efa": "efa-only"}


def enum(world: World) -> Iterator[Hit]:
    """Values that the API server refuses."""
    for subject in (*_pools(world), *_classes(world)):
        for pattern, allowed in ENUMS[subject.kind]:
            for path, value in _values(subject.body, pattern):
                if value not in allowed:
                    yield Hit(
                        subject,
                        path,
                        _enum_message(
                            str(path[-1] if not isinstance(path[-1], int) else path[-2]), value, allowed
                        ),
                    )
    for subject in _pools(world):
        yield from _requirement_values(subject)
        yield from _durations(subject)
    for subject in _classes(world):
        yield from _aliases(subject)


def _enum_message(field: str, value: str, allowed: tuple[str, ...]) -> str:
    instead = _BEFORE.get(value)
    hint = f"; it is {instead} now" if instead in allowed else ""
    return f"{field} {value} is not one of {listed(allowed)}{hint}"


def _values(tree: object, pattern: Path, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if not pattern:
        found = text(tree)
        if found is not None:
            yield path, found
        return
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        for index, item in enumerate(items(tree)):
            yield from _values(item, rest, (*path, index))
    elif isinstance(tree, dict):
        yield from _values(tree.get(str(step)), rest, (*path, step))


def _requirement_values(subject: Subject) -> Iterator[Hit]:
    for index, item in mappings(subject.get(*_SPEC, "requirements")):
        name, path = text(item.get("key")) or "", (*_SPEC, "requirements", index)
        for place, value in enumerate(items(item.get("values"))):
            found, allowed = text(value), VALUES.get(name, ())
            if found is not None and allowed and found not in allowed:
                yield Hit(subject, (*path, "values", place), _enum_message(name, found, allowed))
        if item.get("operator") == "In" and isinstance(item.get("values"), list):
            least = whole(item.get("minValues"))
            if least is not None and least > len(items(item["values"])):
                message = f"minValues {least} is more than the {len(items(item['values']))} values of {name}"
                yield Hit(subject, (*path, "minValues"), message)


def _durations(subject: Subject) -> Iterator[Hit]:
    places: tuple[Path, ...] = (
        ("spec", "disruption", "consolidateAfter"), (*_SPEC, "expireAfter"), (*_SPEC, "terminationGracePeriod"),
    )  # fmt: skip
    for path in places:
        value = subject.get(*path)
        if isinstance(value, str) and not _DURATION.fullmatch(value):
            yield Hit(
                subject,
                path,
                f"{path[-1]} {value} is no duration of hours, minutes and seconds (there is no d)",
            )


def _aliases(subject: Subject) -> Iterator[Hit]:
    for index, term in mappings(subject.get("spec", "amiSelectorTerms")):
        alias = text(term.get("alias"))
        if alias is None:
            continue
        path: Path = ("spec", "amiSelectorTerms", index, "alias")
        family, at, version = alias.partition("@")
        if not at or not version:
            yield Hit(subject, path, f"alias {alias} has no version; write family@version")
        elif family.lower() not in ALIAS_FAMILIES:
            yield Hit(subject, path, f"alias family {family} is not one of {listed(ALIAS_FAMILIES)}")


# ---------------------------------------------------------------------- references and places


def node_class_ref(world: World) -> Iterator[Hit]:
    """References that are not whole."""
    for subject in _pools(world):
        path: Path = (*_SPEC, "nodeClassRef")
        reference = subject.get(*path)
        if is_hidden(reference) or subject.get("spec", "template") is None:
            continue
        body = mapping(reference)
        missing = [name for name in ("group", "kind", "name") if not body.get(name)]
        if "apiVersion" in body:
            message = f"nodeClassRef has apiVersion {text(body['apiVersion'])}; since v1 it has group, kind and name"
            yield Hit(subject, (*path, "apiVersion"), message)
        elif missing:
            yield Hit(subject, path, f"nodeClassRef lacks {listed(missing)}")


# Kind -> old place -> where it belongs.
PLACES: Mapping[str, Mapping[Path, str]] = {
    "NodePool": {
        ("spec", "disruption", "expireAfter"): "spec.template.spec.expireAfter",
        ("spec", "disruption", "terminationGracePeriod"): "spec.template.spec.terminationGracePeriod",
        ("spec", "expireAfter"): "spec.template.spec.expireAfter",
        ("spec", "terminationGracePeriod"): "spec.template.spec.terminationGracePeriod",
        (*_SPEC, "kubelet"): "spec.kubelet of the EC2NodeClass",
        (*_SPEC, "kubeletConfiguration"): "spec.kubelet of the EC2NodeClass",
        (*_SPEC, "resources"): "nothing: it was removed",
        (*_SPEC, "disruption"): "spec.disruption",
        (*_SPEC, "limits"): "spec.limits",
        ("spec", "template", "limits"): "spec.limits",
        ("spec", "requirements"): "spec.template.spec.requirements",
        ("spec", "taints"): "spec.template.spec.taints",
        ("spec", "startupTaints"): "spec.template.spec.startupTaints",
        ("spec", "labels"): "spec.template.metadata.labels",
        ("spec", "nodeClassRef"): "spec.template.spec.nodeClassRef",
        ("spec", "providerRef"): "spec.template.spec.nodeClassRef",
        ("spec", "kubeletConfiguration"): "spec.kubelet of the EC2NodeClass",
        ("spec", "consolidation"): "spec.disruption.consolidationPolicy",
        ("spec", "consolidationPolicy"): "spec.disruption.consolidationPolicy",
        ("spec", "consolidateAfter"): "spec.disruption.consolidateAfter",
        ("spec", "ttlSecondsAfterEmpty"): "spec.disruption.consolidateAfter",
        ("spec", "ttlSecondsUntilExpired"): "spec.template.spec.expireAfter",
    },
    "EC2NodeClass": {
        ("spec", "subnetSelector"): "spec.subnetSelectorTerms",
        ("spec", "securityGroupSelector"): "spec.securityGroupSelectorTerms",
        ("spec", "amiSelector"): "spec.amiSelectorTerms",
        ("spec", "launchTemplate"): "nothing: it was removed",
        ("spec", "requirements"): "spec.template.spec.requirements of the NodePool",
        ("spec", "taints"): "spec.template.spec.taints of the NodePool",
        ("spec", "limits"): "spec.limits of the NodePool",
    },
}


def moved(world: World) -> Iterator[Hit]:
    """Fields in the place of an older version."""
    for subject in (*_pools(world), *_classes(world)):
        for path, place in PLACES[subject.kind].items():
            if subject.get(*path) is not None:
                yield Hit(subject, path, f"{'.'.join(str(step) for step in path)} belongs to {place}")


def ami_terms(world: World) -> Iterator[Hit]:
    """Node classes without an AMI."""
    for subject in _classes(world):
        terms = subject.get("spec", "amiSelectorTerms")
        if not isinstance(terms, Hidden) and not items(terms):
            yield Hit(
                subject, ("spec", "amiSelectorTerms"), f"EC2NodeClass {subject.name} has no amiSelectorTerms"
            )


def primary(world: World) -> Iterator[Hit]:
    """Interfaces without the primary one."""
    for subject in _classes(world):
        found = [item for _, item in mappings(subject.get("spec", "networkInterfaces"))]
        is_primary = any(
            whole(item.get("networkCardIndex")) == 0
            and whole(item.get("deviceIndex")) == 0
            and item.get("interfaceType") == "interface"
            for item in found
        )
        if found and not is_primary:
            message = "networkInterfaces has no primary interface (card 0, device 0, interfaceType interface)"
            yield Hit(subject, ("spec", "networkInterfaces"), message)


RULES: Table = (
    (API, api), (KEY, key), (ENUM, enum), (NODE_CLASS_REF, node_class_ref), (MOVED, moved), (AMI_TERMS, ami_terms),
    (PRIMARY, primary),
)  # fmt: skip
