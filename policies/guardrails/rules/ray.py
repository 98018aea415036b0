"""Ray clusters as KubeRay makes them: API version, commands, resources, and the head as single point of failure."""

import math
import re
from collections.abc import Iterator

from components.conventions import DO_NOT_DISRUPT
from components.quantities import format_bytes, format_number
from guardrails.contract import version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.requirements import CAPACITY_LABELS
from guardrails.values import Hidden, get, mapping, mappings, number, text, text_map, texts
from guardrails.world import World

OLD_API = Rule(
    id="ray-api-old",
    severity=Severity.ERROR,
    sentence="Ray objects are of API version ray.io/v1.",
    why="v1alpha1 is deprecated and lacks the fields of later releases.",
    remedy="write apiVersion: ray.io/v1",
    source="KubeRay 1.7 CRDs (v1alpha1 has deprecated: true)",
)
COMMAND = Rule(
    id="ray-command-blocks",
    severity=Severity.ERROR,
    sentence="A Ray container has no long-running command of its own.",
    why="KubeRay appends ray start to it; a command that never returns keeps the node from ever joining.",
    remedy="remove it and serve through RayService, or set the annotation ray.io/overwrite-container-cmd",
    source="KubeRay ray-operator/controllers/ray/common/pod.go",
    reads=("pod:containers.*.command", "pod:containers.*.args"),
)
OVERSTATED = Rule(
    id="ray-resource-overstated",
    severity=Severity.WARN,
    sentence="rayStartParams claim at most what the container has.",
    why="Ray schedules work for resources that are not there.",
    remedy="remove num-cpus and num-gpus: KubeRay takes them from the limits",
    source="KubeRay docs, pod configuration",
)
HEAD_GPU = Rule(
    id="head-has-gpu",
    severity=Severity.WARN,
    sentence="The head has no GPU.",
    why="It pins the single point of failure to an expensive node, often a spot one.",
    remedy='give GPUs to worker groups only, and num-cpus: "0" to the head',
    source="KubeRay docs, best practices",
    reads=("pod:containers.*.resources.limits",),
)
HEAD_LIMITS = Rule(
    id="head-without-limits",
    severity=Severity.WARN,
    sentence="The head has a memory limit.",
    why="Its state grows with the cluster; without a limit it takes the memory of its neighbours, and Ray guesses its own size.",
    remedy="set limits.memory of 8Gi or more, and limits.cpu",
    source="ray#63118, ray#48723, kuberay PR 4089",
    reads=("pod:containers.*.resources.limits",),
)
HEAD_SPOT = Rule(
    id="head-on-spot",
    severity=Severity.ERROR,
    sentence="The head can run on capacity that is not taken away.",
    why="When its spot node goes, every worker restarts and every model loads again.",
    remedy="select karpenter.sh/capacity-type: on-demand, and set gcsFaultToleranceOptions",
    source="kuberay#522, kuberay#2161, ray PR 64907",
    reads=("pod:nodeSelector", "pod:affinity"),
)
HEAD_GUARD = Rule(
    id="head-without-disruption-guard",
    severity=Severity.WARN,
    sentence="The head is kept from voluntary disruption, or its state survives it.",
    why="Karpenter may consolidate its node at any time.",
    remedy='add the annotation karpenter.sh/do-not-disrupt: "true", or gcsFaultToleranceOptions',
    source="Karpenter docs, disruption; KubeRay GCS fault tolerance",
)
RAY_STOP = Rule(
    id="ray-stop-pre-stop",
    severity=Severity.WARN,
    sentence="Ray containers have no preStop hook with ray stop.",
    why="It kills the replicas before Ray can drain them; Ray drains by itself on SIGTERM since 2.57.1.",
    remedy="remove the hook and set RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",
    source="kuberay#2606, kuberay#2724, ray PR 64454",
)
NO_AUTH = Rule(
    id="ray-without-token",
    severity=Severity.ADVICE,
    sentence="A RayService asks for a token.",
    why="The dashboard and the jobs API run any code for whoever reaches them inside the cluster.",
    remedy="set authOptions.mode: token (KubeRay 1.5.1, Ray 2.52 and newer)",
    source="Ray token authentication; KubeRay authOptions",
    framework="NSA Kubernetes Hardening, authentication",
)

