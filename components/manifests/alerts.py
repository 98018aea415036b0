"""What wakes somebody up, and what only tells them.

Sources of metrics: vLLM through Ray (`ray_vllm_*`) and Serve (`ray_serve_*`), both with the label `model` that our
monitors add; Ray's placement groups (`ray_placement_groups`, Ray 2.60 default dashboard); kube-state-metrics and
cAdvisor; Karpenter 1.14 (`pkg/controllers/interruption/metrics.go`).
"""

from typing import Any

from components import conventions
from components.manifests.cache_filler import FILLER_CONTAINER
from components.manifests.download_job import DOWNLOAD_CONTAINER
from components.settings.models import Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

_KV_FULL = 0.95  # above it vLLM preempts running requests
_HEAD_FULL = 0.85
_TTFT_WINDOW = "5m"


def rules(platform: PlatformSettings) -> Manifest:
    """The stack's PrometheusRule: a group a model, and one for what they share."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "llm-platform",
            "namespace": platform.namespace,
            "labels": conventions.labels("monitoring", "alerts"),
        },
        "spec": {
            "groups": [
                *(_model_group(model) for model in platform.models),
                {"name": "platform", "rules": _platform_rules(platform.namespace)},
            ]
        },
    }


def _model_group(model: Model) -> Manifest:
    found = [{**rule, "labels": {**rule["labels"], "model": model.name}} for rule in _model_rules(model)]
    return {"name": f"model-{model.name}", "rules": found}


def _model_rules(model: Model) -> list[Manifest]:
    of = f'{{model="{model.name}"}}'
    ceiling = model.scaling.waiting_per_replica * model.scaling.max_replicas
    found = [
        _rule(
            "ModelQueueAtCeiling",
            f"sum(ray_vllm_num_requests_waiting{of}) > {ceiling}",
            "5m",
            "warning",
            f"{model.name}: more requests wait than its {model.scaling.max_replicas} replicas can take; raise maxReplicas",
        ),
        _rule(
            "ModelKvCacheFull",
            f"avg(ray_vllm_kv_cache_usage_perc{of}) > {_KV_FULL}",
            "10m",
            "warning",
            f"{model.name}: the KV cache is full, running requests are thrown back into the queue",
        ),
    ]
    if model.scaling.min_replicas:
        healthy = f'ray_serve_deployment_replica_healthy{{model="{model.name}",deployment!~".*Ingress.*"}}'
        found.append(
            _rule(
                "ModelHasNoReadyReplica",
                f"(sum({healthy}) or vector(0)) == 0",
                "5m",
                "critical",
                f"{model.name}: no replica is ready, nobody is answered",
            )
        )
    if model.objective and model.objective.ttft_p99:
        buckets = f"ray_vllm_time_to_first_token_seconds_bucket{of}"
        found.append(
            _rule(
                "ModelFirstTokenLate",
                f"histogram_quantile(0.99, sum by (le) (rate({buckets}[{_TTFT_WINDOW}]))) > {model.objective.ttft_p99}",
                "10m",
                "warning",
                f"{model.name}: 1 % of users wait longer than {model.objective.ttft_p99} s for the first token",
            )
        )
    return found


def _platform_rules(namespace: str) -> list[Manifest]:
    inside = f'namespace="{namespace}"'
    head = f'{inside},pod=~".+-head-.+",container!=""'
    used, limit = (
        f"container_memory_working_set_bytes{{{head}}}",
        f'kube_pod_container_resource_limits{{{head},resource="memory"}}',
    )
    restarts = f'kube_pod_container_status_restarts_total{{{inside},container="{FILLER_CONTAINER}"}}'
    return [
        _rule(
            "PodPending",
            # Headroom's pods wait on purpose when a model has taken their node.
            f'kube_pod_status_phase{{{inside},phase="Pending",pod!~"headroom-.+"}} == 1',
            "10m",
            "warning",
            "{{ $labels.pod }} has waited for 10 minutes: pool limit, no capacity, or a volume; see its events",
        ),
        _rule(
            "PlacementGroupPending",
            'sum by (model) (ray_placement_groups{State="PENDING"}) > 0',
            "10m",
            "warning",
            "{{ $labels.model }}: Ray has waited for GPUs for 10 minutes; see Karpenter's events and the pool's limit",
        ),
        _rule(
            "HeadMemoryHigh",
            f"{used} / on (namespace, pod, container) {limit} > {_HEAD_FULL}",
            "10m",
            "warning",
            "{{ $labels.pod }} uses more than 85 % of its memory; raise head.memory before it is killed",
        ),
        _rule(
            "SpotInterruption",
            'increase(karpenter_interruption_received_messages_total{message_type="spot_interrupted"}[5m]) > 0',
            "0m",
            "info",
            "EC2 takes a spot node back; its pods drain and Karpenter starts another",
        ),
        _rule(
            "CacheFillerFails",
            f"increase({restarts}[30m]) > 2",
            "0m",
            "warning",
            "{{ $labels.pod }} cannot copy a model to its node; workers on it wait. Its log says why",
        ),
        _rule(
            "DownloadFailed",
            f'kube_job_status_failed{{{inside},job_name=~".+-{DOWNLOAD_CONTAINER}-[0-9a-f]+"}} > 0',
            "0m",
            "warning",
            "{{ $labels.job_name }} could not bring a model into the bucket. The log of its pod says why",
        ),
    ]


def _rule(name: str, expression: str, lasting: str, severity: str, summary: str) -> Manifest:
    return {
        "alert": name,
        "expr": expression,
        "for": lasting,
        "labels": {"severity": severity},
        "annotations": {"summary": summary},
    }
