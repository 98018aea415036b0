"""Which nodes a pod may run on: taints, tolerations, selectors, and how GPUs are asked for."""

from collections.abc import Iterator

from components.conventions import GPU_RESOURCE
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.hardware import Hardware
from guardrails.pods import Pod
from guardrails.pools import Pool
from guardrails.requirements import AGENT_LABELS, ARCH_LABELS, NODE_POOL_LABELS, instance_value
from guardrails.taints import tolerates
from guardrails.values import Hidden, get, is_hidden, items, listed, mapping, mappings, number, text
from guardrails.world import World

UNTOLERATED = Rule(
    id="taint-untolerated",
    severity=Severity.ERROR,
    sentence="A pod tolerates every taint of the pool that it is meant for.",
    why="It stays pending, and Karpenter says that no node pool would do.",
    remedy="add a toleration for each taint of the pool (operator Exists matches any value)",
    source="Kubernetes docs, taints and tolerations",
    reads=("pod:tolerations", "NodePool:spec.template.spec.taints"),
)
TAINT_FIELD = Rule(
    id="taint-bad-field",
    severity=Severity.ERROR,
    sentence="A node's taint has only key, value and effect.",
    why="operator belongs to tolerations; the API server refuses the pool.",
    remedy="remove the other fields",
    source="Kubernetes API, core/v1 Taint",
)
GPU_UNTAINTED = Rule(
    id="gpu-pool-untainted",
    severity=Severity.ERROR,
    sentence="A GPU pool has a taint that keeps pods without a GPU away.",
    why="Any pod may land on the expensive nodes, fill them, and keep them from being removed.",
    remedy="add the taint nvidia.com/gpu with effect NoSchedule",
    source="Karpenter docs; AWS EKS best practices, AI/ML compute",
    reads=("NodePool:spec.template.spec.taints",),
)
REQUEST_LIMIT = Rule(
    id="gpu-request-not-limit",
    severity=Severity.ERROR,
    sentence="GPUs are asked for in limits, and a request says the same number.",
    why="Kubernetes refuses extended resources whose request differs from the limit.",
    remedy="set both to one number, or the limit alone",
    source="Kubernetes docs, schedule GPUs",
    reads=("pod:containers.*.resources",),
)
NO_POOL = Rule(
    id="selector-matches-no-pool",
    severity=Severity.WARN,
    sentence="The labels that a pod selects are ones that some pool gives its nodes.",
    why="The pod stays pending for ever.",
    remedy="select labels of a pool, or add them to the pool's template",
    source="Karpenter docs, scheduling",
)
HOUSE_TAINT = Rule(
    id="house-gpu-taint",
    severity=Severity.ERROR,
    sentence="GPU pools of this program carry the taint nvidia.com/gpu:NoSchedule.",
    why="Every chart and DaemonSet that it installs tolerates exactly that key.",
    remedy="use components/manifests/placement.py GPU_TAINT",
    source="docs/decisions, nodes",
    profile=Profile.HOUSE,
    reads=("NodePool:spec.template.spec.taints",),
)

TAINT_FIELDS = frozenset({"key", "value", "effect", "timeAdded"})


def _fitting(pod: Pod, found: list[tuple[Pool, tuple[Hardware, ...]]]) -> list[Pool]:
    """Of a pod's candidate pools those that have the GPUs it asks for."""
    if not pod.gpus:
        return [pool for pool, _ in found]
    return [
        pool for pool, types in found if not pool.restricted or any(item.gpus >= pod.gpus for item in types)
    ]


def _is_bound(pod: Pod) -> bool:
    """Whether a pod names the nodes it wants by anything that not every node has."""
    return any(
        item.key not in ("kubernetes.io/os", "kubernetes.io/arch") for term in pod.terms for item in term
    )


def _names(pod: Pod, pool: Pool) -> bool:
    """Whether a pod selects a pool by something that other nodes of a cluster do not have too."""
    return any(
        item.key in pool.labels or item.key in NODE_POOL_LABELS
        or (instance_value(item.key) is not None and item.key not in ARCH_LABELS)
        for term in pod.terms for item in term
    )  # fmt: skip


def untolerated(world: World) -> Iterator[Hit]:
    """Pods that may only land on pools whose taints they do not tolerate."""
    for pod in world.pods:
        if is_hidden(pod.spec.get("tolerations")) or (pod.gpus and _fitting(pod, world.reachable(pod))):
            continue
        pools = [pool for pool in _fitting(pod, world.candidates(pod)) if pool.taints_known]
        if pod.gpus:
            pools = [pool for pool in pools if pool.gpu_types or not pool.restricted]
        else:
            pools = [pool for pool in pools if _names(pod, pool)]
        missing = [
            (pool, [taint for taint in pool.blocking_taints if not tolerates(pod.tolerations, taint)])
            for pool in pools
        ]
        if not missing or any(not taints for _, taints in missing):
            continue
        pool, taints = missing[0]
        names = listed([f"{taint}" for taint in taints])
        message = f"{pod.label}: no toleration for {'taint' if len(taints) == 1 else 'taints'} {names} of {pool.kind} {pool.name}"
        yield Hit(pod.owner, (*pod.spec_path, "tolerations"), message)


