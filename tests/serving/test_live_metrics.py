"""Every metric that dashboards, alerts, scaling and KEDA ask for was seen in a live scrape of vLLM under Ray."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components import pins

ROOT = Path(__file__).resolve().parents[2]
FACT = json.loads((ROOT / "components" / "facts" / "data" / "live_metrics.json").read_text())
METRIC = re.compile(r"\bray_[a-z0-9_]+\b(?=[^\w]|$)")
# Metric families whose `_bucket` is asked for by a name made of parts in the dashboard.
SUFFIXES = ("", "_bucket")


def queries(value: Any) -> list[str]:
    """Every text in a value that may hold PromQL."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in queries(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in queries(item)]
    return [value] if isinstance(value, str) else []


def asked_by(objects: list[dict[str, Any]]) -> set[str]:
    """Metrics of Ray and vLLM that the monitoring objects of a stack ask for."""
    kinds = ("PrometheusRule", "ScaledObject", "ConfigMap")
    texts = [text for o in objects if o["kind"] in kinds for text in queries(o.get("spec", o.get("data")))]
    return {name for text in texts for name in METRIC.findall(text) if not name.startswith("ray_io")}


@pytest.mark.parametrize("stack", ["prod", "dev", "multinode"])
def test_objects_ask_only_for_metrics_that_exist(stack: str, preview_of: Any) -> None:
    """Alerts, dashboard and KEDA triggers of a stack."""
    asked = asked_by(preview_of(stack).objects)
    python_words = {"ray_vllm_", "ray_serve_"}

    assert asked - python_words
    assert asked - python_words - set(FACT["metrics"]) == set()


def test_policy_asks_only_for_metrics_that_exist() -> None:
    """The scaling policy's own queries."""
    asked = set(METRIC.findall((ROOT / "in_cluster" / "scaling_policy.py").read_text()))

    assert asked
    assert asked - set(FACT["metrics"]) == set()


def test_fact_is_of_the_pinned_engine() -> None:
    """Another Ray or vLLM shows other metrics: scrape again (make live-metrics)."""
    assert (FACT["ray"], FACT["vllm"]) == (pins.SERVING.ray, pins.SERVING.vllm)
