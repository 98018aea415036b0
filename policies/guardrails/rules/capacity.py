"""Pods against nodes, and workloads against what their pool may grow to."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from components.conventions import GPU_RESOURCE
from components.quantities import format_bytes, format_number
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.hardware import Hardware
from guardrails.objects import Subject
from guardrails.pods import NO_LIMIT, Pod
from guardrails.pools import Pool
from guardrails.stack import ModelFacts, PoolFacts, StackFacts
from guardrails.values import get, listed, number, text
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
UPGRADE = Rule(
    id="upgrade-needs-double",
    severity=Severity.WARN,
    sentence="A pool's limit has room for a second copy of a RayService while it is upgraded.",
    why="The default strategy starts a whole new cluster beside the old one; without room it never ends.",
    remedy="raise the limit, set upgradeStrategy.type None and plan the downtime, or upgrade incrementally",
    source="kuberay#1476, kuberay#4239, kuberay PR 1564",
    reads=("NodePool:spec.limits",),
)
REPLICAS = Rule(
    id="replicas-exceed-pool",
    severity=Severity.ERROR,
    sentence="The replicas that a workload may have fit into its pool's limits.",
    why="The last replicas stay pending for ever, and requests wait for them.",
    remedy="raise the pool's limits, or lower the most replicas",
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


def _replicas_above_limit(world: World) -> Iterator[Hit]:
    """One replica of an engine over several pods needs more GPUs than the pool may own."""
    for engine in world.engines:
        if engine.model is not None or engine.pp == 1:
            continue
        workers = [pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.gpus]
        for pool in _pools_of(world, workers):
            if pool.limit_gpus is not None and engine.gpus > pool.limit_gpus >= engine.tp:
                message = f"one replica of {engine.name} needs {engine.gpus} GPUs; {pool.kind} {pool.name} may have {pool.limit_gpus:g}"
                yield Hit(pool.subject, (*pool.path("limits"), GPU_RESOURCE), message)


def _pools_of(world: World, pods: Sequence[Pod]) -> list[Pool]:
    """Pools that some pods can land on."""
    return list(dict.fromkeys(pool for pod in pods for pool, _ in world.reachable(pod) if pool.gpu_types))


# ---------------------------------------------------------------------- replicas against limits


def nodes_for(count: float, ask: Ask, item: Hardware) -> float:
    """Nodes of a type that so many pods need, by their GPUs, CPU and memory."""
    per_node = min(
        item.gpus // ask.gpus if ask.gpus else math.inf,
        math.floor(item.allocatable_cpu / ask.cpu) if ask.cpu else math.inf,
        math.floor(item.allocatable_mib() / ask.memory_mib) if ask.memory_mib else math.inf,
    )
    return math.ceil(count / max(1, per_node)) if math.isfinite(per_node) else 1


def room(pool: Pool, ask: Ask, types: Sequence[Hardware]) -> float:
    """How many pods of a kind a pool's limits allow at most, over the types it may choose."""
    best = 0.0
    for item in types or pool.types:
        if ask.gpus > item.gpus:
            continue
        nodes = min(
            _nodes_allowed(pool, item), float(pool.max_nodes) if pool.max_nodes is not None else math.inf
        )
        if math.isinf(nodes):
            return math.inf
        per_node = item.gpus // ask.gpus if ask.gpus else math.inf
        whole_nodes = math.floor(nodes) * per_node
        best = max(best, whole_nodes)
    return best


def _nodes_allowed(pool: Pool, item: Hardware) -> float:
    limits = pool.limits or {}
    sizes = {
        "cpu": float(item.vcpus),
        "memory": item.memory_mib * MIB * USABLE_MEMORY,
        GPU_RESOURCE: float(item.gpus),
    }
    allowed = [limits[name] / size for name, size in sizes.items() if name in limits and size]
    if "nodes" in limits:
        allowed.append(limits["nodes"])
    return min(allowed, default=math.inf)


