"""Pods against one node, and the limits of a pool against one node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from components.conventions import GPU_RESOURCE
from components.quantities import format_bytes, format_number
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.hardware import Hardware
from guardrails.pods import Pod
from guardrails.pools import Pool
from guardrails.values import listed
from guardrails.world import World

MIB = 2.0**20
# Karpenter takes this part of a type's memory for the hypervisor before it compares with limits (vmMemoryOverheadPercent).
USABLE_MEMORY = 0.925

CANNOT_FIT = Rule(
    id="pod-fits-no-node",
    severity=Severity.ERROR,
    sentence="Some instance type that a pod may use has the CPU, memory and GPUs that it asks for.",
    why="The kubelet, the system and DaemonSets take their part: no instance type had enough resources.",
    remedy="ask for less than the type's allocatable resources, or allow a larger type",
    source="karpenter-provider-aws#6475; Karpenter instance types reference",
    reads=("pod:containers.*.resources.requests",),
)
LIMIT_BELOW_NODE = Rule(
    id="pool-limit-below-node",
    severity=Severity.ERROR,
    sentence="A pool's limits hold at least one of its nodes, and one replica of each of its models.",
    why="Karpenter launches nothing that would pass the limit, so the pool stays empty.",
    remedy="set limits of one node times the nodes you want",
    source="Karpenter docs, spec.limits",
    reads=("NodePool:spec.limits",),
)


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod asks of a node."""

    cpu: float
    memory_mib: float
    gpus: int

    def fits(self, item: Hardware, max_pods: int | None, daemons: "Ask") -> bool:
        """Whether a node of this type has room for it beside the DaemonSets."""
        return (
            self.cpu + daemons.cpu <= item.allocatable_cpu + 1e-9
            and self.memory_mib + daemons.memory_mib <= item.allocatable_mib(max_pods)
            and self.gpus <= item.gpus
        )


def ask_of(pod: Pod) -> Ask:
    """A pod's requests."""
    cpu, memory = pod.asks
    return Ask(cpu, memory / MIB, pod.gpus)


NOTHING = Ask(0, 0, 0)


def _daemons(world: World, pool: Pool | None) -> Ask:
    """What the DaemonSets among the objects take of each node of a pool."""
    pods = world.daemons_on(pool) if pool is not None else []
    if not pods:
        return NOTHING
    return Ask(sum(pod.asks[0] for pod in pods), sum(pod.asks[1] for pod in pods) / MIB, 0)


def _places(world: World, pod: Pod) -> list[tuple[Pool | None, tuple[Hardware, ...]]]:
    """Types that a pod may use, with the pool; only where both are known."""
    found = [(pool, types) for pool, types in world.reachable(pod) or world.candidates(pod)]
    if any(not pool.restricted for pool, _ in found):
        return []  # a pool of any type has one that is large enough
    if found:
        return [(pool, types) for pool, types in found]
    own = world.hardware.get(pod, ())
    return [(None, own)] if own else []


def cannot_fit(world: World) -> Iterator[Hit]:
    """Pods that are larger than every node they may use."""
    for pod in world.pods:
        if pod.owner.kind == "DaemonSet":
            continue
        places, ask = _places(world, pod), ask_of(pod)
        if not places and pod.gpus:
            places = [(pool, pool.types) for pool, _ in world.candidates(pod) if pool.restricted]
        if _has_room(world, ask, places):
            continue
        types = [(item, pool) for pool, found in places for item in found]
        if not types:
            continue
        item, pool = max(types, key=lambda place: (place[0].gpus >= ask.gpus, place[0].memory_mib))
        path: Path = (*pod.spec_path, "containers", 0, "resources", "requests")
        yield Hit(pod.owner, path, f"{pod.label} asks for {_short(ask, item, pool, world)}")


def _has_room(world: World, ask: Ask, places: Sequence[tuple[Pool | None, tuple[Hardware, ...]]]) -> bool:
    """Whether any type of any place takes the pod."""
    for pool, types in places:
        max_pods, daemons = pool.max_pods if pool else None, _daemons(world, pool)
        if any(ask.fits(item, max_pods, daemons) for item in types):
            return True
    return False


