"""Autoscalers: targets that can be scaled, queries that give one number, and signals that say something about GPUs."""

from collections.abc import Iterator

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.promql import series_of
from guardrails.values import get, mapping, mappings, text
from guardrails.world import World

BAD_TARGET = Rule(
    id="scaler-bad-target",
    severity=Severity.ERROR,
    sentence="An autoscaler aims at a kind with a scale subresource.",
    why="It reads and writes /scale; without it the scaler never becomes ready.",
    remedy="scale Ray by Serve's autoscaling_config and the Ray autoscaler; aim KEDA at a Deployment or StatefulSet",
    source="KubeRay CRDs (subresources: status only); kuberay#4099; KEDA scaledobject_controller.go",
)
MULTI_SERIES = Rule(
    id="scaler-query-many-series",
    severity=Severity.ERROR,
    sentence="A Prometheus trigger's query returns one element.",
    why="KEDA refuses a result of several, so scaling freezes as soon as there is a second pod.",
    remedy="wrap it in sum(), max() or avg() without by",
    source="KEDA docs, Prometheus scaler",
    reads=("ScaledObject:spec.triggers.*.metadata.query",),
)
DOUBLE_AVERAGE = Rule(
    id="scaler-double-average",
    severity=Severity.WARN,
    sentence="A ratio or an average is compared as it is, with metricType Value.",
    why="AverageValue, the default, divides it by the replicas again: three pods at 0.9 look like 0.3.",
    remedy="set metricType: Value, or query a total with sum()",
    source="keda#5781, keda#4148; KEDA docs, metricType",
    reads=("ScaledObject:spec.triggers.*.metadata.query",),
)
CPU_ON_GPU = Rule(
    id="hpa-cpu-on-gpu",
    severity=Severity.WARN,
    sentence="A GPU engine is not scaled on CPU or memory.",
    why="Neither says anything about the queue: the engine spins one core when idle and holds its memory from the start.",
    remedy="scale on vllm:num_requests_waiting or vllm:kv_cache_usage_perc",
    source="vLLM metrics docs; AWS EKS guide on autoscaling inference",
)
DUTY_CYCLE = Rule(
    id="scaler-on-gpu-duty-cycle",
    severity=Severity.WARN,
    sentence="An engine is not scaled on GPU utilization.",
    why="The duty cycle is near 100 % with a single request, so it says nothing about load.",
    remedy="scale on vllm:num_requests_waiting or vllm:kv_cache_usage_perc",
    source="NVIDIA DCGM fields (DCGM_FI_DEV_GPU_UTIL); GKE inference autoscaling guide",
)
NULL_IGNORED = Rule(
    id="scaler-ignores-missing-metric",
    severity=Severity.ADVICE,
    sentence="A trigger says what a missing metric means.",
    why="ignoreNullValues is true by default: a renamed metric reads as 0 and scales down in silence.",
    remedy='set ignoreNullValues: "false" and a fallback',
    source="KEDA docs, Prometheus scaler",
)

WITHOUT_SCALE = frozenset(
    {"RayCluster", "RayService", "RayJob", "RayCronJob", "DaemonSet", "Job", "CronJob", "Pod", "Service"}
)
SCALERS = ("ScaledObject", "HorizontalPodAutoscaler")
_REFERENCE: Path = ("spec", "scaleTargetRef")


def bad_target(world: World) -> Iterator[Hit]:
    """Targets that nobody can scale."""
    for scaler in world.kind(*SCALERS):
        kind, api = text(scaler.get(*_REFERENCE, "kind")), text(scaler.get(*_REFERENCE, "apiVersion")) or ""
        if kind in WITHOUT_SCALE or api.startswith("ray.io/"):
            target = f"{api} {kind}".strip()
            yield Hit(scaler, (*_REFERENCE, "kind"), f"the target {target} has no scale subresource")


def prometheus_triggers(world: World) -> Iterator[tuple[Subject, Path, str, str | None]]:
    """Queries of Prometheus triggers: object, path of the query, query, metric type."""
    for scaler in world.kind("ScaledObject", "ScaledJob"):
        for index, trigger in mappings(scaler.get("spec", "triggers")):
            query = text(get(trigger, "metadata", "query"))
            if text(trigger.get("type")) == "prometheus" and query:
                path: Path = ("spec", "triggers", index, "metadata", "query")
                yield scaler, path, query, text(trigger.get("metricType"))


