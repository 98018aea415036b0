"""vLLM's metrics under Ray at the price they have without Ray. Set by RAYLLM_VLLM_ENGINE_CLS; vLLM and Ray only.

Ray's own logger (vllm.v1.metrics.ray_wrappers) crosses into Ray's C++ core for every gauge of every engine step and for
every token of every request. Here vLLM counts as it does by itself, with prometheus_client, and a thread hands the sums
over to Ray every two seconds, under the names that Ray's logger has. It also keeps the gauges of an idle engine
alive: Ray drops a gauge that nobody sets, and an engine without requests makes no steps.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import prometheus_client
from ray import serve
from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine
from ray.util import metrics
from vllm.v1.metrics import ray_wrappers
from vllm.v1.metrics.loggers import PrometheusStatLogger

EVERY_SECONDS = 2.0
_OURS = "vllm:"
_REPLICA = "ReplicaId"


class Relay:
    """Hands samples of prometheus_client over to Ray's metrics.

    A histogram's parts become gauges with the names of its parts: Ray's own histograms take single observations only.
    """

    def __init__(self, replica: str) -> None:
        """Make nothing yet: each metric is made when its first sample comes."""
        self._replica = replica
        self._made: dict[str, Any] = {}
        self._counted: dict[tuple[str, tuple[str, ...]], float] = {}

    def hand_over(self, families: Iterable[Any]) -> None:
        """Set gauges to what is; raise counters by what came since the last time."""
        for family in families:
            if family.name.startswith(_OURS) and family.type != "info":
                for sample in family.samples:
                    if not sample.name.endswith("_created"):
                        self._sample(family, sample)

    def _sample(self, family: Any, sample: Any) -> None:
        labels = {**sample.labels, _REPLICA: self._replica}
        if family.type == "counter":
            key = (sample.name, tuple(labels.values()))
            more = sample.value - self._counted.get(key, 0.0)
            if more > 0:
                self._counted[key] = sample.value
                self._metric(metrics.Counter, family, family.name, labels).inc(more, tags=labels)
        else:
            self._metric(metrics.Gauge, family, sample.name, labels).set(sample.value, tags=labels)

    def _metric(self, kind: Any, family: Any, name: str, labels: dict[str, str]) -> Any:
        if name not in self._made:
            ray_name = name.replace(":", "_")
            self._made[name] = kind(ray_name, description=family.documentation, tag_keys=tuple(labels))
        return self._made[name]


class RelayedStatLogger(PrometheusStatLogger):
    """vLLM's own logger, with a thread that hands over to Ray."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take what vLLM's logger takes."""
        super().__init__(*args, **kwargs)
        self._relay = Relay(serve.get_replica_context().replica_id.unique_id)
        threading.Thread(target=self._hand_over_for_ever, name="metrics-relay", daemon=True).start()

    def _hand_over_for_ever(self) -> None:
        pause = threading.Event()
        while not pause.wait(EVERY_SECONDS):
            self._relay.hand_over(prometheus_client.REGISTRY.collect())


class MeasuredEngine(VLLMEngine):
    """Ray's vLLM engine with the logger above in place of Ray's."""

    def _start_async_llm_engine(self, *args: Any, **kwargs: Any) -> Any:
        """Ray imports its logger by name when the engine starts; it finds ours there."""
        rays = ray_wrappers.RayPrometheusStatLogger
        ray_wrappers.RayPrometheusStatLogger = RelayedStatLogger
        try:
            return super()._start_async_llm_engine(*args, **kwargs)
        finally:
            ray_wrappers.RayPrometheusStatLogger = rays
