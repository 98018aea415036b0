"""What a pool may become, when it shrinks, and what it is made of: limits, consolidation, types that exist."""

from collections.abc import Iterator

from components.conventions import GPU_RESOURCE
from components.quantities import format_seconds
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.hardware import ec2_types, families, hardware, sizes
from guardrails.objects import Subject
from guardrails.pools import Pool
from guardrails.requirements import TYPE_LABELS, Requirement, instance_value
from guardrails.values import get, listed, mapping, mappings, text, texts
from guardrails.world import World

# Minutes that a model takes to load on a new node; consolidation that is faster works against the autoscaler.
LOAD_SECONDS = 300.0

NO_LIMITS = Rule(
    id="pool-without-limits",
    severity=Severity.ERROR,
    sentence="A NodePool has limits.",
    why="They are the only ceiling of the bill: a loop or a typing error launches GPU nodes without end.",
    remedy="set spec.limits, with nvidia.com/gpu for GPU pools",
    source="Karpenter docs, spec.limits; AWS EKS best practices",
    framework="AWS Well-Architected COST02",
    reads=("NodePool:spec.limits",),
)
NO_GPU_LIMIT = Rule(
    id="pool-without-gpu-limit",
    severity=Severity.WARN,
    sentence="A GPU pool limits its GPUs.",
    why="CPU and memory say little about the price of a GPU node.",
    remedy="add nvidia.com/gpu to spec.limits",
    source="Karpenter docs, spec.limits",
    framework="AWS Well-Architected COST02",
    reads=("NodePool:spec.limits",),
)
EMPTY = Rule(
    id="pool-empty",
    severity=Severity.ERROR,
    sentence="Some instance type satisfies all requirements of a pool.",
    why="Karpenter never launches a node for it.",
    remedy="remove or widen the requirement that contradicts the others",
    source="EC2 instance types; Karpenter well-known labels",
)
UNKNOWN_TYPE = Rule(
    id="pool-type-unknown",
    severity=Severity.ERROR,
    sentence="Instance families, types and sizes exist.",
    why="Karpenter passes over a name that EC2 does not have, in silence.",
    remedy="correct the name",
    source="EC2 instance types",
)
CONSOLIDATION = Rule(
    id="consolidation-aggressive",
    severity=Severity.WARN,
    sentence="A GPU pool is not consolidated faster than a model loads.",
    why="Serving pods are evicted as soon as load drops, and load minutes of weights again when it rises.",
    remedy="use WhenEmpty with 10m, or a longer consolidateAfter",
    source="LLMKube#658; AWS EKS best practices, AI/ML",
    reads=("NodePool:spec.disruption",),
)
NO_GRACE = Rule(
    id="pool-without-termination-grace",
    severity=Severity.WARN,
    sentence="A pool whose pods a PodDisruptionBudget can hold has a terminationGracePeriod.",
    why="A node under a blocked eviction hangs for ever, and is paid for.",
    remedy="set spec.template.spec.terminationGracePeriod, for example 15m",
    source="karpenter#1789, karpenter-provider-aws#6764, #7729",
    reads=("NodePool:spec.template.spec.terminationGracePeriod",),
)
HOUSE_FIELDS = Rule(
    id="house-pool-bounds",
    severity=Severity.ERROR,
    sentence="Every NodePool of this program has budgets, expireAfter, terminationGracePeriod and a consolidation delay.",
    why="Each of them bounds a way in which a node goes away or stays.",
    remedy="see components/manifests/node_pools.py",
    source="docs/decisions, nodes",
    profile=Profile.HOUSE,
    reads=("NodePool:spec.disruption", "NodePool:spec.template.spec.expireAfter"),
)


