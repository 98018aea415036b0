"""Tensor, pipeline and data parallel size against GPUs and attention heads."""

from collections.abc import Iterator

from guardrails.core import Hit, Rule, Severity, Table
from guardrails.engines import Engine
from guardrails.hardware import Hardware
from guardrails.pods import NO_LIMIT, Pod
from guardrails.serve import ServeDocument
from guardrails.values import get, is_hidden, listed, number
from guardrails.world import World

EXCEEDS_NODE = Rule(
    id="parallel-exceeds-node",
    severity=Severity.ERROR,
    sentence="The tensor parallel size is at most the GPUs of one pod, on every instance type of its pool.",
    why="Tensor parallelism exchanges data in every layer; vLLM refuses it, or crawls over the network, across nodes.",
    remedy="lower the tensor parallel size, give the pod more GPUs, or split layers over nodes by pipeline parallelism",
    source="vLLM docs, parallelism and scaling; EC2 instance types",
    reads=(
        "pod:containers.*.resources.limits.nvidia.com/gpu",
        "RayService:spec.serveConfigV2",
        "pod:containers.*.args",
    ),
)

EXCEEDS_CLUSTER = Rule(
    id="parallel-exceeds-cluster",
    severity=Severity.ERROR,
    sentence="Tensor x pipeline x data parallel size is at most all GPUs that the engine can ever get.",
    why="The replica waits for ever for GPUs that cannot appear.",
    remedy="lower the parallel sizes, or raise the GPUs that the cluster may have",
    source="ray/serve/llm placement groups; vllm/config/parallel.py",
    reads=(
        "RayService:spec.serveConfigV2",
        "RayService:spec.rayClusterConfig.workerGroupSpecs.*.maxReplicas",
    ),
)

HEADS = Rule(
    id="heads-not-divisible",
    severity=Severity.ERROR,
    sentence="The tensor parallel size divides the model's attention heads.",
    why="vLLM refuses to start: heads are split over the GPUs in equal parts.",
    remedy="use a tensor parallel size that divides the heads",
    source="vllm/config/model.py verify_with_parallel_config",
)


def exceeds_node(world: World) -> Iterator[Hit]:
    """Engines whose tensor parallel size is larger than the GPUs of one pod, and actors that ask for more."""
    for engine in world.engines:
        if engine.model is not None:
            yield from _stack_exceeds(engine)
        elif engine.origin == "container":
            yield from _container_exceeds(engine)
        else:
            yield from _serve_exceeds(world, engine)
    for document in world.serve_documents:
        yield from _actors_exceed(world, document)


def _stack_exceeds(engine: Engine) -> Iterator[Hit]:
    small = [item for item in engine.hardware if item.gpus < engine.tp]
    if not engine.typed and len(small) < len(engine.hardware):
        return  # Karpenter takes one that is large enough; a typed pool promises that any of its types will do
    if engine.model and engine.model.pool and small:
        message = f"tensor parallel size {engine.tp} needs {engine.tp} GPUs on one node; {_offers(small)} in pool {engine.model.pool}"
        yield Hit(engine.subject, engine.path_of("tensor_parallel_size"), message)


def _offers(items: list[Hardware]) -> str:
    return listed([f"{item.name} has {item.gpus or 'none'}" for item in items])


def _container_exceeds(engine: Engine) -> Iterator[Hit]:
    pod = engine.pod
    if pod is None or not pod.gpus:
        return
    gpus = pod.gpus * pod.hosts if pod.hosts > 1 and not pod.is_ray else pod.gpus
    if engine.tp > gpus:
        message = f"tensor parallel size {engine.tp} is larger than the {gpus} GPUs of the pod"
        yield Hit(engine.subject, engine.path_of("tensor_parallel_size"), _singular(message))


def _singular(message: str) -> str:
    return message.replace(" 1 GPUs", " 1 GPU")


def _workers(world: World, engine: Engine) -> list[Pod]:
    return [pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.is_ray and pod.gpus]


def _serve_exceeds(world: World, engine: Engine) -> Iterator[Hit]:
    workers = _workers(world, engine)
    largest = max((pod.gpus for pod in workers), default=0)
    if largest and engine.tp > largest and not engine.on_cpu:
        message = f"{engine.name}: tensor parallel size {engine.tp} is larger than the {largest} GPUs of one worker pod"
        yield Hit(engine.subject, engine.path_of("tensor_parallel_size"), _singular(message))


def _actors_exceed(world: World, document: ServeDocument) -> Iterator[Hit]:
    pods = [pod for pod in world.pods_by_owner.get(document.subject, []) if pod.is_ray]
    largest = max((pod.gpus for pod in pods), default=0)
    for path, options, name in document.deployment_options:
        asked = number(get(options, "ray_actor_options", "num_gpus"))
        if asked and asked > largest and pods:
            message = (
                f"{name} asks {asked:g} GPUs for one actor; the largest pod of the cluster has {largest}"
            )
            yield Hit(document.subject, (*path, "ray_actor_options", "num_gpus"), message)


