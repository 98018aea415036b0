"""How many replicas a model should have, from vLLM's own queue and KV cache. Ray Serve asks about ten times a second.

One file, standard library and Ray only: Serve imports it where it builds the application and sends it to its controller
by value. `PrometheusQueryMixin` is new in Ray 2.60 and alpha; an older Ray, a Prometheus that cannot be reached and
numbers that are too old all end in the same place: requests in flight over the target for one replica.

Not done here: bounds and delays. Serve applies `min_replicas`, `max_replicas`, `upscale_delay_s` and `downscale_delay_s`
to whatever a policy returns (ray/serve/autoscaling_policy.py, _apply_default_params). Once some lower wish has lasted for
`downscale_delay_s`, Serve goes down to the one of that moment. In a noisy load that is too far, and the next burst waits
for a cold start; so this policy repeats the largest wish since the target was last needed (`held`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

try:
    import ray
    from ray.serve.autoscaling_policy import PrometheusQueryMixin
except ImportError:  # Ray before 2.60, or a test without Ray

    class PrometheusQueryMixin:  # type: ignore[no-redef]
        """Stands in where Ray has none: there are never any numbers."""

        prometheus_metrics: dict[str, float] | None = None

        def __init__(self, *, prometheus_queries: list[str], **_: Any) -> None:
            """Take what the real one takes."""


class VllmQueuePolicy(PrometheusQueryMixin):
    """Replicas by the largest of three needs: waiting requests, KV cache in use, requests in flight.

    `waiting_per_replica` is how many requests may wait for each running replica before another one is wanted.
    `kv_cache_target` is the share of its KV cache that a replica should use. Numbers older than `stale_after` seconds
    count as none: Prometheus itself repeats a lost value for five minutes.
    """

    def __init__(
        self,
        *,
        model: str,
        waiting_per_replica: float,
        kv_cache_target: float,
        stale_after: float = 30.0,
        **kwargs: Any,
    ) -> None:
        """Build the three queries; Ray evaluates them every five seconds, away from the control loop."""
        which = f'{{model_name="{model}"{_own_session()}}}'
        waiting = f"ray_vllm_num_requests_waiting{which}"
        self.waiting_query = f"sum({waiting})"
        self.kv_query = f"avg(ray_vllm_kv_cache_usage_perc{which})"
        self.age_query = f"time() - max(timestamp({waiting}))"
        self.waiting_per_replica = waiting_per_replica
        self.kv_cache_target = kv_cache_target
        self.stale_after = stale_after
        super().__init__(prometheus_queries=[self.waiting_query, self.kv_query, self.age_query], **kwargs)

    def __call__(self, ctx: Any) -> tuple[int, dict[str, Any]]:
        """Return the wanted replicas, and what is remembered of a wish below the target."""
        return held(self.wanted(ctx), ctx.target_num_replicas, ctx.policy_state)

    def wanted(self, ctx: Any) -> int:
        """Return the replicas that the present needs."""
        running, target = ctx.current_num_replicas, ctx.target_num_replicas
        requests, queued = ctx.total_num_requests, ctx.total_queued_requests or 0.0
        if running == 0:  # nothing serves, so nothing can be measured
            return max(target, int(requests > 0))
        wanted = math.ceil(requests / ctx.config.get_target_ongoing_requests())
        waiting_in_engine, kv_usage = self.fresh_metrics() or (0.0, 0.0)
        waiting = queued + waiting_in_engine
        wanted = max(
            wanted,
            math.ceil(round(running * kv_usage / self.kv_cache_target, 6)),
            self.wanted_by_queue(waiting, running),
        )
        if waiting > 0:
            wanted = max(wanted, target)  # never down while somebody waits
        # At most twice as many as serve now: replicas that still load will take work off the queue as well.
        return min(wanted, max(2 * running, target))

    def wanted_by_queue(self, waiting: float, running: int) -> int:
        """One replica for each `waiting_per_replica` requests, once more wait than the running ones may leave waiting."""
        if waiting <= self.waiting_per_replica * running:
            return 0
        return max(running + 1, math.ceil(waiting / self.waiting_per_replica))

    def fresh_metrics(self) -> tuple[float, float] | None:
        """Waiting requests and used share of the KV cache; None where one is missing, too old or not a number."""
        metrics = self.prometheus_metrics or {}
        waiting, kv_usage, age = (metrics.get(x) for x in (self.waiting_query, self.kv_query, self.age_query))
        if waiting is None or kv_usage is None or age is None or not age <= self.stale_after:
            return None
        return (waiting, kv_usage) if math.isfinite(waiting) and math.isfinite(kv_usage) else None


def held(wanted: int, target: int, state: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """The largest wish since the target was last needed, and the state from which the next call goes on.

    Serve keeps the state between calls. A target that is needed again, or that has changed, starts anew.
    """
    if wanted >= target:
        return wanted, {}
    largest = max(wanted, state["largest"]) if state.get("below") == target else wanted
    return largest, {"below": target, "largest": largest}


def _own_session() -> str:
    """Matcher for the metrics of this Ray cluster alone: during an upgrade two clusters serve the same model."""
    if "ray" not in globals() or not ray.is_initialized():
        return ""
    return f',SessionName="{ray.get_runtime_context().get_session_name()}"'
