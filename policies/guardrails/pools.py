"""Pools of nodes: Karpenter NodePools, managed node groups, and the pools of a stack, in one view."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from components.conventions import GPU_RESOURCE
from components.quantities import seconds_or_none
from guardrails.core import Path
from guardrails.hardware import Hardware, hardware_of
from guardrails.objects import Subject
from guardrails.requirements import (
    AGENT_LABELS,
    CAPACITY_LABELS,
    NODE_POOL_LABELS,
    Requirement,
    allowed_types,
    instance_value,
    requirements_of,
    restricts_type,
    types_for,
    values_of,
    zones_of,
)
from guardrails.stack import PoolFacts
from guardrails.taints import BLOCKING, Taint, taints_of
from guardrails.values import UNKNOWN, get, mapping, mappings, number, text, texts, whole

_SPEC: Path = ("spec", "template", "spec")
AUTO_MODE_MAX_PODS = 110
PRICED_TYPES = ("spot", "on-demand", "reserved")


@dataclass(eq=False)
class NodeClass:
    """An EC2NodeClass (or Auto Mode's NodeClass)."""

    subject: Subject

    @property
    def spec(self) -> dict[str, object]:
        """Its spec."""
        return mapping(self.subject.body.get("spec"))

    @cached_property
    def aliases(self) -> list[tuple[int, str]]:
        """AMI aliases with their index."""
        terms = mappings(self.spec.get("amiSelectorTerms"))
        return [(index, alias) for index, term in terms if (alias := text(term.get("alias")))]

    @cached_property
    def family(self) -> str:
        """AMI family in lower case ("bottlerocket", "al2023", "al2"); empty where it is not said."""
        named = text(self.spec.get("amiFamily")) or ""
        return (named or next((alias.partition("@")[0] for _, alias in self.aliases), "")).lower()

    @property
    def max_pods(self) -> int | None:
        """kubelet.maxPods."""
        return whole(get(self.spec, "kubelet", "maxPods"))

    @property
    def raid0(self) -> bool:
        """Whether images and pods lie on the instance's own disks."""
        return self.spec.get("instanceStorePolicy") == "RAID0"


@dataclass(eq=False)
class Pool:
    """Nodes of one kind. `at` says where a value stands, for findings."""

    subject: Subject
    name: str
    kind: str  # NodePool, NodeGroup or stack
    requirements: tuple[Requirement, ...] = ()
    types: tuple[Hardware, ...] = ()
    restricted: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    limits: Mapping[str, float] | None = None  # None: no limits at all
    limits_hidden: bool = False
    taints_known: bool = True
    consolidation: str | None = None
    consolidate_after: float | None = None
    termination_grace: float | None = None
    node_class: NodeClass | None = None
    ami_alias: str | None = None
    max_nodes: int | None = None
    auto_mode: bool = False
    at: Mapping[str, Path] = field(default_factory=dict)

    def path(self, what: str) -> Path:
        """Where a value stands."""
        return self.at.get(what, self.at.get("", ()))

    @cached_property
    def is_gpu(self) -> bool:
        """Whether every node of the pool has an NVIDIA GPU."""
        return self.restricted and bool(self.types) and all(item.gpu for item in self.types)

    @cached_property
    def gpu_types(self) -> tuple[Hardware, ...]:
        """Types with whole GPUs."""
        return tuple(item for item in self.types if item.gpus)

    @property
    def limit_gpus(self) -> float | None:
        """GPUs that it may own."""
        return (self.limits or {}).get(GPU_RESOURCE)

    @cached_property
    def blocking_taints(self) -> tuple[Taint, ...]:
        """Taints that keep pods away."""
        return tuple(taint for taint in self.taints if taint.effect in BLOCKING)

    @property
    def max_pods(self) -> int | None:
        """kubelet.maxPods where it is known."""
        if self.auto_mode:
            return AUTO_MODE_MAX_PODS
        return self.node_class.max_pods if self.node_class else None


def node_pools(subjects: Iterable[Subject], classes: Mapping[str, NodeClass]) -> Iterator[Pool]:
    """Pools of the Karpenter NodePools among the objects."""
    for subject in subjects:
        if subject.kind == "NodePool" and subject.group == "karpenter.sh":
            yield _node_pool(subject, classes)


def _node_pool(subject: Subject, classes: Mapping[str, NodeClass]) -> Pool:
    spec = mapping(subject.get(*_SPEC))
    requirements = requirements_of(spec.get("requirements"))
    limits, disruption = subject.get("spec", "limits"), mapping(subject.get("spec", "disruption"))
    reference = mapping(spec.get("nodeClassRef"))
    node_class = classes.get(text(reference.get("name")) or "")
    grace = spec.get("terminationGracePeriod", disruption.get("terminationGracePeriod"))
    labels = mapping(subject.get("spec", "template", "metadata", "labels"))
    return Pool(
        subject=subject,
        name=subject.name,
        kind="NodePool",
        requirements=requirements,
        types=types_for(requirements),
        restricted=restricts_type(requirements),
        labels={key: text(value) or "" for key, value in labels.items()},
        taints=taints_of(spec.get("taints")),
        capacity=tuple(value for value in values_of(requirements, CAPACITY_LABELS) if value in PRICED_TYPES),
        zones=zones_of(requirements),
        limits=_limits(limits),
        limits_hidden=limits is UNKNOWN,
        taints_known=spec.get("taints") is not UNKNOWN,
        consolidation=text(disruption.get("consolidationPolicy")),
        consolidate_after=seconds_or_none(disruption.get("consolidateAfter")),
        termination_grace=seconds_or_none(grace),
        node_class=node_class,
        ami_alias=next((alias for _, alias in node_class.aliases), None) if node_class else None,
        auto_mode=text(reference.get("group")) == "eks.amazonaws.com",
        at={
            "": ("spec",), "limits": ("spec", "limits"), "taints": (*_SPEC, "taints"),
            "requirements": (*_SPEC, "requirements"), "consolidation": ("spec", "disruption", "consolidationPolicy"),
            "after": ("spec", "disruption", "consolidateAfter"), "grace": (*_SPEC, "terminationGracePeriod"),
        },
    )  # fmt: skip


def _limits(value: object) -> Mapping[str, float] | None:
    if not isinstance(value, dict) or not value:
        return None
    return {key: found for key, item in value.items() if (found := number(item)) is not None}


GROUP_TYPES = (
    "aws:eks/nodeGroup:NodeGroup", "eks:index:ManagedNodeGroup", "eks:index/managedNodeGroup:ManagedNodeGroup",
)  # fmt: skip


def node_groups(subjects: Iterable[Subject]) -> Iterator[Pool]:
    """Pools of the managed node groups among the resources."""
    for subject in subjects:
        if subject.api not in GROUP_TYPES:
            continue
        body = subject.body
        types = hardware_of(tuple(texts(body.get("instanceTypes"))))
        capacity = text(body.get("capacityType"))
        labels = mapping(body.get("labels"))
        yield Pool(
            subject=subject,
            name=text(body.get("nodeGroupName")) or subject.name,
            kind="NodeGroup",
            types=types,
            restricted=bool(types),
            labels={key: text(value) or "" for key, value in labels.items()},
            taints=taints_of(body.get("taints")),
            capacity=({"SPOT": "spot", "ON_DEMAND": "on-demand"}.get(capacity or "ON_DEMAND", "reserved"),),
            limits={},
            max_nodes=whole(get(body, "scalingConfig", "maxSize")),
            at={
                "": (),
                "taints": ("taints",),
                "types": ("instanceTypes",),
                "limits": ("scalingConfig", "maxSize"),
            },
        )


def stack_pool(facts: PoolFacts, subject: Subject) -> Pool:
    """The pool of a stack's settings."""
    types = hardware_of(facts.instance_types)
    limits = {GPU_RESOURCE: facts.gpus, "cpu": facts.cpu, "memory": facts.memory}
    return Pool(
        subject=subject,
        name=facts.name,
        kind="stack",
        types=types,
        restricted=bool(types),
        taints=facts.taints or (),
        taints_known=facts.taints is not None,
        capacity=facts.capacity,
        zones=facts.zones,
        limits={key: value for key, value in limits.items() if value is not None} if facts.has_limits else None,
        consolidation=facts.consolidation,
        consolidate_after=facts.consolidate_after,
        termination_grace=facts.termination_grace,
        ami_alias=facts.ami_alias,
        at={
            "": facts.path, "limits": (*facts.path, "limits"), "types": (*facts.path, "instanceTypes"),
            "grace": (*facts.path, "terminationGracePeriod"), "after": (*facts.path, "disruption", "consolidateAfter"),
            "ami": (*facts.path, "amiAlias"),
        },
    )  # fmt: skip


def selects(terms: tuple[tuple[Requirement, ...], ...], pool: Pool) -> tuple[Hardware, ...] | None:
    """The pool's types that a pod's node selector and affinity allow; None where the pool can be none of its nodes."""
    for term in terms:
        if all(_label_fits(item, pool) for item in term):
            types = allowed_types(term, pool.types)
            if types or not pool.types:
                return types
    return None


def _label_fits(item: Requirement, pool: Pool) -> bool:
    """Whether a pool's nodes can satisfy a requirement that is not about the instance type."""
    if item.hidden or instance_value(item.key) is not None:
        return True
    if item.key in NODE_POOL_LABELS:
        same_kind = (item.key == NODE_POOL_LABELS[0]) == (pool.kind != "NodeGroup")
        return item.allows(pool.name if same_kind else None)
    if item.key in CAPACITY_LABELS:
        wanted = [value.lower().replace("_", "-") for value in item.values]
        return not pool.capacity or item.operator != "In" or any(value in pool.capacity for value in wanted)
    if item.key in pool.labels:
        return item.allows(pool.labels[item.key])
    given = [own for own in pool.requirements if own.key == item.key]
    if given:
        return any(own.allows(value) for own in given for value in item.values) or item.operator != "In"
    return (
        item.operator in ("NotIn", "DoesNotExist")
        or bool(AGENT_LABELS.fullmatch(item.key))
        or pool.kind == "stack"
    )
