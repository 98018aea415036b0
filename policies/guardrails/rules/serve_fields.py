"""Fields of Serve documents that Ray accepts and ignores."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from guardrails.contract import version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.serve import ServeDocument
from guardrails.values import mapping, text
from guardrails.world import World

UNKNOWN_FIELD = Rule(
    id="serve-field-unknown",
    severity=Severity.ERROR,
    sentence="Every field of a Serve document is one that Ray reads where it stands.",
    why="Ray accepts it and ignores it: the default is used and nobody notices.",
    remedy="use the name and the place that the message gives",
    source="ray#61439; Ray 2.60 ray/serve/schema.py, config.py",
    reads=("RayService:spec.serveConfigV2",),
)


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
            if key in allowed or (path == document.path and "applications" not in document.body):
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


RULES: Table = ((UNKNOWN_FIELD, unknown_field),)
