"""Serve documents: what Ray refuses, what it accepts and ignores, and what they ask of the cluster."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from guardrails.contract import version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.engines import Engine, replica_range
from guardrails.pods import NO_LIMIT, Pod
from guardrails.rules.parallel import is_autoscaling
from guardrails.serve import LlmConfig, ServeDocument
from guardrails.values import get, listed, mapping, mappings, number, text, texts, whole
from guardrails.world import World

INVALID = Rule(
    id="serve-document-invalid",
    severity=Severity.ERROR,
    sentence="serveConfigV2 is YAML that Ray's schema accepts.",
    why="KubeRay sends it to Ray, which refuses it as a whole: no application starts.",
    remedy="correct the document; serveConfigV2 is text (`|`), indented below its key",
    source="Ray 2.60 ray/serve/schema.py ServeDeploySchema; ray/serve/llm LLMConfig",
)
UNKNOWN_FIELD = Rule(
    id="serve-field-unknown",
    severity=Severity.ERROR,
    sentence="Every field of a Serve document is one that Ray reads where it stands.",
    why="Ray accepts it and ignores it: the default is used and nobody notices.",
    remedy="use the name and the place that the message gives",
    source="ray#61439; Ray 2.60 ray/serve/schema.py, config.py",
    reads=("RayService:spec.serveConfigV2",),
)
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


def _refusals(document: ServeDocument) -> Iterator[tuple[Path, str]]:
    """What Ray's own schema says no to."""
    if document.error:
        yield document.path, document.error
        return
    applications = document.body.get("applications")
    if applications is None:
        yield document.path, "has no applications"
    elif not isinstance(applications, list):
        yield (*document.path, "applications"), "applications is no list"
    if not document.applications:
        return
    yield from _duplicates(document, "name", "default")
    yield from _duplicates(document, "route_prefix", "/")
    for path, application in document.applications:
        yield from _application_refusals(path, application)
    for path, options, name in document.deployment_options:
        yield from _option_refusals(path, options, name)
    for path, body in document.deployments:
        if not text(body.get("name")):
            yield path, "a deployment has no name"
    for item in document.llm_configs:
        yield from _llm_refusals(item)


def _duplicates(document: ServeDocument, key: str, default: str) -> Iterator[tuple[Path, str]]:
    values = [text(body.get(key, default)) for _, body in document.applications]
    counts = Counter(value for value in values if value is not None)
    for (path, _), value in zip(document.applications, values, strict=True):
        if value is not None and counts[value] > 1:
            yield (*path, key), f"{key} {value} is used by {counts[value]} applications"
            return


def _application_refusals(path: Path, application: dict[str, object]) -> Iterator[tuple[Path, str]]:
    target = application.get("import_path")
    if target is None:
        yield path, f"application {text(application.get('name')) or path[-1]} has no import_path"
    elif not isinstance(target, str) or not re.fullmatch(
        r"[^:\s]+:[^:\s]+|[^:.\s][^:\s]*\.[^:\s]*[^:.\s]", target
    ):
        yield (*path, "import_path"), f"import_path {text(target)} is not module:name"
    route = application.get("route_prefix")
    if isinstance(route, str) and (
        not route.startswith("/") or (len(route) > 1 and route.endswith("/")) or "{" in route
    ):
        yield (
            (*path, "route_prefix"),
            f"route_prefix {route} must start with /, not end with it, and have no braces",
        )
    for key in ("host", "port"):
        if key in application:
            yield (*path, key), f"{key} belongs to http_options of the document, not to an application"
    for key in ("args", "runtime_env"):
        if application.get(key) is not None and not isinstance(application[key], dict):
            yield (*path, key), f"{key} is no mapping"
    directory = get(application, "runtime_env", "working_dir")
    if isinstance(directory, str) and "://" not in directory:
        yield (*path, "runtime_env", "working_dir"), f"working_dir {directory} is no remote address"


