"""Node requirements: which instance types, capacity and labels a selector, an affinity or a NodePool allows."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from components.conventions import CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL, ZONE_LABEL
from guardrails.hardware import Hardware, ec2_types
from guardrails.values import is_hidden, items, mapping, mappings, number, text

# Labels that tell the instance type, below either domain: Karpenter's own and that of EKS Auto Mode.
INSTANCE_LABELS: Mapping[str, Callable[[Hardware], object]] = {
    "instance-family": lambda item: item.family,
    "instance-size": lambda item: item.size,
    "instance-category": lambda item: item.category,
    "instance-generation": lambda item: item.generation,
    "instance-cpu": lambda item: item.vcpus,
    "instance-memory": lambda item: item.memory_mib,
    "instance-gpu-count": lambda item: item.gpus if item.gpu else None,
    "instance-gpu-memory": lambda item: item.gpu_mib if item.gpu else None,
    "instance-gpu-manufacturer": lambda item: "nvidia" if item.gpu else None,
    "instance-gpu-name": lambda item: GPU_NAMES.get(item.gpu, item.gpu.lower()) if item.gpu else None,
    "instance-local-nvme": lambda item: item.nvme_gb or None,
}
GPU_NAMES: Mapping[str, str] = {"RTX PRO Server 6000": "rtx-pro-server-6000", "RTX PRO 4500": "rtx-pro-4500"}
INSTANCE_DOMAINS = ("karpenter.k8s.aws", "eks.amazonaws.com")
TYPE_LABELS = (INSTANCE_TYPE_LABEL, "beta.kubernetes.io/instance-type")
ARCH_LABELS = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
NODE_POOL_LABELS = ("karpenter.sh/nodepool", "eks.amazonaws.com/nodegroup")
CAPACITY_LABELS = (CAPACITY_TYPE_LABEL, "eks.amazonaws.com/capacityType")

# Labels that an agent or the cloud puts on nodes, so that no NodePool lists them.
AGENT_LABELS = re.compile(
    r"(?:nvidia\.com|feature\.node\.kubernetes\.io|topology\.[\w.-]+|node\.kubernetes\.io|kubernetes\.io|k8s\.io"
    r"|beta\.kubernetes\.io|failure-domain\.[\w.-]+|eks\.amazonaws\.com|karpenter\.k8s\.aws|karpenter\.sh"
    r"|k8s\.amazonaws\.com|vpc\.amazonaws\.com|alpha\.eksctl\.io|accelerator|aws\.amazon\.com|ray\.io)(?:/|$).*"
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One key, an operator and values, as in a node affinity or a NodePool. `index` is its place in the list."""

    key: str
    operator: str
    values: tuple[str, ...]
    index: int = 0
    hidden: bool = False

    def allows(self, value: object) -> bool:
        """Whether a label value (None: the label is absent) satisfies it."""
        if self.hidden:
            return True
        match self.operator:
            case "In":
                return value is not None and str(value) in self.values
            case "NotIn":
                return value is None or str(value) not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return self._compares(value)

    def _compares(self, value: object) -> bool:
        """Gt, Lt, Gte, Lte; an operator that is none of them restricts nothing that could be known."""
        have, bound = number(value), number(self.values[0]) if self.values else None
        if self.operator not in ("Gt", "Lt", "Gte", "Lte") or bound is None:
            return True
        if have is None:
            return False
        comparisons = {"Gt": have > bound, "Lt": have < bound, "Gte": have >= bound, "Lte": have <= bound}
        return comparisons[self.operator]


def requirement(body: dict[str, object], index: int = 0) -> Requirement:
    """A requirement from its mapping."""
    values = tuple(found for item in items(body.get("values")) if (found := text(item)) is not None)
    hidden = is_hidden(body.get("values")) or any(is_hidden(item) for item in items(body.get("values")))
    return Requirement(text(body.get("key")) or "", text(body.get("operator")) or "", values, index, hidden)


def requirements_of(listed: object) -> tuple[Requirement, ...]:
    """The requirements in a list."""
    return tuple(requirement(body, index) for index, body in mappings(listed))


def pod_terms(spec: Mapping[str, object]) -> tuple[tuple[Requirement, ...], ...]:
    """What a pod asks of its node: alternatives, in each of which every requirement must hold.

    nodeSelector holds in each; the terms of a required node affinity are the alternatives.
    """
    selector = tuple(
        Requirement(key, "In", (found,), hidden=is_hidden(value)) if (found := text(value)) is not None
        else Requirement(key, "Exists", (), hidden=True)
        for key, value in mapping(spec.get("nodeSelector")).items()
    )  # fmt: skip
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = [
        requirements_of(term.get("matchExpressions"))
        for _, term in mappings(required.get("nodeSelectorTerms"))
    ]
    return tuple((*selector, *term) for term in terms) or (selector,)


def instance_value(key: str) -> Callable[[Hardware], object] | None:
    """How a label's value follows from the instance type; None for a label that does not."""
    if key in TYPE_LABELS:
        return lambda item: item.name
    if key in ARCH_LABELS:
        return lambda item: item.arch
    domain, _, name = key.partition("/")
    return INSTANCE_LABELS.get(name) if domain in INSTANCE_DOMAINS else None


def allowed_types(requirements: Iterable[Requirement], types: Iterable[Hardware]) -> tuple[Hardware, ...]:
    """The types that satisfy every requirement that is about the instance type."""
    tests = [(instance_value(item.key), item) for item in requirements]
    checks = [(read, item) for read, item in tests if read is not None]
    return tuple(kind for kind in types if all(item.allows(read(kind)) for read, item in checks))


def types_for(requirements: Iterable[Requirement]) -> tuple[Hardware, ...]:
    """Of all instance types those that satisfy every requirement."""
    return _types_for(
        tuple(replace(item, index=0) for item in requirements if instance_value(item.key) is not None)
    )


@lru_cache(maxsize=2048)
def _types_for(requirements: tuple[Requirement, ...]) -> tuple[Hardware, ...]:
    return allowed_types(requirements, ec2_types().values())


def restricts_type(requirements: Iterable[Requirement]) -> bool:
    """Whether any of them is about the instance type (beyond its architecture)."""
    return any(
        instance_value(item.key) is not None and item.key not in ARCH_LABELS and not item.hidden
        for item in requirements
    )


def values_of(requirements: Iterable[Requirement], keys: Iterable[str]) -> Iterator[str]:
    """Values that `In` requirements on any of these keys list."""
    wanted = tuple(keys)
    for item in requirements:
        if item.key in wanted and item.operator == "In":
            yield from item.values


def zones_of(requirements: Iterable[Requirement]) -> tuple[str, ...]:
    """Zones that they allow; empty where they say nothing."""
    return tuple(values_of(requirements, (ZONE_LABEL,)))
