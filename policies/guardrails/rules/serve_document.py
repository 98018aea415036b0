"""What Serve documents ask of the cluster, and whether they scale on it."""

from collections.abc import Iterator

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.engine_sources import replica_range
from guardrails.engines import Engine
from guardrails.pods import NO_LIMIT, Pod
from guardrails.rules.parallel import is_autoscaling
from guardrails.serve import ServeDocument
from guardrails.values import get, listed, mapping, mappings, number, text, texts, whole
from guardrails.world import World

TOO_MANY = Rule(
    id="serve-replicas-exceed-cluster",
    severity=Severity.ERROR,
    sentence="The replicas that a Serve document may have fit into the GPUs that the worker groups can reach.",
    why="The last replicas stay in UPDATING for ever.",
    remedy="lower max_replicas, or raise the worker group's maxReplicas with enableInTreeAutoscaling: true",
    source="KubeRay docs, RayService; Ray Serve autoscaling",
    reads=(
        "RayService:spec.serveConfigV2",
        "RayService:spec.rayClusterConfig.workerGroupSpecs.*.maxReplicas",
    ),
)
ACTOR_GPUS = Rule(
    id="actor-num-gpus",
    severity=Severity.WARN,
    sentence="An actor whose engine reserves GPUs by a placement group asks for none itself.",
    why="Its own GPU is held beside those of the engine, and the replica needs one more than it uses.",
    remedy="remove ray_actor_options.num_gpus",
    source="Ray Serve LLM vllm_models.py; vLLM Ray executor",
)
NEVER_SCALES = Rule(
    id="serve-never-scales",
    severity=Severity.WARN,
    sentence="An autoscaled model says at how many requests it scales.",
    why="Ray Serve LLM's default target is 1e9 ongoing requests: the replicas stay at the minimum.",
    remedy="set autoscaling_config.target_ongoing_requests, or a policy",
    source="ray PR 54696; Ray 2.60 Serve LLM defaults",
)
ACCELERATOR = Rule(
    id="accelerator-type-undeclared",
    severity=Severity.WARN,
    sentence="A worker group that starts at zero declares the accelerator type that a model asks for.",
    why="The autoscaler knows only what the group declares: the demand counts as infeasible and nothing starts.",
    remedy='add resources: {"accelerator_type:A10G": "1"} to the group, or leave accelerator_type out and select nodes by label',
    source="kuberay#863; Ray autoscaler _derive_autoscaling_config_from_ray_cr",
)
HEAD_ONLY = Rule(
    id="serve-proxy-head-only",
    severity=Severity.WARN,
    sentence="Serve's proxies run on every node.",
    why="With HeadOnly workers never become ready for KubeRay, and the head is the only way in.",
    remedy="remove proxy_location: HeadOnly",
    source="KubeRay worker readiness probe; Ray Serve docs",
)


# ---------------------------------------------------------------------- against the cluster


def too_many(world: World) -> Iterator[Hit]:
    """Replicas beyond the GPUs that can ever be there."""
    for document in world.serve_documents:
        workers = [pod for pod in world.pods_by_owner[document.subject] if pod.is_ray and pod.gpus]
        autoscaling = is_autoscaling(document.subject)
        demands = list(_demands(world, document))
        if not demands or not workers:
            continue
        for path, name, (_, high), gpus, tp in demands:
            have = _usable(workers, tp, autoscaling=autoscaling)
            if have >= NO_LIMIT or have < gpus:
                continue  # no ceiling; or not even one replica, which parallel-exceeds-cluster says
            if high * gpus > have:
                message = f"{name}: {high:g} replicas x {_gpus(gpus)} = {_gpus(high * gpus)}; {_reach(workers, have, autoscaling=autoscaling)}"
                yield Hit(document.subject, path, message)
        yield from _together(document, workers, demands, autoscaling=autoscaling)


def _gpus(count: float) -> str:
    return f"{count:g} GPU" if count == 1 else f"{count:g} GPUs"


def _reach(workers: list[Pod], have: float, *, autoscaling: bool) -> str:
    grows = any(pod.role == "worker" and pod.max_replicas > pod.replicas for pod in workers)
    off = " since enableInTreeAutoscaling is not set" if not autoscaling and grows else ""
    return f"the worker groups can have {have:g}{off}"


Demand = tuple[Path, str, tuple[float, float], int, int]


def _demands(world: World, document: ServeDocument) -> Iterator[Demand]:
    """What asks for GPUs: path, name, least and most replicas, GPUs of a replica, GPUs that must be in one pod."""
    for engine in world.engines:
        if engine.config is not None and engine.config.document is document and not engine.on_cpu:
            low, high = engine.min_replicas or 0, engine.max_replicas or 1
            where: Path = (*engine.path, "deployment_config")
            yield where, engine.name, (low, high), engine.gpus, engine.tp
    own = {
        engine.path: engine
        for engine in world.engines
        if engine.origin == "application" and engine.subject is document.subject
    }
    for path, options in document.deployments:
        gpus = whole(get(options, "ray_actor_options", "num_gpus")) or _bundle_gpus(options)
        application: Engine | None = own.get(path[:-2])
        size = max(gpus, application.gpus if application and gpus else 0)
        if size:
            least, most = replica_range(options)
            yield path, f"deployment {text(options.get('name'))}", (least or 0, most or 1), size, size