def _room(world: World, pod: Pod) -> tuple[float, Pool | None]:
    """Pods of a kind that all reachable pools together allow, and the first of these pools."""
    found = [(pool, types) for pool, types in world.reachable(pod) if pool.gpu_types]
    if not found or any(not pool.restricted for pool, _ in found):
        return math.inf, None
    return sum(
        room(pool, ask_of(pod), [item for item in types if item.gpus]) for pool, types in found
    ), found[0][0]


def replicas(world: World) -> Iterator[Hit]:
    """Workloads whose most replicas pass their pool's limits."""
    for pod in world.pods:
        if not pod.gpus:
            continue
        allowed, pool = _room(world, pod)
        if pool is None or math.isinf(allowed):
            continue
        for count, subject, path, what, severity in _ceilings(world, pod):
            pods = count * pod.hosts
            if pods > allowed:
                message = f"{what} needs {_gpus(pods * pod.gpus)}; {pool.kind} {pool.name} has room for {_gpus(allowed * pod.gpus)}"
                yield Hit(subject, path, message, severity)
    yield from _serve_ceilings(world)
    for stack in world.stacks:
        for pool_facts in stack.pools:
            yield from _stack_replicas(world, stack, pool_facts)


def _gpus(number_of: float) -> str:
    return f"{number_of:g} GPU" if number_of == 1 else f"{number_of:g} GPUs"


Ceiling = tuple[float, Subject, Path, str, Severity | None]


def _ceilings(world: World, pod: Pod) -> Iterator[Ceiling]:
    """How many pods of a kind there may be, and who says so."""
    owner = pod.owner
    if pod.role == "worker":
        if owner.kind != "RayService" and pod.max_replicas < NO_LIMIT:
            path: Path = (*pod.path[:-1], "maxReplicas")
            # Wide ceilings under a NodePool limit are KubeRay's own advice: replicas cannot be raised in place.
            yield (
                pod.max_replicas,
                owner,
                path,
                f"maxReplicas {pod.max_replicas:g} of {pod.label}",
                Severity.WARN,
            )
        return
    if pod.role == "head":
        return
    scaled = False
    for scaler in world.kind("HorizontalPodAutoscaler", "ScaledObject"):
        target = world.target(_mapping(scaler.get("spec", "scaleTargetRef")), scaler.namespace)
        if target is owner:
            scaled = True
            key = "maxReplicas" if scaler.kind == "HorizontalPodAutoscaler" else "maxReplicaCount"
            most = number(scaler.get("spec", key))
            most = 100.0 if most is None and scaler.kind == "ScaledObject" else most
            if most is not None:
                yield (
                    most,
                    scaler,
                    ("spec", key),
                    f"{scaler.label}: {key} {most:g} of {owner.label}",
                    Severity.WARN,
                )
    if not scaled:
        yield pod.replicas, owner, ("spec", "replicas"), f"{owner.label} with {pod.replicas:g} replicas", None


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _serve_ceilings(world: World) -> Iterator[Hit]:
    """Models of a Serve document whose most replicas pass the limit of the workers' pools."""
    for engine in world.engines:
        if engine.config is None or engine.max_replicas is None or engine.on_cpu:
            continue
        workers = [
            pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.role == "worker" and pod.gpus
        ]
        pools = _pools_of(world, workers)
        limits = [pool.limit_gpus for pool in pools]
        if not pools or any(limit is None for limit in limits):
            continue
        total, needed = sum(limit or 0 for limit in limits), engine.max_replicas * engine.gpus
        if needed > total >= engine.gpus:
            message = (
                f"{engine.name}: {engine.max_replicas:g} replicas of {engine.gpus} GPUs need {needed:g} GPUs; "
                f"{listed([f'{pool.kind} {pool.name}' for pool in pools])} may have {total:g}"
            )
            yield Hit(engine.subject, (*engine.path, "deployment_config"), message)