def _option_refusals(path: Path, options: dict[str, object], name: str) -> Iterator[tuple[Path, str]]:
    count, scaling = options.get("num_replicas"), options.get("autoscaling_config")
    if isinstance(count, int) and not isinstance(count, bool) and scaling is not None:
        yield (*path, "num_replicas"), f"{name} has num_replicas and autoscaling_config; only one is allowed"
    elif isinstance(count, str) and count != "auto":
        yield (*path, "num_replicas"), f"{name}: num_replicas {count} is neither a number nor auto"
    elif isinstance(count, (int, float)) and not isinstance(count, bool) and count < 1:
        yield (*path, "num_replicas"), f"{name}: num_replicas {count:g} is below 1"
    ongoing = number(options.get("max_ongoing_requests"))
    if ongoing is not None and ongoing < 1:
        yield (*path, "max_ongoing_requests"), f"{name}: max_ongoing_requests {ongoing:g} is below 1"
    if isinstance(scaling, dict):
        low, high = number(scaling.get("min_replicas")), number(scaling.get("max_replicas"))
        if low is not None and high is not None and low > high:
            yield (
                (*path, "autoscaling_config", "min_replicas"),
                f"{name}: min_replicas {low:g} is above max_replicas {high:g}",
            )
        if high is not None and high < 1:
            yield (*path, "autoscaling_config", "max_replicas"), f"{name}: max_replicas {high:g} is below 1"
    elif scaling is not None and not isinstance(scaling, dict):
        yield (*path, "autoscaling_config"), f"{name}: autoscaling_config is no mapping"


LLM_FIELDS = (
    "runtime_env", "model_loading_config", "llm_engine", "engine_kwargs", "accelerator_type", "accelerator_config",
    "placement_group_config", "lora_config", "deployment_config", "server_cls", "experimental_configs",
    "log_engine_metrics", "callback_config",
)  # fmt: skip
# Ray's accelerator types that stand for GPUs one may get on EC2 (ray/util/accelerators).
ACCELERATORS = frozenset(
    {"V100", "P100", "T4", "P4", "K80", "A10", "A10G", "L4", "L40S", "A100", "A100-40G", "A100-80G", "H100", "H200", "H20",
     "B200", "B300", "GB200", "GB300", "RTX-PRO-6000"}
)  # fmt: skip


def _llm_refusals(item: LlmConfig) -> Iterator[tuple[Path, str]]:
    for key in item.body:
        if key not in LLM_FIELDS:
            near = get_close_matches(key, LLM_FIELDS, n=1, cutoff=0.75)
            yield (
                (*item.path, key),
                f"model {item.name}: Ray knows no field {key}"
                + (f"; did you mean {near[0]}?" if near else ""),
            )
    loading = item.body.get("model_loading_config")
    if isinstance(loading, dict) and not loading.get("model_id"):
        yield (*item.path, "model_loading_config"), f"model {item.path[-1]} has no model_id"
    elif loading is None:
        yield item.path, f"model {item.path[-1]} has no model_loading_config"
    accelerator = item.body.get("accelerator_type")
    if (
        isinstance(accelerator, str)
        and accelerator not in ACCELERATORS
        and not accelerator.startswith(("TPU", "AMD", "aws", "Intel"))
    ):
        near = get_close_matches(accelerator.upper(), ACCELERATORS, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield (
            (*item.path, "accelerator_type"),
            f"model {item.name}: Ray knows no accelerator type {accelerator}{hint}",
        )
    for key in item.deployment:
        if key.startswith("placement_group"):
            yield (
                (*item.path, "deployment_config", key),
                f"model {item.name}: Ray refuses {key} here; it is placement_group_config",
            )


def invalid(world: World) -> Iterator[Hit]:
    """Documents that Ray refuses."""
    for document in world.serve_documents:
        if not document.hidden:
            for path, problem in _refusals(document):
                message = f"serveConfigV2 {problem}" if path == document.path else problem
                yield Hit(document.subject, path, message)


# ---------------------------------------------------------------------- fields that Ray ignores

SCALING_FIELDS = (
    "min_replicas", "max_replicas", "initial_replicas", "target_ongoing_requests", "metrics_interval_s",
    "look_back_period_s", "smoothing_factor", "upscale_smoothing_factor", "downscale_smoothing_factor",
    "upscaling_factor", "downscaling_factor", "downscale_delay_s", "upscale_delay_s", "downscale_to_zero_delay_s",
    "aggregation_function", "policy",
)  # fmt: skip
DEPLOYMENT_FIELDS = (
    "name", "num_replicas", "max_ongoing_requests", "max_queued_requests", "backpressure_config", "user_config",
    "autoscaling_config", "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s", "health_check_period_s",
    "health_check_timeout_s", "ray_actor_options", "placement_group_bundles", "placement_group_strategy",
    "placement_group_bundle_label_selector", "placement_group_fallback_strategy", "max_replicas_per_node",
    "logging_config", "request_router_config", "gang_scheduling_config", "deployment_actors",
    "rolling_update_percentage", "max_surge_percent", "route_prefix", "version", "is_cross_language",
    "stream", "max_constructor_retry_count",
)  # fmt: skip
ACTOR_FIELDS = (
    "runtime_env", "num_cpus", "num_gpus", "memory", "object_store_memory", "resources", "accelerator_type",
    "label_selector", "fallback_strategy",
)  # fmt: skip
APPLICATION_FIELDS = (
    "name", "route_prefix", "import_path", "runtime_env", "host", "port", "deployments", "autoscaling_policy", "args",
    "logging_config", "external_scaler_enabled",
)  # fmt: skip
DOCUMENT_FIELDS = (
    "proxy_location", "http_options", "grpc_options", "controller_options", "logging_config", "tracing_config",
    "applications", "target_capacity",
)  # fmt: skip
HTTP_FIELDS = (
    "host", "port", "root_path", "request_timeout_s", "keep_alive_timeout_s", "ssl_keyfile", "ssl_certfile",
    "ssl_keyfile_password", "ssl_ca_certs", "location", "num_cpus", "middlewares", "fixed_number_replicas",
)  # fmt: skip
# Former names, and the first release that ignores them.
FORMER: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "max_concurrent_queries": ("max_ongoing_requests", (2, 10)),
    "target_num_ongoing_requests_per_replica": ("target_ongoing_requests", (2, 10)),
    "target_num_ongoing_requests": ("target_ongoing_requests", (2, 10)),
}
_PLACES = {
    "deployment": DEPLOYMENT_FIELDS,
    "autoscaling_config": SCALING_FIELDS,
    "ray_actor_options": ACTOR_FIELDS,
}


