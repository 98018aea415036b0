"""Karpenter objects as the v1 API takes them: versions, references, and where fields belong now."""

from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.rules.karpenter_values import SPEC, classes, pools
from guardrails.values import Hidden, is_hidden, items, listed, mapping, mappings, text, whole
from guardrails.world import World

API = Rule(
    id="karpenter-api-old",
    severity=Severity.ERROR,
    sentence="Karpenter objects are of API version v1.",
    why="v1beta1 and older are served by nothing since Karpenter 1.1; the API server refuses the objects.",
    remedy="use karpenter.sh/v1 NodePool and karpenter.k8s.aws/v1 EC2NodeClass",
    source="Karpenter upgrade guide; terraform-aws-eks#3244",
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


# ---------------------------------------------------------------------- references and places


def node_class_ref(world: World) -> Iterator[Hit]:
    """References that are not whole."""
    for subject in pools(world):
        path: Path = (*SPEC, "nodeClassRef")
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
        (*SPEC, "kubelet"): "spec.kubelet of the EC2NodeClass",
        (*SPEC, "kubeletConfiguration"): "spec.kubelet of the EC2NodeClass",
        (*SPEC, "resources"): "nothing: it was removed",
        (*SPEC, "disruption"): "spec.disruption",
        (*SPEC, "limits"): "spec.limits",
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
    for subject in (*pools(world), *classes(world)):
        for path, place in PLACES[subject.kind].items():
            if subject.get(*path) is not None:
                yield Hit(subject, path, f"{'.'.join(str(step) for step in path)} belongs to {place}")


def ami_terms(world: World) -> Iterator[Hit]:
    """Node classes without an AMI."""
    for subject in classes(world):
        terms = subject.get("spec", "amiSelectorTerms")
        if not isinstance(terms, Hidden) and not items(terms):
            yield Hit(
                subject, ("spec", "amiSelectorTerms"), f"EC2NodeClass {subject.name} has no amiSelectorTerms"
            )


def primary(world: World) -> Iterator[Hit]:
    """Interfaces without the primary one."""
    for subject in classes(world):
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
    (API, api), (NODE_CLASS_REF, node_class_ref), (MOVED, moved), (AMI_TERMS, ami_terms),
    (PRIMARY, primary),
)  # fmt: skip
