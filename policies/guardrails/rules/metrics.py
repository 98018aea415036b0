"""Metric names that the engine emits, and monitors that find the port they scrape."""

import json
from collections.abc import Iterator, Sequence

from guardrails.contract import knows, metric_kinds, suggestion
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject, labels_match
from guardrails.pods import Pod
from guardrails.promql import metrics_in
from guardrails.rules.scaling import prometheus_triggers
from guardrails.values import get, mapping, mappings, text, texts
from guardrails.world import World

UNKNOWN = Rule(
    id="metric-unknown",
    severity=Severity.ERROR,
    sentence="A query names metrics that the engine's version emits.",
    why="It returns nothing, which KEDA takes as 0 and an alert as quiet.",
    remedy="use the name that this version has",
    source="vllm/v1/metrics of each release (components/facts/data/engine_metrics.json); vllm PR 27341",
    reads=("ScaledObject:spec.triggers.*.metadata.query",),
)
PORT = Rule(
    id="monitor-port-missing",
    severity=Severity.ERROR,
    sentence="A monitor names a port that the pods or Services it selects have.",
    why="Prometheus finds no target and says nothing.",
    remedy="name the port in the container or Service, or use the name that is there",
    source="prometheus-operator API, PodMetricsEndpoint and Endpoint",
    reads=("pod:containers.*.ports",),
)

SUFFIXES = ("_total", "_created", "_bucket", "_sum", "_count", "_info")
# The router of vLLM's production stack has metrics of its own under the same prefix
# (vllm-project/production-stack src/vllm_router/services/metrics_service).
ROUTER_METRICS = frozenset(
    {
        "vllm:current_qps", "vllm:avg_decoding_length", "vllm:num_prefill_requests", "vllm:num_decoding_requests",
        "vllm:healthy_pods_total", "vllm:avg_latency", "vllm:avg_itl", "vllm:avg_ttft",
        "vllm:router_queueing_delay_seconds", "vllm:num_incoming_requests_total", "vllm:input_token_length",
        "vllm:output_token_length", "vllm:request_errors_total", "vllm:gpu_prefix_cache_hit_rate",
    }
)  # fmt: skip
# KubeRay gives every Ray container this port when it has none of that name (common/pod.go).
RAY_METRICS_PORT = "metrics"


def queries(world: World) -> Iterator[tuple[Subject, Path, str]]:
    """Every query that names metrics: triggers, alert and recording rules, external metrics."""
    for scaler, path, query, _ in prometheus_triggers(world):
        yield scaler, path, query
    for subject in world.kind("PrometheusRule"):
        for place, group in mappings(subject.get("spec", "groups")):
            for index, rule in mappings(group.get("rules")):
                if expression := text(rule.get("expr")):
                    yield subject, ("spec", "groups", place, "rules", index, "expr"), expression
    for subject in world.kind("HorizontalPodAutoscaler"):
        for index, metric in mappings(subject.get("spec", "metrics")):
            for key in ("pods", "external", "object"):
                if name := text(get(metric, key, "metric", "name")):
                    yield subject, ("spec", "metrics", index, key, "metric", "name"), name


def _dashboards(world: World) -> Iterator[tuple[Subject, Path, str]]:
    """Queries of Grafana dashboards in ConfigMaps."""
    for subject in world.by_kind.get("ConfigMap", []):
        for key, value in mapping(subject.get("data")).items():
            if isinstance(value, str) and '"expr"' in value and ("vllm:" in value or "ray_vllm_" in value):
                for expression in _expressions(value):
                    yield subject, ("data", key), expression


def _expressions(value: str) -> Iterator[str]:
    try:
        stack: list[object] = [json.loads(value)]
    except (ValueError, RecursionError):
        return
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if isinstance(item.get("expr"), str):
                yield item["expr"]
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def unknown(world: World) -> Iterator[Hit]:
    """Names that the engine does not emit."""
    recorded = {
        text(rule.get("record")) or ""
        for subject in world.kind("PrometheusRule")
        for _, group in mappings(subject.get("spec", "groups"))
        for _, rule in mappings(group.get("rules"))
    }
    for subject, path, query in queries(world):
        yield from _unknown_in(world, subject, path, query, recorded, None)
    for subject, path, query in _dashboards(world):
        yield from _unknown_in(world, subject, path, query, recorded, Severity.WARN)


def _unknown_in(
    world: World, subject: Subject, path: Path, query: str, recorded: set[str], severity: Severity | None
) -> Iterator[Hit]:
    for written in metrics_in(query):
        if written in recorded or written in ROUTER_METRICS:
            continue
        problem = metric_problem(written, world.engine_versions)
        if problem:
            yield Hit(subject, path, problem, severity)