def unknown_field(world: World) -> Iterator[Hit]:
    """Fields that do nothing."""
    for document in world.serve_documents:
        ray = version_of(_ray_version(world, document))
        for path, key, place, allowed in _fields(document):
            if key in allowed:
                continue
            if key in FORMER and ray is not None and ray < FORMER[key][1]:
                continue  # right for that Ray
            problem, certain = _field_problem(key, place, allowed)
            yield Hit(document.subject, (*path, key), problem, None if certain else Severity.WARN)


def _ray_version(world: World, document: ServeDocument) -> str | None:
    declared = text(document.subject.get("spec", "rayClusterConfig", "rayVersion"))
    images = [
        pod.main.image.ray_version
        for pod in world.pods_by_owner[document.subject]
        if pod.main and pod.main.image
    ]
    return next((found for found in images if found), None) or declared or world.defaults.ray


def _fields(document: ServeDocument) -> Iterator[tuple[Path, str, str, tuple[str, ...]]]:
    """Every field of a known place: path of the place, key, name of the place, keys that Ray reads there."""
    places: list[tuple[Path, object, str, tuple[str, ...]]] = [
        (document.path, document.body, "the document", DOCUMENT_FIELDS),
        ((*document.path, "http_options"), document.body.get("http_options"), "http_options", HTTP_FIELDS),
    ]
    places += [(path, body, "an application", APPLICATION_FIELDS) for path, body in document.applications]
    for path, options, _ in document.deployment_options:
        places.append((path, options, "a deployment", DEPLOYMENT_FIELDS))
        places.append(
            (
                (*path, "autoscaling_config"),
                options.get("autoscaling_config"),
                "autoscaling_config",
                SCALING_FIELDS,
            )
        )
        places.append(
            (
                (*path, "ray_actor_options"),
                options.get("ray_actor_options"),
                "ray_actor_options",
                ACTOR_FIELDS,
            )
        )
    for path, body, place, allowed in places:
        for key in mapping(body):
            yield path, key, place, allowed


def _field_problem(key: str, place: str, allowed: tuple[str, ...]) -> tuple[str, bool]:
    """What is wrong with a field, and whether that is certain (a new release may know one that is like none)."""
    if key in FORMER:
        return f"Ray ignores {key}; it is {FORMER[key][0]} now", True
    elsewhere = [name for name, fields in _PLACES.items() if key in fields]
    if elsewhere:
        belongs = "the deployment" if elsewhere[0] == "deployment" else elsewhere[0]
        return f"Ray ignores {key} in {place}; it belongs to {belongs}", True
    if key in HTTP_FIELDS:
        return f"Ray ignores {key} in {place}; it belongs to http_options", True
    near = get_close_matches(key, allowed, n=1, cutoff=0.75)
    if near:
        return f"Ray ignores {key} in {place}; did you mean {near[0]}?", True
    return f"Ray 2.60 knows no {key} in {place}, and ignores it", False


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
    (INVALID, invalid), (UNKNOWN_FIELD, unknown_field), (TOO_MANY, too_many), (ACTOR_GPUS, actor_gpus),
    (NEVER_SCALES, never_scales), (ACCELERATOR, accelerator), (HEAD_ONLY, head_only),
)  # fmt: skip
