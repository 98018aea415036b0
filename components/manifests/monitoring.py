"""Prometheus and Grafana: values of their chart, and what is scraped.

The monitors are ours and not the charts' (which could make them for Karpenter and the GPU exporter): those charts are
installed before the CRDs of monitoring are there.
"""

from collections.abc import Mapping
from typing import Any

from components import conventions
from components.manifests.images import registry_of
from components.manifests.placement import SYSTEM_NODES_PREFERRED
from components.settings.cluster import ImageSettings
from components.settings.extras import ObservabilitySettings
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

_DISK_FILLED = 0.85  # of Prometheus' volume: the rest is for its write-ahead log and for compaction
# What EKS runs itself and shows no metrics of; their default alerts would fire for ever.
_HIDDEN = ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy")
_HIDDEN_RULES = (
    "etcd",
    "kubeControllerManager",
    "kubeSchedulerAlerting",
    "kubeSchedulerRecording",
    "kubeProxy",
)


def prometheus_address(platform: PlatformSettings) -> str | None:
    """Where the stack's metrics can be asked for, or None when it has none."""
    settings = platform.observability
    return (settings.prometheus or conventions.PROMETHEUS_ADDRESS) if settings.enabled else None


def chart_values(settings: ObservabilitySettings, images: ImageSettings) -> Manifest:
    """Values of kube-prometheus-stack."""
    any_namespace = ("podMonitor", "serviceMonitor", "rule", "probe", "scrapeConfig")
    size = int(settings.storage.removesuffix("Gi"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": settings.storage}}}
    quay, kubernetes, hub = (
        None if images.mirror else registry_of(host, images)
        for host in ("quay.io", "registry.k8s.io", "docker.io")
    )
    return {
        "fullnameOverride": "kube-prometheus-stack",  # the address in conventions is built on it
        **({"global": {"imageRegistry": images.mirror}} if images.mirror else {}),
        "prometheus": {
            "prometheusSpec": {
                **_from(quay),
                # Otherwise only what carries the chart's release label is scraped, and ours is silently left out.
                **{f"{kind}SelectorNilUsesHelmValues": False for kind in any_namespace},
                "retention": f"{settings.retention_days}d",
                "retentionSize": f"{int(size * _DISK_FILLED)}GiB",
                "storageSpec": {"volumeClaimTemplate": {"spec": claim}},
                "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
                "affinity": SYSTEM_NODES_PREFERRED,
            }
        },
        "prometheusOperator": {
            **_from(quay),
            **({"prometheusConfigReloader": _from(quay)} if quay else {}),
            "affinity": SYSTEM_NODES_PREFERRED,
        },
        "alertmanager": {"alertmanagerSpec": {**_from(quay), "affinity": SYSTEM_NODES_PREFERRED}},
        "kube-state-metrics": {**_from(kubernetes), "affinity": SYSTEM_NODES_PREFERRED},
        **({"prometheus-node-exporter": _from(quay)} if quay else {}),
        "grafana": {**_from(hub), **_grafana()},
        **{component: {"enabled": False} for component in _HIDDEN},
        "defaultRules": {"rules": dict.fromkeys(_HIDDEN_RULES, False)},
    }


def _from(registry: str | None) -> Manifest:
    """Where a part's own image comes from; the chart keeps its name and tag."""
    return {"image": {"registry": registry}} if registry else {}


def pod_monitors(platform: PlatformSettings) -> list[Manifest]:
    """What Prometheus scrapes: Ray's pods in the stack's namespace, Karpenter, and the exporter of GPU metrics."""
    interval, inside = f"{platform.observability.scrape_interval}s", platform.namespace
    head_ports = ("metrics", "as-metrics", "dash-metrics")
    head = _monitor("ray-head", inside, {"ray.io/node-type": "head"}, head_ports)
    workers = _monitor("ray-workers", inside, {"ray.io/node-type": "worker"}, ("metrics",))
    for monitor in (head, workers):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            endpoint |= {"interval": interval, "scrapeTimeout": interval, "relabelings": _RAY_LABELS}
    if not platform.gpu_pools:
        return [head, workers]
    name = "app.kubernetes.io/name"
    karpenter = _monitor("karpenter", inside, {name: "karpenter"}, ("http-metrics",), everywhere=True)
    gpus = _monitor("dcgm-exporter", inside, {name: "dcgm-exporter"}, ("metrics",), everywhere=True)
    return [head, workers, karpenter, gpus]


# Ray's own dashboards group by the cluster's name; ours and the alerts by the model's, which outlives a cluster.
_RAY_LABELS = [
    {"sourceLabels": ["__meta_kubernetes_pod_label_ray_io_cluster"], "targetLabel": "ray_io_cluster"},
    {"sourceLabels": ["__meta_kubernetes_pod_label_app_kubernetes_io_instance"], "targetLabel": "model"},
]


def _monitor(
    name: str,
    namespace: str,
    selector: Mapping[str, str],
    ports: tuple[str, ...],
    *,
    everywhere: bool = False,
) -> Manifest:
    """A PodMonitor of pods in its own namespace or, for operators that may have been there before, in any."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": conventions.labels("monitoring", "monitor"),
        },
        "spec": {
            **({"namespaceSelector": {"any": True}} if everywhere else {}),
            "selector": {"matchLabels": dict(selector)},
            "podMetricsEndpoints": [{"port": port, "path": "/metrics"} for port in ports],
        },
    }


def _grafana() -> Manifest:
    """Grafana that anybody inside the cluster may read and nobody may change, so that there is no password to leak.

    The chart's own administrator has a password that is in its documentation.
    """
    return {
        "env": {"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"},
        "grafana.ini": {
            "auth": {"disable_login_form": True},
            "auth.anonymous": {"enabled": True, "org_role": "Viewer"},
            "analytics": {"reporting_enabled": False, "check_for_updates": False},
        },
        "sidecar": {"dashboards": {"enabled": True, "searchNamespace": "ALL"}},
        "affinity": SYSTEM_NODES_PREFERRED,
    }