def cluster_gpus(world: World, engine: Engine) -> float:
    """GPUs that a Ray cluster can reach at most: its workers' ceiling with the autoscaler, else their count."""
    return cluster_gpus_of(_workers(world, engine), autoscaling=is_autoscaling(engine.subject))


def is_autoscaling(subject: object) -> bool:
    """Whether Ray's autoscaler may change the number of workers; an unknown switch counts as on."""
    get_value = getattr(subject, "get", None)
    if get_value is None:
        return False
    paths = (("spec", "enableInTreeAutoscaling"), ("spec", "rayClusterConfig", "enableInTreeAutoscaling"),
             ("spec", "rayClusterSpec", "enableInTreeAutoscaling"))  # fmt: skip
    return any(value is True or is_hidden(value) for value in (get_value(*path) for path in paths))


def cluster_gpus_of(workers: list[Pod], *, autoscaling: bool) -> float:
    """GPUs over all groups."""
    total = 0.0
    for pod in workers:
        count = 1.0 if pod.role == "head" else pod.max_replicas if autoscaling else pod.replicas
        total += pod.gpus * pod.hosts * count
    return total


# Arguments that tell vLLM to use GPUs of other pods.
_SPREADS = (
    "nnodes",
    "data_parallel_address",
    "data_parallel_hybrid_lb",
    "data_parallel_external_lb",
    "headless",
)


def exceeds_cluster(world: World) -> Iterator[Hit]:
    """Engines that need more GPUs than they can ever get."""
    for engine in world.engines:
        if engine.on_cpu or engine.gpus == 1:
            continue
        if engine.model is not None:
            yield from _stack_exceeds_limit(world, engine)
        elif engine.origin == "container" and engine.pod is not None and not engine.pod.is_ray:
            yield from _pod_too_few(engine, engine.pod)
        elif engine.tp <= max((pod.gpus for pod in _workers(world, engine)), default=0):
            have = cluster_gpus(world, engine)
            if engine.gpus > have and have < NO_LIMIT:
                message = f"{engine.name} needs {_product(engine)} GPUs; the worker groups can have {have:g} at most"
                yield Hit(engine.subject, engine.path_of(_largest(engine)), message)


def _product(engine: Engine) -> str:
    sizes = [("TP", engine.tp), ("PP", engine.pp), ("DP", engine.dp)]
    words = [f"{name} {size}" for name, size in sizes if size > 1]
    return f"{' x '.join(words)} = {engine.gpus}"


def _largest(engine: Engine) -> str:
    return (
        "pipeline_parallel_size"
        if engine.pp > 1
        else "data_parallel_size"
        if engine.dp > 1
        else "tensor_parallel_size"
    )


def _stack_exceeds_limit(world: World, engine: Engine) -> Iterator[Hit]:
    for stack in world.stacks:
        pool = stack.pool(engine.model.pool) if engine.model else None
        if (
            pool
            and pool.gpus is not None
            and engine.model in stack.models
            and engine.tp * engine.pp > pool.gpus
        ):
            message = f"one replica needs {_product(engine)} GPUs; pool {pool.name} may have {pool.gpus:g}"
            yield Hit(engine.subject, engine.path_of(_largest(engine)), message)


def _pod_too_few(engine: Engine, pod: Pod) -> Iterator[Hit]:
    spreads = (
        any(name in engine.arguments for name in _SPREADS)
        or engine.text("distributed_executor_backend") == "ray"
    )
    local = engine.whole("data_parallel_size_local", engine.dp)
    needed = engine.tp * engine.pp * local
    if pod.gpus and not spreads and pod.hosts == 1 and engine.tp <= pod.gpus < needed:
        message = f"the engine needs {_product(engine)} GPUs and has the {pod.gpus} of this pod"
        yield Hit(engine.subject, engine.path_of(_largest(engine)), _singular(message))


def heads(world: World) -> Iterator[Hit]:
    """Engines whose tensor parallel size does not divide the attention heads."""
    for engine in world.engines:
        if engine.shape and engine.shape.heads and engine.shape.heads % engine.tp:
            message = (
                f"{engine.name}: {engine.shape.heads} attention heads cannot be split over {engine.tp} GPUs"
            )
            fitting = [size for size in (1, 2, 4, 8, 16) if engine.shape.heads % size == 0]
            remedy = f"use a tensor parallel size of {listed([str(size) for size in fitting], 'or')}"
            yield Hit(engine.subject, engine.path_of("tensor_parallel_size"), message, remedy=remedy)


RULES: Table = ((EXCEEDS_NODE, exceeds_node), (EXCEEDS_CLUSTER, exceeds_cluster), (HEADS, heads))
