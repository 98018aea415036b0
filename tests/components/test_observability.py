"""Metrics, alerts and the dashboard."""

from typing import Any

import pulumi

from components.observability import Observability, ObservabilityArgs
from tests.components.infra import STACK, Graph, once, registered, settings


@once
def observability(*, install: bool = True, **changes: Any) -> Graph:
    """What is registered, with some of the stack's settings changed."""
    args = ObservabilityArgs(settings=settings(STACK, **changes), install=install)

    def program() -> None:
        pulumi.export("prometheus", Observability("watch", args).prometheus)

    return registered(program)


def test_makes_prometheus_and_what_it_reads() -> None:
    """The chart, four monitors, the alerts and the dashboard."""
    expected = [
        "watch",
        "watch-chart",
        "watch-configmap-llm-platform-dashboard",
        "watch-podmonitor-dcgm-exporter",
        "watch-podmonitor-karpenter",
        "watch-podmonitor-ray-head",
        "watch-podmonitor-ray-workers",
        "watch-prometheusrule-llm-platform",
    ]

    assert expected == observability().names()
    assert observability().inputs("watch-chart")["version"] == "88.5.3"


def test_monitors_come_after_their_crds() -> None:
    """The chart brings the kinds."""
    graph = observability()

    for name in graph.names(":PodMonitor") + graph.names(":PrometheusRule"):
        assert "watch-chart" in graph.dependencies(name)


def test_uses_a_prometheus_that_is_there() -> None:
    """Without the chart; the stack's own monitors and alerts are made."""
    graph = observability(install=False)

    assert "watch-chart" not in graph
    assert "watch-prometheusrule-llm-platform" in graph


def test_nothing_where_it_is_off() -> None:
    """No monitor of kinds that the cluster may not have, and no address."""
    graph = observability(observability={"enabled": False})

    assert graph.names() == ["watch"]
    assert "prometheus" not in graph.outputs


def test_says_where_prometheus_is() -> None:
    """Models read it to scale."""
    assert (
        observability().outputs["prometheus"] == "http://kube-prometheus-stack-prometheus.monitoring.svc:9090"
    )