def no_limits(world: World) -> Iterator[Hit]:
    """Pools without a ceiling."""
    for pool in world.pools:
        static = pool.kind == "NodePool" and pool.subject.get("spec", "replicas") is not None
        if pool.kind != "NodeGroup" and pool.limits is None and not pool.limits_hidden and not static:
            name = "NodePool" if pool.kind == "NodePool" else "pool"
            yield Hit(pool.subject, pool.path("limits"), f"{name} {pool.name} has no limits")
    for subject in world.by_kind.get("Provisioner", []):
        if not mapping(subject.get("spec", "limits")):
            yield Hit(subject, ("spec", "limits"), f"Provisioner {subject.name} has no limits")


def no_gpu_limit(world: World) -> Iterator[Hit]:
    """GPU pools that count CPU and memory only."""
    for pool in world.pools:
        if (
            pool.is_gpu
            and pool.kind != "NodeGroup"
            and pool.limits
            and not {GPU_RESOURCE, "nodes"} & set(pool.limits)
        ):
            message = f"GPU pool {pool.name} limits {listed(sorted(pool.limits))}, not {GPU_RESOURCE}"
            yield Hit(pool.subject, pool.path("limits"), message)


# ---------------------------------------------------------------------- types


def _bad_values(item: Requirement) -> list[str]:
    """Families and types of a requirement that EC2 does not have.

    A size or a GPU that no type has makes the pool empty, and pool-empty says so.
    """
    if item.operator != "In" or item.hidden:
        return []
    if item.key in TYPE_LABELS:
        return [value for value in item.values if hardware(value) is None and not _is_retired(value)]
    if instance_value(item.key) is None or not item.key.endswith("/instance-family"):
        return []
    return [value for value in item.values if value not in families()]


def _is_retired(name: str) -> bool:
    return name.partition(".")[0] in families() and "." in name and name.partition(".")[2] in sizes()


def unknown_type(world: World) -> Iterator[Hit]:
    """Names that EC2 does not have."""
    for pool in world.pools:
        for item in pool.requirements:
            bad = _bad_values(item)
            if bad:
                path: Path = (*pool.path("requirements"), item.index, "values")
                rest = len(item.values) > len(bad)
                message = f"{item.key}: EC2 has no {listed(bad, 'or')}" + (
                    "" if rest else ", so the pool is empty"
                )
                yield Hit(pool.subject, path, message, Severity.WARN if rest else None)
    for stack in world.stacks:
        for facts in stack.pools:
            bad = [name for name in facts.instance_types if hardware(name) is None and not _is_retired(name)]
            if bad and not stack.house:
                rest = len(facts.instance_types) > len(bad)
                subject = world.stack_subject(stack, facts.name, "pool")
                message = f"EC2 has no {listed(bad, 'or')}"
                yield Hit(subject, (*facts.path, "instance_types"), message, Severity.WARN if rest else None)
    yield from _groups(world)


def _groups(world: World) -> Iterator[Hit]:
    for pool in world.pools:
        if pool.kind != "NodeGroup":
            continue
        named = pool.subject.get("instanceTypes")
        names = [text(value) or "" for value in (named if isinstance(named, list) else [])]
        bad = [name for name in names if name and hardware(name) is None and not _is_retired(name)]
        if bad:
            severity = Severity.WARN if len(bad) < len(names) else None
            yield Hit(
                pool.subject,
                ("instanceTypes",),
                f"node group {pool.name}: EC2 has no {listed(bad, 'or')}",
                severity,
            )


def empty(world: World) -> Iterator[Hit]:
    """Requirements that exclude each other."""
    for pool in world.pools:
        if pool.kind != "NodePool" or pool.types or any(_is_all_bad(item) for item in pool.requirements):
            continue
        deciding = [item for item in pool.requirements if instance_value(item.key) is not None]
        if deciding and not _names_retired(deciding):
            words = listed([_words(item) for item in deciding])
            yield Hit(pool.subject, pool.path("requirements"), f"no instance type satisfies {words} together")


def _is_all_bad(item: Requirement) -> bool:
    bad = _bad_values(item)
    return bool(bad) and len(bad) == len(item.values)


