"""What is scraped, what alerts, what the dashboard shows."""

import json
import re

from components.manifests import alerts, dashboard, monitoring
from tests.unit.manifests.stacks import model, platform

# facts: vLLM 0.29 through Ray 2.60, and Serve's own.
KNOWN = {
    "ray_vllm_num_requests_waiting", "ray_vllm_num_requests_running", "ray_vllm_kv_cache_usage_perc",
    "ray_vllm_num_preemptions_total", "ray_vllm_prefix_cache_hits_total", "ray_vllm_prefix_cache_queries_total",
    "ray_vllm_time_to_first_token_seconds_bucket", "ray_vllm_inter_token_latency_seconds_bucket",
    "ray_vllm_generation_tokens_total", "ray_vllm_request_success_total", "ray_serve_deployment_queued_queries",
    "ray_serve_deployment_replica_healthy", "ray_serve_num_http_error_requests_total", "ray_placement_groups",
}  # fmt: skip


def _alerts(**changes: object) -> dict[str, dict[str, object]]:
    groups = alerts.rules(platform(models=[model(**changes)]))["spec"]["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_monitors_of_any_release_are_read() -> None:
    """The chart's default reads only what carries its own release label, and leaves ours out without a word."""
    spec = monitoring.chart_values(platform().observability, platform().images)["prometheus"][
        "prometheusSpec"
    ]

    assert spec["podMonitorSelectorNilUsesHelmValues"] is False
    assert spec["serviceMonitorSelectorNilUsesHelmValues"] is False
    assert spec["ruleSelectorNilUsesHelmValues"] is False


def test_metrics_are_kept_within_the_volume() -> None:
    """By age and by size, so that a full disk never stops Prometheus."""
    spec = monitoring.chart_values(platform().observability, platform().images)["prometheus"][
        "prometheusSpec"
    ]

    assert (spec["retention"], spec["retentionSize"]) == ("15d", "85GiB")
    assert spec["storageSpec"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] == "100Gi"


def test_grafana_has_no_known_password() -> None:
    """The chart's administrator has a password that is in its documentation: there is none."""
    grafana = monitoring.chart_values(platform().observability, platform().images)["grafana"]

    assert grafana["env"] == {"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"}
    assert grafana["grafana.ini"]["auth.anonymous"] == {"enabled": True, "org_role": "Viewer"}


def test_heads_are_scraped_at_three_ports() -> None:
    """Node, autoscaler and dashboard each have their own."""
    head = monitoring.pod_monitors(platform())[0]

    assert head["spec"]["selector"]["matchLabels"] == {"ray.io/node-type": "head"}
    assert [e["port"] for e in head["spec"]["podMetricsEndpoints"]] == [
        "metrics",
        "as-metrics",
        "dash-metrics",
    ]


def test_workers_are_scraped_at_the_interval_of_the_stack() -> None:
    """The timeout is no longer than the interval, or Prometheus refuses the monitor."""
    endpoint = monitoring.pod_monitors(platform(observability={"scrapeInterval": 7}))[1]["spec"][
        "podMetricsEndpoints"
    ][0]

    assert (endpoint["port"], endpoint["interval"], endpoint["scrapeTimeout"]) == ("metrics", "7s", "7s")


def test_series_carry_cluster_and_model() -> None:
    """Cluster names are generated; the model's name outlives them."""
    relabelings = monitoring.pod_monitors(platform())[1]["spec"]["podMetricsEndpoints"][0]["relabelings"]

    assert [entry["targetLabel"] for entry in relabelings] == ["ray_io_cluster", "model"]


def test_nodes_are_watched_only_where_there_are_pools() -> None:
    """A stack on CPU has neither Karpenter nor GPU metrics."""
    names = [one["metadata"]["name"] for one in monitoring.pod_monitors(platform())]

    assert names == ["ray-head", "ray-workers", "karpenter", "dcgm-exporter"]
    assert len(monitoring.pod_monitors(platform(pools=[], models=[model(pool=None)]))) == 2


def test_the_address_of_prometheus_is_known() -> None:
    """The stack's own, one that is there, or none."""
    own, other = platform(), platform(observability={"prometheus": "http://metrics.example:9090"})

    assert monitoring.prometheus_address(own) == "http://kube-prometheus-stack-prometheus.monitoring.svc:9090"
    assert monitoring.prometheus_address(other) == "http://metrics.example:9090"
    assert monitoring.prometheus_address(platform(observability={"enabled": False})) is None


def test_a_queue_alerts_above_what_scaling_can_reach() -> None:
    """Below 5 requests a replica and 8 replicas, scaling is the answer and nobody need come."""
    assert (
        _alerts()["ModelQueueAtCeiling"]["expr"] == 'sum(ray_vllm_num_requests_waiting{model="llama"}) > 40'
    )


def test_a_model_without_a_replica_is_critical() -> None:
    """Also when its series are gone; not for a model that may scale to zero."""
    rule = _alerts()["ModelHasNoReadyReplica"]

    assert rule["labels"] == {"severity": "critical", "model": "llama"}
    assert "or vector(0)) == 0" in str(rule["expr"])
    assert "ModelHasNoReadyReplica" not in _alerts(scaling={"minReplicas": 0}, serving="routed")


def test_late_first_tokens_alert_at_the_promise() -> None:
    """Only for a model with an objective."""
    rule = _alerts(objective={"ttftP99": 5.0})["ModelFirstTokenLate"]

    assert str(rule["expr"]).endswith("> 5.0")
    assert "ModelFirstTokenLate" not in _alerts()


def test_the_platform_is_watched() -> None:
    """Everything that models share has its alert."""
    expected = {
        "PodPending", "PlacementGroupPending", "HeadMemoryHigh", "SpotInterruption", "CacheFillerFails", "DownloadFailed",
    }  # fmt: skip

    assert expected <= set(_alerts())


def test_waiting_headroom_is_no_alert() -> None:
    """Pause pods wait on purpose when a model has taken their node."""
    assert 'pod!~"headroom-.+"' in str(_alerts()["PodPending"]["expr"])


def test_only_metrics_that_exist_are_asked_for() -> None:
    """A misspelt or gone metric shows nothing and alerts never."""
    queries = [str(rule["expr"]) for rule in _alerts(objective={"ttftP99": 5.0}).values()]
    queries += [target["expr"] for panel in dashboard.dashboard()["panels"] for target in panel["targets"]]
    asked = set(re.findall(r"\bray_(?:vllm|serve|placement)\w*", " ".join(queries)))

    assert asked - KNOWN == set()


def test_the_dashboard_is_found_by_grafana() -> None:
    """The sidecar looks for a label, and loads JSON."""
    config_map = dashboard.config_map(platform())

    assert config_map["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config_map["data"]["llm-platform.json"])["uid"] == "llm-platform"


def test_panels_do_not_lie_on_each_other() -> None:
    """Three to a row of 24 columns."""
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard.dashboard()["panels"]]

    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) == 16
