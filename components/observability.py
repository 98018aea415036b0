"""Metrics, alerts and the dashboard of a stack."""

from dataclasses import dataclass
from typing import Any

import pulumi

from components import conventions, pins
from components.chart import install_chart
from components.kubernetes_object import KubernetesObject
from components.manifests import alerts, dashboard, monitoring
from components.settings.platform import PlatformSettings

TIMEOUT = 900  # seconds; the chart is large, and its volumes are made first


@dataclass(frozen=True, kw_only=True)
class ObservabilityArgs:
    """What is watched.

    Attributes:
        settings: the stack's settings.
        install: False where the cluster has the Prometheus operator already; then only what is ours is made.
    """

    settings: PlatformSettings
    install: bool = True


class Observability(pulumi.ComponentResource):
    """Metrics, alerts and the dashboard of a stack; nothing where `observability.enabled` is false.

    Makes:
    * Prometheus, Alertmanager and Grafana by the chart kube-prometheus-stack
    * monitors of Ray's heads and workers, of Karpenter and of the GPU exporter
    * alerts for each model and for what models share
    * a dashboard of Serve and vLLM

    Grafana is read without a login from inside the cluster and has no administrator. Alertmanager has no receiver: who
    is told is a matter of the place, `kubectl apply` an AlertmanagerConfig for it.
    """

    prometheus: str | None
    """Address of the Prometheus that has the stack's metrics, known at preview; None without observability."""

    def __init__(
        self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Observability", name, None, opts)
        settings = args.settings
        self.prometheus = monitoring.prometheus_address(settings)
        if settings.observability.enabled:
            after = [self._install(name, settings)] if args.install else []
            objects = (
                *monitoring.pod_monitors(settings),
                alerts.rules(settings),
                dashboard.config_map(settings),
            )
            for manifest in objects:
                self._place(name, manifest, after)
        self.register_outputs({"prometheus": self.prometheus})

    def _install(self, name: str, settings: PlatformSettings) -> pulumi.Resource:
        values = monitoring.chart_values(settings.observability, settings.images)
        options = pulumi.ResourceOptions(parent=self)
        return install_chart(f"{name}-chart", pins.MONITORING, values, options, timeout=TIMEOUT)

    def _place(self, name: str, manifest: dict[str, Any], after: list[pulumi.Resource]) -> None:
        what = f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}"
        KubernetesObject(what, manifest, pulumi.ResourceOptions(parent=self, depends_on=after))