# Commands that do not return by themselves.
_BLOCKING = re.compile(
    r"vllm\.entrypoints|\bvllm\s+serve\b|sleep\s+inf|tail\s+-f|\bserve\s+run\b(?!.*--non-blocking)|jupyter\s+(?:lab|notebook)"
    r"|--block\b|\buvicorn\b|\bgunicorn\b|http\.server|while\s+(?:true|:)|\bsglang\.launch_server|text-generation-launcher"
)
FIRST_WITH_TOKEN = (2, 52, 0)  # Ray release whose services can ask for one
_OVERWRITE = "ray.io/overwrite-container-cmd"


def old_api(world: World) -> Iterator[Hit]:
    """Objects of the alpha API."""
    for subject in world.subjects:
        if subject.group == "ray.io" and not subject.api.endswith("/v1"):
            yield Hit(subject, ("apiVersion",), f"{subject.api} is deprecated; use ray.io/v1")


def command(world: World) -> Iterator[Hit]:
    """Commands before ray start that never return."""
    for pod in world.pods:
        container = pod.main
        if not pod.is_ray or container is None:
            continue
        marks = {**text_map(pod.owner.get("metadata", "annotations")), **pod.annotations}
        if marks.get(_OVERWRITE) == "true":
            continue
        words = " ".join([*texts(container.body.get("command")), *texts(container.body.get("args"))])
        if _BLOCKING.search(words) and not words.rstrip().endswith("&"):
            key = "command" if container.body.get("command") else "args"
            message = f"{pod.label}: {_short(words)} runs before ray start and never returns"
            yield Hit(pod.owner, (*container.path, key), message)


def _short(words: str) -> str:
    return words if len(words) <= 60 else f"{words[:57]}..."  # noqa: PLR2004


# ---------------------------------------------------------------------- resources and the head


def overstated(world: World) -> Iterator[Hit]:
    """Start parameters above the container's resources."""
    for subject, path, cluster in world.ray_clusters:
        groups: list[tuple[Path, dict[str, object]]] = [
            ((*path, "headGroupSpec"), mapping(cluster.get("headGroupSpec")))
        ]
        groups += [
            ((*path, "workerGroupSpecs", index), body)
            for index, body in mappings(cluster.get("workerGroupSpecs"))
        ]
        for place, group in groups:
            pod = next(
                (pod for pod in world.pods_by_owner[subject] if pod.path == (*place, "template")), None
            )
            if pod is not None and pod.main is not None:
                yield from _overstated(subject, place, mapping(group.get("rayStartParams")), pod)


def _overstated(subject: Subject, place: Path, params: dict[str, object], pod: Pod) -> Iterator[Hit]:
    main = pod.main
    if main is None:
        return
    cpu = main.limit("cpu") if main.limit("cpu") is not None else main.request("cpu")
    cpus = None if cpu is None else float(math.ceil(cpu))  # KubeRay rounds up, too
    have = {"num-gpus": float(main.gpus), "num-cpus": cpus, "memory": main.limit("memory")}
    for key, limit in have.items():
        claimed = number(params.get(key))
        if claimed is not None and limit is not None and claimed > limit:
            shown = format_bytes if key == "memory" else format_number
            message = f"rayStartParams {key} {shown(claimed)} is more than the container's {shown(limit)}"
            yield Hit(subject, (*place, "rayStartParams", key), message)


def _heads(world: World) -> Iterator[Pod]:
    for pod in world.pods:
        if pod.role == "head":
            yield pod


def head_gpu(world: World) -> Iterator[Hit]:
    """Heads with GPUs."""
    for pod in _heads(world):
        if not pod.gpus or pod.main is None:
            continue
        others = [other for other in world.pods_by_owner[pod.owner] if other.role == "worker" and other.gpus]
        pipelined = any(engine.subject is pod.owner and engine.pp > 1 for engine in world.engines)
        severity = Severity.ADVICE if pipelined or not others else None
        message = f"the head asks for {pod.gpus} GPU" + ("s" if pod.gpus > 1 else "")
        yield Hit(pod.owner, (*pod.main.path, "resources", "limits", "nvidia.com/gpu"), message, severity)