def _names_retired(deciding: list[Requirement]) -> bool:
    """Whether a family is asked for that the table no longer describes, so that nothing can be said."""
    described = {item.family for item in ec2_types().values()}
    return any(
        value.partition(".")[0] in families() - described
        for item in deciding
        if item.key in TYPE_LABELS or item.key.endswith("/instance-family")
        for value in item.values
    )


def _words(item: Requirement) -> str:
    values = f" {','.join(item.values)}" if item.values else ""
    return f"{item.key.rpartition('/')[2]} {item.operator}{values}"


# ---------------------------------------------------------------------- going away


def consolidation(world: World) -> Iterator[Hit]:
    """GPU pools that are consolidated while they serve."""
    for pool in world.pools:
        if not (pool.is_gpu or (pool.kind == "stack" and pool.gpu_types)) or _never_disrupts(pool):
            continue
        policy = pool.consolidation or (
            "WhenEmptyOrUnderutilized" if pool.consolidate_after is not None else None
        )
        delay = 0.0 if pool.consolidate_after is None else pool.consolidate_after
        if policy == "WhenEmptyOrUnderutilized" and delay < LOAD_SECONDS:
            message = (
                f"GPU pool {pool.name} is consolidated by {policy} after {format_seconds(delay)}, "
                f"sooner than a model loads ({format_seconds(LOAD_SECONDS)})"
            )
            yield Hit(
                pool.subject, pool.path("consolidation" if "consolidation" in pool.at else "after"), message
            )


def _never_disrupts(pool: Pool) -> bool:
    """Whether a budget without a window forbids it."""
    budgets = mappings(get(pool.subject.body, "spec", "disruption", "budgets"))
    return any(
        text(budget.get("nodes")) in ("0", "0%")
        and budget.get("schedule") is None
        and (not budget.get("reasons") or "Underutilized" in texts(budget.get("reasons")))
        for _, budget in budgets
    )


def no_grace(world: World) -> Iterator[Hit]:
    """Pools without a bound on drains, under a budget that can hold their pods."""
    for pool in world.pools:
        if pool.kind != "NodePool" or pool.termination_grace is not None:
            continue
        if pool.subject.get("spec", "template", "spec", "terminationGracePeriod") is not None:
            continue
        held = _holding_budget(world, pool)
        if held is not None:
            message = (
                f"NodePool {pool.name} has no terminationGracePeriod, and {held.label} can hold its pods"
            )
            yield Hit(pool.subject, pool.path("grace"), message)


def _holding_budget(world: World, pool: Pool) -> Subject | None:
    """A PodDisruptionBudget on pods that may run on the pool."""
    for budget in world.kind("PodDisruptionBudget"):
        for pod in world.selected_pods(budget.get("spec", "selector"), (budget.namespace,)):
            if any(found is pool for found, _ in world.reachable(pod)):
                return budget
    return None


def house_fields(world: World) -> Iterator[Hit]:
    """NodePools of this program without the bounds that they all have."""
    wanted: tuple[tuple[Path, str], ...] = (
        (("spec", "disruption", "budgets"), "disruption budgets"),
        (("spec", "disruption", "consolidateAfter"), "consolidateAfter"),
        (("spec", "template", "spec", "expireAfter"), "expireAfter"),
        (("spec", "template", "spec", "terminationGracePeriod"), "terminationGracePeriod"),
    )
    for pool in world.pools:
        if pool.kind == "NodePool":
            missing = [(path, name) for path, name in wanted if pool.subject.get(*path) is None]
            if missing:
                message = f"NodePool {pool.name} lacks {listed([name for _, name in missing])}"
                yield Hit(pool.subject, missing[0][0], message)


RULES: Table = (
    (NO_LIMITS, no_limits), (NO_GPU_LIMIT, no_gpu_limit), (EMPTY, empty), (UNKNOWN_TYPE, unknown_type),
    (CONSOLIDATION, consolidation), (NO_GRACE, no_grace), (HOUSE_FIELDS, house_fields),
)  # fmt: skip
