"""Workloads against what their pool may grow to, while they scale and while they are updated."""

import math
from collections.abc import Iterator, Sequence

from components.conventions import GPU_RESOURCE
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.hardware import Hardware
from guardrails.objects import Subject
from guardrails.pods import NO_LIMIT, Pod
from guardrails.pools import Pool, stack_pool
from guardrails.rules.node_room import MIB, USABLE_MEMORY, Ask, ask_of, pools_of
from guardrails.stack import ModelFacts, PoolFacts, StackFacts
from guardrails.values import get, listed, number, text
from guardrails.world import World

UPGRADE = Rule(
    id="upgrade-needs-double",
    severity=Severity.WARN,
    sentence="A pool's limit has room for a second copy of a RayService while it is upgraded.",
    why="The default strategy starts a whole new cluster beside the old one; without room it never ends.",
    remedy="raise the limit, set upgradeStrategy.type None and plan the downtime, or upgrade incrementally",
    source="kuberay#1476, kuberay#4239, kuberay PR 1564",
    reads=("NodePool:spec.limits",),
)
UPGRADE_AT_LOAD = Rule(
    id="upgrade-at-load",
    severity=Severity.WARN,
    sentence="A pool's limit has room for the first replicas of a new cluster beside a model at its most replicas.",
    why="An upgrade at load waits for GPUs that the old cluster holds until the load falls, and both are paid for.",
    remedy="raise limits.gpus to the sum, upgrade when the load is low, or set upgrade: None and plan the downtime",
    source="KubeRay, upgradeStrategy NewCluster",
    profile=Profile.HOUSE,
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
    scalers = world.scalers_of(owner)
    for scaler in scalers:
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
    if not scalers:
        yield pod.replicas, owner, ("spec", "replicas"), f"{owner.label} with {pod.replicas:g} replicas", None


def _serve_ceilings(world: World) -> Iterator[Hit]:
    """Models of a Serve document whose most replicas pass the limit of the workers' pools."""
    for engine in world.engines:
        if engine.config is None or engine.max_replicas is None or engine.on_cpu:
            continue
        workers = [
            pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.role == "worker" and pod.gpus
        ]
        pools = pools_of(world, workers)
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
    """Models of a stack whose replicas, of one or of all together, pass their pool's limits."""
    models = [model for model in stack.models if model.pool == pool.name]
    view = stack_pool(pool, world.stack_subject(stack, pool.name, "pool"))
    for model in models:
        pods = room(view, Ask(0, 0, model.tensor_parallel), view.gpu_types)
        allowed = pods * model.tensor_parallel
        if math.isfinite(allowed) and model.max_replicas * model.gpus > allowed >= model.gpus:
            needed = model.max_replicas * model.gpus
            message = f"maxReplicas {model.max_replicas} x {_gpus(model.gpus)} = {needed}; pool {pool.name} may have {allowed:g}"
            subject = world.stack_subject(stack, model.name, "model")
            yield Hit(subject, (*model.path, "scaling", "maxReplicas"), message)
    least = sum(model.min_replicas * model.gpus for model in models)
    if pool.gpus is not None and least > pool.gpus and len(models) > 1:
        names = listed([f"{model.name} {model.min_replicas} x {model.gpus}" for model in models])
        message = f"the least replicas need {least} GPUs ({names}); pool {pool.name} may have {pool.gpus:g}"
        yield Hit(world.stack_subject(stack, pool.name, "pool"), (*pool.path, "limits", "gpus"), message)


# ---------------------------------------------------------------------- upgrades


def upgrade(world: World) -> Iterator[Hit]:
    """RayServices that have no room for a second cluster."""
    for subject in world.kind("RayService", group="ray.io"):
        workers = [pod for pod in world.pods_by_owner.get(subject, []) if pod.gpus]
        surge = _surge(subject)
        pools = pools_of(world, workers)
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


def upgrade_at_load(world: World) -> Iterator[Hit]:
    """Models whose upgrade fits at the least replicas and not at the most."""
    for stack in world.stacks:
        for pool in stack.pools if stack.house else ():
            models = [model for model in stack.models if model.pool == pool.name]
            least = sum(model.min_replicas * model.gpus for model in models)
            for model in models:
                first = _upgrade_gpus(stack, model)
                others = least - model.min_replicas * model.gpus
                most = min(model.max_replicas * model.gpus, (pool.gpus or math.inf) - others)
                if pool.gpus is None or not first or not least + first <= pool.gpus < others + most + first:
                    continue
                beside = f", {_gpus(others)} of other models" if others else ""
                message = (
                    f"at its most replicas {model.name} holds {_gpus(most)}{beside}; an upgrade then starts {_gpus(first)} more, "
                    f"{others + most + first:g} in all, and pool {pool.name} may have {pool.gpus:g}"
                )
                subject = world.stack_subject(stack, model.name, "model")
                yield Hit(subject, (*model.path, "upgrade"), message)


def _upgrade_gpus(stack: StackFacts, model: ModelFacts) -> int:
    """GPUs of the second cluster; an intent says only by `NewCluster` that it means one."""
    doubles = model.upgrade == "NewCluster" or (stack.house and model.upgrade != "None")
    return model.min_replicas * model.gpus if doubles else 0


RULES: Table = (
    (REPLICAS, replicas), (UPGRADE, upgrade), (UPGRADE_AT_LOAD, upgrade_at_load),
)  # fmt: skip
