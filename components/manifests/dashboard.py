"""One small Grafana dashboard of Serve and vLLM.

Ray's own factory makes 267 kB of JSON, too much for a diff that somebody should read, and still draws a metric that
vLLM no longer has. Metric names: vLLM 0.29 through Ray 2.60, see the table of metrics in docs.
"""

import json
from dataclasses import dataclass
from typing import Any

from components import conventions
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_OF = '{model=~"$model"}'


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    unit: str
    queries: dict[str, str]  # legend -> PromQL


def _quantiles(metric: str) -> dict[str, str]:
    buckets = f"sum by (model, le) (rate({metric}_bucket{_OF}[$__rate_interval]))"
    return {f"{{{{model}}}} p{q}": f"histogram_quantile(0.{q}, {buckets})" for q in (50, 99)}


def _by_model(expression: str) -> dict[str, str]:
    return {"{{model}}": f"sum by (model) ({expression})"}


def _rate(metric: str) -> str:
    return f"rate({metric}{_OF}[$__rate_interval])"


_PREFIX_HITS = (
    f"sum by (model) ({_rate('ray_vllm_prefix_cache_hits_total')}) "
    f"/ sum by (model) ({_rate('ray_vllm_prefix_cache_queries_total')})"
)

_PANELS = (
    _Panel("Requests waiting", "short", _by_model(f"ray_vllm_num_requests_waiting{_OF}")),
    _Panel("Requests running", "short", _by_model(f"ray_vllm_num_requests_running{_OF}")),
    _Panel("KV cache used", "percentunit", {"{{model}} {{pod}}": f"avg by (model, pod) (ray_vllm_kv_cache_usage_perc{_OF})"}),
    _Panel("Time to first token", "s", _quantiles("ray_vllm_time_to_first_token_seconds")),
    _Panel("Time between tokens", "s", _quantiles("ray_vllm_inter_token_latency_seconds")),
    _Panel("Tokens written", "short", _by_model(_rate("ray_vllm_generation_tokens_total"))),
    _Panel("Requests finished", "reqps", _by_model(_rate("ray_vllm_request_success_total"))),
    _Panel("Requests thrown back (preemptions)", "short", _by_model(_rate("ray_vllm_num_preemptions_total"))),
    _Panel("Prefix cache hits", "percentunit", {"{{model}}": _PREFIX_HITS}),
    _Panel("Replicas ready", "short", {
        "{{model}} {{deployment}}": f"sum by (model, deployment) (ray_serve_deployment_replica_healthy{_OF})",
    }),
    _Panel("Queue before replicas", "short", _by_model(f"ray_serve_deployment_queued_queries{_OF}")),
    _Panel("HTTP errors", "reqps", _by_model(_rate("ray_serve_num_http_error_requests_total"))),
)  # fmt: skip


def config_map(platform: PlatformSettings) -> Manifest:
    """The dashboard, where Grafana's sidecar looks for it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "llm-platform-dashboard",
            "namespace": platform.namespace,
            "labels": {**conventions.labels("monitoring", "dashboard"), "grafana_dashboard": "1"},
        },
        "data": {"llm-platform.json": json.dumps(dashboard(), indent=1)},
    }


def dashboard() -> Manifest:
    """The dashboard in Grafana's model, for the version of the pinned chart and later."""
    return {
        "uid": "llm-platform",
        "title": "LLM platform",
        "tags": ["llm-platform"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [_panel(panel, number) for number, panel in enumerate(_PANELS)],
    }


def _variables() -> list[Manifest]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return [
        {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "model",
            "label": "Model",
            "type": "query",
            "datasource": source,
            "query": {"query": "label_values(ray_vllm_num_requests_running, model)", "refId": "models"},
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
        },
    ]


def _panel(panel: _Panel, number: int) -> Manifest:
    source = {"type": "prometheus", "uid": "${datasource}"}
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": query, "legendFormat": legend}
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }
