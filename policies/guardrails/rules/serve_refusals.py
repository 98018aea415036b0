"""Serve documents that Ray refuses, and so serves nothing of."""

import re
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.serve import LlmConfig, ServeDocument
from guardrails.values import get, number, text
from guardrails.world import World

INVALID = Rule(
    id="serve-document-invalid",
    severity=Severity.ERROR,
    sentence="serveConfigV2 is YAML that Ray's schema accepts.",
    why="KubeRay sends it to Ray, which refuses it as a whole: no application starts.",
    remedy="correct the document; serveConfigV2 is text (`|`), indented below its key",
    source="Ray 2.60 ray/serve/schema.py ServeDeploySchema; ray/serve/llm LLMConfig",
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


RULES: Table = ((INVALID, invalid),)