def _bundle_gpus(options: dict[str, object]) -> int:
    return int(
        sum(number(bundle.get("GPU")) or 0 for _, bundle in mappings(options.get("placement_group_bundles")))
    )


def _usable(workers: list[Pod], tp: int, *, autoscaling: bool) -> float:
    """GPUs in whole groups of one tensor-parallel size."""
    total = 0.0
    for pod in workers:
        count = 1.0 if pod.role == "head" else pod.max_replicas if autoscaling else pod.replicas
        total += (pod.gpus // tp * tp if tp <= pod.gpus else 0) * pod.hosts * count
    return total


def _together(
    document: ServeDocument, workers: list[Pod], demands: list[Demand], *, autoscaling: bool
) -> Iterator[Hit]:
    """Several models that fit alone but not side by side."""
    have = sum(
        pod.gpus
        * pod.hosts
        * (1 if pod.role == "head" else pod.max_replicas if autoscaling else pod.replicas)
        for pod in workers
    )
    low = sum(demand[2][0] * demand[3] for demand in demands)
    high = sum(demand[2][1] * demand[3] for demand in demands)
    alone = all(demand[2][1] * demand[3] <= have for demand in demands)
    if len(demands) > 1 and alone and have < NO_LIMIT and high > have:
        names = listed([demand[1] for demand in demands])
        if low > have:
            message = f"{names} need {_gpus(low)} together at least; {_reach(workers, have, autoscaling=autoscaling)}"
            yield Hit(document.subject, document.path, message)
        else:
            message = (
                f"{names} may need {_gpus(high)} together; {_reach(workers, have, autoscaling=autoscaling)}"
            )
            yield Hit(document.subject, document.path, message, Severity.WARN)


def actor_gpus(world: World) -> Iterator[Hit]:
    """GPUs that an actor holds beside its engine's."""
    for document in world.serve_documents:
        configs = {(*item.path, "deployment_config") for item in document.llm_configs}
        engines = {
            e.path: e for e in world.engines if e.origin == "application" and e.subject is document.subject
        }
        for path, options, name in document.deployment_options:
            asked = number(get(options, "ray_actor_options", "num_gpus"))
            engine = engines.get(path[:-2])
            own_group = path in configs or _bundle_gpus(options) > 0 or (engine is not None and engine.tp > 1)
            if asked and own_group:
                message = f"{name} asks {asked:g} GPU for its actor beside those that its engine reserves"
                yield Hit(document.subject, (*path, "ray_actor_options", "num_gpus"), message)


def never_scales(world: World) -> Iterator[Hit]:
    """Autoscaling without a target."""
    for document in world.serve_documents:
        for item in document.llm_configs:
            scaling = mapping(item.deployment.get("autoscaling_config"))
            low, high = replica_range(item.deployment)
            if (
                scaling
                and (high or 1) > (low or 1)
                and not scaling.get("target_ongoing_requests")
                and not scaling.get("policy")
            ):
                message = (
                    f"model {item.name}: autoscaling_config has no target_ongoing_requests and no policy"
                )
                yield Hit(document.subject, (*item.path, "deployment_config", "autoscaling_config"), message)


def accelerator(world: World) -> Iterator[Hit]:
    """Accelerator types that no group at zero declares."""
    for document in world.serve_documents:
        groups = mappings(document.subject.get("spec", "rayClusterConfig", "workerGroupSpecs"))
        gpu_groups = [body for index, body in groups if _has_gpu(world, document, index)]
        if not gpu_groups or any(
            (number(body.get("minReplicas")) or number(body.get("replicas")) or 0) > 0 for body in gpu_groups
        ):
            continue
        for item in document.llm_configs:
            wanted = text(item.body.get("accelerator_type"))
            if wanted and not any(f"accelerator_type:{wanted}" in str(mapping(body.get("resources"))) + str(
                mapping(body.get("rayStartParams"))) for body in gpu_groups):  # fmt: skip
                message = f"model {item.name} asks for accelerator_type {wanted}; no worker group declares it, and all start at 0"
                yield Hit(document.subject, (*item.path, "accelerator_type"), message)


def _has_gpu(world: World, document: ServeDocument, index: int) -> bool:
    return any(pod.group_index == index and pod.gpus for pod in world.pods_by_owner[document.subject])


def head_only(world: World) -> Iterator[Hit]:
    """Proxies on the head only."""
    for document in world.serve_documents:
        if "HeadOnly" in texts(document.body.get("proxy_location")):
            yield Hit(document.subject, (*document.path, "proxy_location"), "proxy_location is HeadOnly")


RULES: Table = (
    (TOO_MANY, too_many), (ACTOR_GPUS, actor_gpus),
    (NEVER_SCALES, never_scales), (ACCELERATOR, accelerator), (HEAD_ONLY, head_only),
)  # fmt: skip