def metric_problem(written: str, versions: Sequence[str]) -> str:
    """What is wrong with a metric's name for every one of some engine versions; empty where nothing is.

    Without a version only a name that no release has is wrong.
    """
    in_ray = written.startswith("ray_vllm_")
    native = f"vllm:{written.removeprefix('ray_vllm_')}" if in_ray else written
    problems = [_native_problem(native, version) for version in versions or (None,)]
    if not all(problems):
        return ""
    near, version = problems[0] or ("", None)
    named = f"vLLM {version}" if version else "no release of vLLM in the table"
    emits = f"{named} does not emit {written}" if version else f"{named} emits {written}"
    shown = (near.replace("vllm:", "ray_vllm_") if in_ray else near) if near else ""
    return emits + (f"; it is {shown} now" if shown else "")


def _native_problem(native: str, version: str | None) -> tuple[str, str | None] | None:
    """The name that is meant, where a version does not emit one."""
    for base, suffix in _bases(native):
        known = knows("metrics", version, base)
        if known is None and version is None:
            continue
        if known is None or (known and _fits(base, suffix)):
            return None
        if known:
            return f"{base}_total" if metric_kinds().get(base) == "counter" else base, version
    if version is None and not _in_no_release(native):
        return None
    return suggestion("metrics", version, native), version


def _bases(native: str) -> Iterator[tuple[str, str]]:
    """Registered names that a name in a query may come from, with the suffix that the exporter adds."""
    yield native, ""
    for suffix in SUFFIXES:
        if native.endswith(suffix):
            yield native.removesuffix(suffix), suffix


def _in_no_release(native: str) -> bool:
    return not any(base in metric_kinds() for base, _ in _bases(native))


def _fits(base: str, suffix: str) -> bool:
    """Whether the exporter gives a metric of this kind that suffix."""
    kind = metric_kinds().get(base, "")
    if kind == "counter":
        return suffix in ("_total", "_created") or (not suffix and base.endswith("_total"))
    if kind == "gauge":
        return not suffix
    if kind == "histogram":
        return suffix in ("_bucket", "_sum", "_count", "_created")
    return True


# ---------------------------------------------------------------------- monitors


def port(world: World) -> Iterator[Hit]:
    """Ports that nothing has."""
    for monitor in world.kind("PodMonitor"):
        pods = world.selected_pods(monitor.get("spec", "selector"), _namespaces(monitor))
        ports = {name for pod in pods for name in _port_names(pod)}
        for index, endpoint in mappings(monitor.get("spec", "podMetricsEndpoints")):
            named = text(endpoint.get("port"))
            if pods and named and named not in ports:
                path: Path = ("spec", "podMetricsEndpoints", index, "port")
                yield Hit(monitor, path, _port_message(named, pods[0].label, len(pods), ports))
    for monitor in world.kind("ServiceMonitor"):
        yield from _service_ports(world, monitor)


def _port_message(named: str, first: str, count: int, ports: set[str]) -> str:
    have = ", ".join(sorted(ports)) or "none by name"
    others = f" and {count - 1} more" if count > 1 else ""
    return f"port {named} is on no pod that the monitor selects ({first}{others} have: {have})"


def _port_names(pod: Pod) -> set[str]:
    names = {name for container in pod.all_containers for name, _ in container.ports if name}
    return names | {RAY_METRICS_PORT} if pod.is_ray else names


def _namespaces(monitor: Subject) -> tuple[str, ...]:
    """Namespaces that a monitor looks at; empty means all."""
    selector = mapping(monitor.get("spec", "namespaceSelector"))
    if selector.get("any") is True:
        return ()
    return tuple(texts(selector.get("matchNames"))) or (monitor.namespace,)


def _service_ports(world: World, monitor: Subject) -> Iterator[Hit]:
    namespaces = _namespaces(monitor)
    selector = mapping(monitor.get("spec", "selector"))
    services = [
        service for service in world.services
        if (not namespaces or service.namespace in namespaces) and labels_match(selector, _labels(service))
    ]  # fmt: skip
    names = {text(item.get("name")) or "" for service in services for _, item in world.service_ports(service)}
    for index, endpoint in mappings(monitor.get("spec", "endpoints")):
        named = text(endpoint.get("port"))
        if services and named and named not in names:
            have = ", ".join(sorted(name for name in names if name)) or "none by name"
            message = (
                f"port {named} is on no Service that the monitor selects ({services[0].label} has: {have})"
            )
            yield Hit(monitor, ("spec", "endpoints", index, "port"), message)


def _labels(service: Subject) -> dict[str, str]:
    return {key: text(value) or "" for key, value in mapping(service.get("metadata", "labels")).items()}


RULES: Table = ((UNKNOWN, unknown), (PORT, port))