def _is_job(scaler: Subject) -> bool:
    return scaler.kind == "ScaledJob"


def multi_series(world: World) -> Iterator[Hit]:
    """Queries that may give several series."""
    for scaler, path, query, _ in prometheus_triggers(world):
        found = series_of(query)
        if found is not None and found.many:
            message = f"the query returns one series for each pod, KEDA needs exactly one: {_short(query)}"
            yield Hit(scaler, path, message)


def _short(query: str) -> str:
    return query if len(query) <= 100 else f"{query[:97]}..."  # noqa: PLR2004


def double_average(world: World) -> Iterator[Hit]:
    """Averages that are divided again."""
    for scaler, path, query, metric_type in prometheus_triggers(world):
        found = series_of(query)
        if (
            found is not None
            and found.ratio
            and metric_type in (None, "AverageValue")
            and not _is_job(scaler)
        ):
            kind = "AverageValue" if metric_type else "the default AverageValue"
            yield Hit(
                scaler,
                path,
                f"the query is an average or a ratio, and {kind} divides it by the replicas again: {_short(query)}",
            )


def _targets_engine(world: World, scaler: Subject) -> bool:
    """Whether a scaler's target runs on GPUs."""
    target = world.target(mapping(scaler.get(*_REFERENCE)), scaler.namespace)
    return target is not None and any(pod.gpus for pod in world.pods_by_owner.get(target, []))


def cpu_on_gpu(world: World) -> Iterator[Hit]:
    """CPU or memory as the signal for a GPU engine."""
    for scaler in world.kind(*SCALERS):
        if not _targets_engine(world, scaler):
            continue
        for path, resource in _resource_metrics(scaler):
            target = text(scaler.get(*_REFERENCE, "name"))
            yield Hit(scaler, path, f"{scaler.label} scales the GPU engine {target} on {resource}")


def _resource_metrics(scaler: Subject) -> Iterator[tuple[Path, str]]:
    for index, metric in mappings(scaler.get("spec", "metrics")):
        for key in ("resource", "containerResource"):
            if found := text(get(metric, key, "name")):
                yield ("spec", "metrics", index), found
    if scaler.get("spec", "targetCPUUtilizationPercentage") is not None:
        yield ("spec", "targetCPUUtilizationPercentage"), "cpu"
    for index, trigger in mappings(scaler.get("spec", "triggers")):
        if text(trigger.get("type")) in ("cpu", "memory"):
            yield ("spec", "triggers", index, "type"), str(trigger["type"])


def duty_cycle(world: World) -> Iterator[Hit]:
    """GPU utilization as the signal."""
    for scaler, path, query, _ in prometheus_triggers(world):
        if "DCGM_FI_DEV_GPU_UTIL" in query or "duty_cycle" in query:
            yield Hit(scaler, path, f"scales on GPU utilization: {_short(query)}")
    for scaler in world.kind("HorizontalPodAutoscaler"):
        for index, metric in mappings(scaler.get("spec", "metrics")):
            for key in ("pods", "external", "object"):
                name = text(get(metric, key, "metric", "name")) or ""
                if "gpu_util" in name.lower() or "duty_cycle" in name.lower():
                    yield Hit(scaler, ("spec", "metrics", index), f"scales on GPU utilization: {name}")


def null_ignored(world: World) -> Iterator[Hit]:
    """Triggers that read nothing as 0."""
    for scaler in world.kind("ScaledObject"):
        for index, trigger in mappings(scaler.get("spec", "triggers")):
            metadata = mapping(trigger.get("metadata"))
            fallback = scaler.get("spec", "fallback")
            if (
                text(trigger.get("type")) == "prometheus"
                and "ignoreNullValues" not in metadata
                and fallback is None
            ):
                path: Path = ("spec", "triggers", index, "metadata")
                yield Hit(
                    scaler,
                    path,
                    "a metric that is not there reads as 0 (ignoreNullValues is true by default)",
                )


RULES: Table = (
    (BAD_TARGET, bad_target), (MULTI_SERIES, multi_series), (DOUBLE_AVERAGE, double_average), (CPU_ON_GPU, cpu_on_gpu),
    (DUTY_CYCLE, duty_cycle), (NULL_IGNORED, null_ignored),
)  # fmt: skip