def _short(ask: Ask, item: Hardware, pool: Pool | None, world: World) -> str:
    """What is missing on the largest type."""
    daemons, max_pods = _daemons(world, pool), pool.max_pods if pool else None
    lacks = []
    if ask.gpus > item.gpus:
        lacks.append(f"{ask.gpus} GPUs ({item.name} has {item.gpus})")
    if ask.memory_mib + daemons.memory_mib > item.allocatable_mib(max_pods):
        beside = f" beside {daemons.memory_mib:.0f}Mi of DaemonSets" if daemons.memory_mib else ""
        lacks.append(
            f"{ask.memory_mib:.0f}Mi of memory ({item.name} gives pods {item.allocatable_mib(max_pods)}Mi{beside})"
        )
    if ask.cpu + daemons.cpu > item.allocatable_cpu:
        lacks.append(
            f"{format_number(ask.cpu)} CPU ({item.name} gives pods {format_number(item.allocatable_cpu)})"
        )
    return f"{listed(lacks)}; no larger type is allowed" if lacks else "more than any allowed type has"


# ---------------------------------------------------------------------- limits against one node


def _over(item: Hardware, limits: dict[str, float]) -> list[str]:
    """Limits that one node of a type already passes."""
    sizes = {
        "cpu": float(item.vcpus),
        "memory": item.memory_mib * MIB * USABLE_MEMORY,
        GPU_RESOURCE: float(item.gpus),
    }
    return [name for name, size in sizes.items() if name in limits and size > limits[name]]


def limit_below_node(world: World) -> Iterator[Hit]:
    """Limits that not even one node, or one replica, stays below."""
    for pool in world.pools:
        if not pool.limits or not pool.types or not pool.restricted:
            continue
        types = _needed_types(world, pool)
        over = [(item, _over(item, dict(pool.limits))) for item in types]
        if types and all(names for _, names in over):
            item, names = min(over, key=lambda pair: pair[0].vcpus)
            path: Path = (*pool.path("limits"), _limit_key(pool, names[0]))
            yield Hit(
                pool.subject,
                path,
                f"pool {pool.name}: {_limit(pool, names[0])} is below one {item.name}, {_size(item, names[0])}",
            )
    yield from _replicas_above_limit(world)


def _limit_key(pool: Pool, name: str) -> str:
    return "gpus" if pool.kind == "stack" and name == GPU_RESOURCE else name


def _limit(pool: Pool, name: str) -> str:
    value = (pool.limits or {})[name]
    return f"the {name} limit {format_bytes(value) if name == 'memory' else format_number(value)}"


def _size(item: Hardware, name: str) -> str:
    sizes = {
        "cpu": f"{item.vcpus} vCPU",
        "memory": f"{item.memory_mib // 1024}Gi",
        GPU_RESOURCE: f"{item.gpus} GPUs",
    }
    return f"which has {sizes[name]}"


def _needed_types(world: World, pool: Pool) -> tuple[Hardware, ...]:
    """Types of a pool that what lands on it can use; all of them where nothing does."""
    asks = [ask_of(pod) for pod in world.pods_on(pool)]
    for stack in world.stacks:
        if pool.kind == "stack" and pool.subject is world.stack_subject(stack, pool.name, "pool"):
            asks += [Ask(0, 0, model.tensor_parallel) for model in stack.models if model.pool == pool.name]
    largest = max((ask.gpus for ask in asks), default=0)
    return tuple(item for item in pool.types if item.gpus >= largest) or pool.types


def pools_of(world: World, pods: Sequence[Pod]) -> list[Pool]:
    """Pools that some pods can land on."""
    return list(dict.fromkeys(pool for pod in pods for pool, _ in world.reachable(pod) if pool.gpu_types))


def _replicas_above_limit(world: World) -> Iterator[Hit]:
    """One replica of an engine over several pods needs more GPUs than the pool may own."""
    for engine in world.engines:
        if engine.model is not None or engine.pp == 1:
            continue
        workers = [pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.gpus]
        for pool in pools_of(world, workers):
            if pool.limit_gpus is not None and engine.gpus > pool.limit_gpus >= engine.tp:
                message = f"one replica of {engine.name} needs {engine.gpus} GPUs; {pool.kind} {pool.name} may have {pool.limit_gpus:g}"
                yield Hit(pool.subject, (*pool.path("limits"), GPU_RESOURCE), message)


RULES: Table = (
    (CANNOT_FIT, cannot_fit),
    (LIMIT_BELOW_NODE, limit_below_node),
)