def head_limits(world: World) -> Iterator[Hit]:
    """Heads without a memory limit."""
    for pod in _heads(world):
        container = pod.main
        if container is None:
            continue
        limit = get(container.body, "resources", "limits", "memory")
        whole_part = get(container.body, "resources", "limits")
        if limit is None and not isinstance(whole_part, Hidden):
            yield Hit(
                pod.owner,
                (*container.path, "resources", "limits"),
                f"head container {container.name} has no memory limit",
            )


def has_fault_tolerance(pod: Pod, cluster: dict[str, object]) -> bool:
    """Whether the head's state outlives it."""
    marks = {**text_map(pod.owner.get("metadata", "annotations")), **pod.annotations}
    redis = pod.main is not None and "RAY_REDIS_ADDRESS" in pod.main.env
    return (
        cluster.get("gcsFaultToleranceOptions") is not None
        or marks.get("ray.io/ft-enabled") == "true"
        or redis
    )


def _cluster_of(world: World, pod: Pod) -> dict[str, object]:
    return next((cluster for subject, _, cluster in world.ray_clusters if subject is pod.owner), {})


def head_spot(world: World) -> Iterator[Hit]:
    """Heads that only spot nodes can take."""
    for pod in _heads(world):
        if set(world.capacity_of(pod)) != {"spot"}:
            continue
        tolerant = has_fault_tolerance(pod, _cluster_of(world, pod))
        named = any(item.key in CAPACITY_LABELS for term in pod.terms for item in term)
        where = "selects spot capacity" if named else "can only run on pools of spot nodes"
        message = f"{pod.label} {where}" + ("" if tolerant else ", and gcsFaultToleranceOptions is not set")
        severity = Severity.WARN if tolerant or not world.prod else None
        yield Hit(pod.owner, (*pod.spec_path, "nodeSelector"), message, severity)


def head_guard(world: World) -> Iterator[Hit]:
    """Heads that Karpenter may move."""
    karpenter = bool(world.kind("NodePool")) or any(
        item.key.startswith("karpenter.") for pod in world.pods for term in pod.terms for item in term
    )
    for pod in _heads(world):
        guarded = pod.annotations.get(DO_NOT_DISRUPT) or has_fault_tolerance(pod, _cluster_of(world, pod))
        if not guarded:
            message = f"{pod.label} has neither {DO_NOT_DISRUPT} nor GCS fault tolerance"
            path: Path = (*pod.path, "metadata", "annotations")
            yield Hit(pod.owner, path, message, None if karpenter else Severity.ADVICE)


def ray_stop(world: World) -> Iterator[Hit]:
    """PreStop hooks that stop Ray."""
    for pod in world.pods:
        for container in pod.containers if pod.is_ray else ():
            hook = " ".join(texts(get(container.body, "lifecycle", "preStop", "exec", "command")))
            if "ray stop" in hook:
                yield Hit(
                    pod.owner,
                    (*container.path, "lifecycle", "preStop"),
                    f"{pod.label}: preStop runs ray stop",
                )


def no_auth(world: World) -> Iterator[Hit]:
    """RayServices without a token."""
    for subject, path, cluster in world.ray_clusters:
        if subject.kind != "RayService" or text(get(cluster, "authOptions", "mode")) == "token":
            continue
        version = version_of(text(cluster.get("rayVersion")))
        if version is None or version >= FIRST_WITH_TOKEN:
            yield Hit(subject, (*path, "authOptions"), "authOptions.mode is not token")


RULES: Table = (
    (OLD_API, old_api), (COMMAND, command), (OVERSTATED, overstated), (HEAD_GPU, head_gpu),
    (HEAD_LIMITS, head_limits), (HEAD_SPOT, head_spot), (HEAD_GUARD, head_guard), (RAY_STOP, ray_stop),
    (NO_AUTH, no_auth),
)  # fmt: skip