def taint_field(world: World) -> Iterator[Hit]:
    """Taints with fields of a toleration."""
    places: list[tuple[str, Path]] = [
        ("NodePool", ("spec", "template", "spec", "taints")),
        ("NodePool", ("spec", "template", "spec", "startupTaints")),
        ("Provisioner", ("spec", "taints")),
        ("Node", ("spec", "taints")),
        ("NodeGroup", ("taints",)),
    ]
    for kind, path in places:
        for subject in world.by_kind.get(kind, []):
            for index, taint in mappings(subject.get(*path)):
                extra = sorted(set(taint) - TAINT_FIELDS)
                if extra:
                    message = (
                        f"taint {text(taint.get('key'))} has {listed(extra)}, which a taint does not know"
                    )
                    yield Hit(subject, (*path, index, extra[0]), message)


def gpu_untainted(world: World) -> Iterator[Hit]:
    """GPU pools that any pod may use."""
    for pool in world.pools:
        if not pool.is_gpu or pool.blocking_taints or not pool.taints_known:
            continue
        # A managed group can be the whole of a small cluster; a Karpenter pool stands beside others.
        severity = Severity.WARN if pool.kind == "NodeGroup" else None
        names = ", ".join(item.name for item in pool.types[:3]) + (" …" if len(pool.types) > 3 else "")  # noqa: PLR2004
        message = f"{pool.kind if pool.kind != 'stack' else 'pool'} {pool.name} has GPU nodes ({names}) and no NoSchedule taint"
        yield Hit(pool.subject, pool.path("taints"), message, severity)
    yield from _old_pools(world)


def _old_pools(world: World) -> Iterator[Hit]:
    """Karpenter's former Provisioner, where it names a GPU family."""
    for subject in world.by_kind.get("Provisioner", []):
        requirements = mappings(subject.get("spec", "requirements"))
        values = [text(value) or "" for _, item in requirements for value in items(item.get("values"))]
        if any(value.startswith(("g4", "g5", "g6", "p3", "p4", "p5")) for value in values) and not items(
            subject.get("spec", "taints")
        ):
            yield Hit(subject, ("spec", "taints"), f"Provisioner {subject.name} has GPU nodes and no taint")


def request_limit(world: World) -> Iterator[Hit]:
    """GPU requests that differ from the limit."""
    for pod in world.pods:
        for container in pod.all_containers:
            resources = mapping(container.body.get("resources"))
            asked, limit = get(resources, "requests", GPU_RESOURCE), get(resources, "limits", GPU_RESOURCE)
            if asked is None or isinstance(asked, Hidden) or isinstance(limit, Hidden):
                continue
            path: Path = (*container.path, "resources", "requests", GPU_RESOURCE)
            if limit is None and "claims" not in resources:
                message = f"container {container.name} requests {text(asked)} GPUs and has no GPU limit"
                yield Hit(pod.owner, path, message)
            elif limit is not None and number(asked) != number(limit):
                message = (
                    f"container {container.name} requests {text(asked)} GPUs, its limit is {text(limit)}"
                )
                yield Hit(pod.owner, path, message)


def no_pool(world: World) -> Iterator[Hit]:
    """Selectors that no pool answers."""
    if not any(pool.kind == "NodePool" for pool in world.pools):
        return
    for pod in world.pods:
        if world.candidates(pod) or not _is_bound(pod):
            continue
        wanted = [
            f"{item.key}={','.join(item.values)}" for term in pod.terms for item in term
            if instance_value(item.key) is None and not AGENT_LABELS.fullmatch(item.key)
        ]  # fmt: skip
        if wanted:
            severity = Severity.ERROR if world.house else None if pod.gpus else Severity.ADVICE
            message = f"{pod.label} selects {listed(sorted(set(wanted)))}; no pool has that"
            yield Hit(pod.owner, (*pod.spec_path, "nodeSelector"), message, severity)


def house_taint(world: World) -> Iterator[Hit]:
    """GPU NodePools without the program's own taint."""
    for pool in world.pools:
        own = any(taint.key == GPU_RESOURCE and taint.effect == "NoSchedule" for taint in pool.taints)
        if pool.kind == "NodePool" and pool.is_gpu and pool.taints and not own:
            yield Hit(
                pool.subject,
                pool.path("taints"),
                f"GPU pool {pool.name} lacks the taint nvidia.com/gpu:NoSchedule",
            )


RULES: Table = (
    (UNTOLERATED, untolerated), (TAINT_FIELD, taint_field), (GPU_UNTAINTED, gpu_untainted),
    (REQUEST_LIMIT, request_limit), (NO_POOL, no_pool), (HOUSE_TAINT, house_taint),
)  # fmt: skip