def _stack_replicas(world: World, stack: StackFacts, pool: PoolFacts) -> Iterator[Hit]:
    models = [model for model in stack.models if model.pool == pool.name]
    if pool.gpus is None or not models:
        return
    for model in models:
        needed = model.max_replicas * model.gpus
        if needed > pool.gpus >= model.gpus:
            message = f"maxReplicas {model.max_replicas} x {_gpus(model.gpus)} = {needed}; pool {pool.name} may have {pool.gpus:g}"
            yield Hit(
                world.stack_subject(stack, model.name, "model"),
                (*model.path, "scaling", "maxReplicas"),
                message,
            )
    least = sum(model.min_replicas * model.gpus for model in models)
    if least > pool.gpus and len(models) > 1:
        names = listed([f"{model.name} {model.min_replicas} x {model.gpus}" for model in models])
        message = f"the least replicas need {least} GPUs ({names}); pool {pool.name} may have {pool.gpus:g}"
        yield Hit(world.stack_subject(stack, pool.name, "pool"), (*pool.path, "limits", "gpus"), message)


# ---------------------------------------------------------------------- upgrades


def upgrade(world: World) -> Iterator[Hit]:
    """RayServices that have no room for a second cluster."""
    for subject in world.kind("RayService", group="ray.io"):
        workers = [pod for pod in world.pods_by_owner.get(subject, []) if pod.gpus]
        surge = _surge(subject)
        pools = _pools_of(world, workers)
        if not surge or not workers or any(pool.limit_gpus is None for pool in pools) or not pools:
            continue
        used = sum(pod.gpus * pod.hosts * (1 if pod.role == "head" else pod.replicas) for pod in workers)
        limit = sum(pool.limit_gpus or 0 for pool in pools)
        others = _others(world, subject, pools)
        if used <= limit < others + used * (1 + surge):
            names = listed([f"{pool.kind} {pool.name}" for pool in pools])
            message = (
                f"{subject.label} uses {used:g} of the {limit:g} GPUs that {names} may own; a change of the cluster needs "
                f"{others + used * (1 + surge):g} with strategy {_strategy(subject)}"
            )
            yield Hit(subject, ("spec", "upgradeStrategy"), message)
    for stack in world.stacks:
        yield from _stack_upgrade(world, stack)


def _strategy(subject: Subject) -> str:
    return text(subject.get("spec", "upgradeStrategy", "type")) or "NewCluster"


def _surge(subject: Subject) -> float:
    """Part of the cluster that an upgrade adds: all of it by default, nothing with None."""
    strategy = _strategy(subject)
    if strategy == "None":
        return 0.0
    if strategy == "NewClusterWithIncrementalUpgrade":
        surge = number(
            get(subject.body, "spec", "upgradeStrategy", "clusterUpgradeOptions", "maxSurgePercent")
        )
        return (100.0 if surge is None else surge) / 100
    return 1.0


def _others(world: World, subject: Subject, pools: list[Pool]) -> float:
    """GPUs that other workloads take of the same pools."""
    there = dict.fromkeys(
        pod for pool in pools for pod in world.pods_on(pool) if pod.gpus and pod.owner is not subject
    )
    return sum(pod.gpus * pod.hosts * pod.replicas for pod in there)


def _stack_upgrade(world: World, stack: StackFacts) -> Iterator[Hit]:
    for pool in stack.pools:
        models = [model for model in stack.models if model.pool == pool.name]
        used = sum(model.min_replicas * model.gpus for model in models)
        if pool.gpus is None or used > pool.gpus:
            continue
        for model in models:
            wanted = used + _upgrade_gpus(stack, model)
            if wanted > pool.gpus and wanted > used:
                message = (
                    f"an upgrade starts a second set of {_gpus(model.min_replicas * model.gpus)}, {wanted} in all; "
                    f"pool {pool.name} may have {pool.gpus:g}"
                )
                yield Hit(world.stack_subject(stack, model.name, "model"), (*model.path, "upgrade"), message)


def _upgrade_gpus(stack: StackFacts, model: ModelFacts) -> int:
    """GPUs of the second cluster; an intent says only by `NewCluster` that it means one."""
    doubles = model.upgrade == "NewCluster" or (stack.house and model.upgrade != "None")
    return model.min_replicas * model.gpus if doubles else 0


RULES: Table = (
    (CANNOT_FIT, cannot_fit), (LIMIT_BELOW_NODE, limit_below_node), (REPLICAS, replicas), (UPGRADE, upgrade),
)  # fmt: skip
