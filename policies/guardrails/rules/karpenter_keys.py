"""Requirement keys of NodePools."""

import re
from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.requirements import INSTANCE_DOMAINS
from guardrails.rules.karpenter_values import pools
from guardrails.values import get, mapping, mappings, text
from guardrails.world import World

KEY = Rule(
    id="karpenter-key-unknown",
    severity=Severity.ERROR,
    sentence="A requirement's key is a label that Karpenter knows, or clearly one of your own.",
    why="An unknown key is taken as a custom label: the pool is not restricted, and any type may launch.",
    remedy="use the full name, for example node.kubernetes.io/instance-type",
    source="kubernetes-sigs/karpenter pkg/apis/v1/labels.go; karpenter-provider-aws#7513",
)


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
    for subject in pools(world):
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


RULES: Table = ((KEY, key),)
