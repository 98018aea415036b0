"""When replicas are added and removed: Ray Serve's own rule and the platform's queue policy, as pure functions.

`queue_wanted` says what `in_cluster/scaling_policy.py` says (a test compares the two), and `Decision` applies the
delays the way Serve does: a wish must last before it is followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scaling:
    """Limits and delays. `policy` is "queue" (the platform's) or "requests" (Ray Serve's own).

    With `hold_largest`, as the platform's policy does, the target goes down to the largest wish since it was last
    needed; Ray Serve itself goes down to the last one, which in a noisy load is often too few.
    """

    min_replicas: int = 1
    max_replicas: int = 8
    target_ongoing_requests: float = 40.0
    max_ongoing_requests: int = 80
    max_queued_requests: int = 200
    look_back_s: float = 30.0
    upscale_delay_s: float = 0.0
    downscale_delay_s: float = 600.0
    policy: str = "queue"
    waiting_per_replica: float = 5.0
    kv_cache_target: float = 0.85
    request_timeout_s: float = 600.0
    hold_largest: bool = True  # the queue policy only; Ray Serve's own holds nothing


@dataclass(frozen=True, slots=True)
class Seen:
    """What a policy looks at: replicas that serve, the present target, requests in all, waiting ones, cache use."""

    running: int
    target: int
    requests: float
    waiting: float
    kv_usage: float


def wanted_replicas(scaling: Scaling, seen: Seen) -> int:
    """Replicas that the policy wants, before limits and delays."""
    return queue_wanted(scaling, seen) if scaling.policy == "queue" else requests_wanted(scaling, seen)


def requests_wanted(scaling: Scaling, seen: Seen) -> int:
    """Ray Serve's default: requests in flight over the target for one replica."""
    if seen.running == 0:
        return max(seen.target, int(seen.requests > 0))
    return math.ceil(seen.requests / scaling.target_ongoing_requests)


def queue_wanted(scaling: Scaling, seen: Seen) -> int:
    """The largest need of requests in flight, cache in use and queue; at most twice what serves; not down in a queue."""
    if seen.running == 0:
        return max(seen.target, int(seen.requests > 0))
    by_cache = math.ceil(round(seen.running * seen.kv_usage / scaling.kv_cache_target, 6))
    wanted = max(requests_wanted(scaling, seen), by_cache)
    if seen.waiting > scaling.waiting_per_replica * seen.running:
        wanted = max(wanted, seen.running + 1, math.ceil(seen.waiting / scaling.waiting_per_replica))
    if seen.waiting > 0:
        wanted = max(wanted, seen.target)
    return min(wanted, max(2 * seen.running, seen.target))


@dataclass(slots=True)
class Decision:
    """The target number of replicas over time. Call `update` at every tick.

    `largest` is the largest wish of those below the target since it was last needed.
    """

    scaling: Scaling
    target: int
    up_since: float | None = None
    down_since: float | None = None
    largest: int | None = None

    def update(self, now: float, wanted: int) -> int:
        """Follow a wish once it has lasted for its delay; the target after this tick."""
        wanted = self._held(min(self.scaling.max_replicas, max(self.scaling.min_replicas, wanted)))
        self.up_since = _since(self.up_since, now, lasting=wanted > self.target)
        self.down_since = _since(self.down_since, now, lasting=wanted < self.target)
        if self.up_since is not None and now - self.up_since >= self.scaling.upscale_delay_s:
            self.target, self.up_since = wanted, None
        elif self.down_since is not None and now - self.down_since >= self.scaling.downscale_delay_s:
            self.target, self.down_since, self.largest = wanted, None, None
        return self.target

    def _held(self, wanted: int) -> int:
        """The wish that the policy tells Serve."""
        holds = self.scaling.hold_largest and self.scaling.policy == "queue"
        if not holds or wanted >= self.target:
            self.largest = None
            return wanted
        self.largest = max(wanted, self.largest or 0)
        return self.largest


def _since(since: float | None, now: float, *, lasting: bool) -> float | None:
    return (now if since is None else since) if lasting else None
