"""A day of a service as discrete events: requests, autoscaling, cold starts, spot loss, headroom.

Simulated, and said so in every report; the same seed gives the same result. Not modelled: prefix caches that warm up,
speculative decoding, the order in which an engine preempts, network faults, insufficient capacity in all zones.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import deque
from heapq import heappop, heappush

from components.sizing.autoscaling import Decision, Scaling, Seen, wanted_replicas
from components.sizing.cold_start import SPOT_NOTICE_S, Span
from components.sizing.node_model import NodeModel
from components.sizing.replica_clock import Replica, ReplicaModel, Tally, admit, advance
from components.sizing.traffic import HOUR, Requests

TICK_S = 10.0
TIMELINE_S = 300.0


class Simulation:
    """One run over given requests."""

    def __init__(
        self,
        requests: Requests,
        model: ReplicaModel,
        scaling: Scaling,
        nodes: NodeModel,
        *,
        seed: int,
        late_s: float,
    ) -> None:
        self._requests, self._scaling, self._nodes, self._late_s = requests, scaling, nodes, late_s
        self._slots = min(model.slots, scaling.max_ongoing_requests)
        self._kv = model.kv_tokens
        self._itl = [*model.itl[: self._slots + 1]]
        self._tables = (self._itl, [*model.ttft[: self._slots + 1]])
        # Streams of their own, so that a change of plan meets the same requests, routes and node lives.
        self._route = random.Random(seed)  # noqa: S311 - a simulation, not a secret
        self._luck = random.Random(seed + 1)  # noqa: S311
        self._ready: list[Replica] = []
        self._leaving: list[Replica] = []
        self._starting = 0
        self._idle: deque[tuple[float, bool, float]] = deque()
        self._warm = nodes.headroom
        self._queue: deque[tuple[float, tuple[int, int]]] = deque()
        self._why = "start"
        self._pending: list[tuple[float, int, str, Replica | None]] = []
        self._serial = 0
        self._decision = Decision(scaling, scaling.min_replicas)
        self._seen: deque[tuple[float, float]] = deque(maxlen=max(1, round(scaling.look_back_s / TICK_S)))
        self._replacing = 0
        self._tally = Tally([0.0] * (self._slots + 1), [0] * (self._slots + 1))

    def run(self) -> Tally:
        """From the first request until the last is answered or given up."""
        for _ in range(self._scaling.min_replicas):
            self._serve(0.0, Replica(spot=self._draws_spot(), launched=0.0))
        self._at(TICK_S, "tick")
        times, index = self._requests.times, 0
        while self._pending:
            moment = self._pending[0][0]
            stop = bisect_left(times, moment, index)
            self._arrivals(index, stop)
            index = stop
            if self._queue:
                self._serve_queue(moment)
            now, _, kind, replica = heappop(self._pending)
            self._happens(now, kind, replica, more=index < len(times))
        return self._tally

    # Requests.

    def _arrivals(self, start: int, stop: int) -> None:
        """Requests between two events: to the emptier of two random replicas, as Ray Serve's router does."""
        requests, ready, itl, tables, tally = (
            self._requests,
            self._ready,
            self._itl,
            self._tables,
            self._tally,
        )
        times, inputs, outputs, queue = requests.times, requests.inputs, requests.outputs, self._queue
        draw, slots, kv, late = self._route.random, self._slots, self._kv, self._late_s
        ttft_at, count = tally.ttft_at, len(ready)
        for index in range(start, stop):
            time = times[index]
            if queue:
                self._serve_queue(time)
            tokens = (inputs[index], outputs[index])
            if count and not queue:
                replica = ready[int(draw() * count)]
                if replica.end <= time:
                    advance(replica, time, itl, tally)
                if count > 1:
                    other = ready[int(draw() * count)]
                    if other.end <= time:
                        advance(other, time, itl, tally)
                    if len(other.heap) < len(replica.heap):
                        replica = other
                if len(replica.heap) < slots and replica.tokens + tokens[0] + tokens[1] <= kv:
                    first = admit(replica, time, time, tokens, tables, tally)
                    ttft_at[len(replica.heap)] += 1
                    if first > late:
                        self._late(time)
                    continue
            self._to_any(time, tokens)

    def _to_any(self, time: float, tokens: tuple[int, int]) -> None:
        """Both replicas were full (or there is a queue): any with room, else wait, else be refused."""
        if not self._queue:
            for replica in self._ready:
                advance(replica, time, self._itl, self._tally)
                if self._has_room(replica, sum(tokens)):
                    self._admit(replica, time, time, tokens)
                    return
        if len(self._queue) >= self._scaling.max_queued_requests:
            self._tally.lose("queue full")
            self._late(time)
            return
        self._queue.append((time, tokens))

    def _has_room(self, replica: Replica, tokens: int) -> bool:
        fits = replica.tokens + tokens <= self._kv or not replica.heap
        return len(replica.heap) < self._slots and fits

    def _admit(self, replica: Replica, now: float, arrival: float, tokens: tuple[int, int]) -> None:
        waited = now - arrival + admit(replica, now, arrival, tokens, self._tables, self._tally)
        if now > arrival:
            self._tally.waited.append((waited, arrival, self._why))
        else:
            self._tally.ttft_at[len(replica.heap)] += 1
        if waited > self._late_s:
            self._late(arrival)

    def _late(self, arrival: float) -> None:
        hour = int(arrival // HOUR)
        self._tally.late_by_hour[hour] = self._tally.late_by_hour.get(hour, 0) + 1

    def _serve_queue(self, until: float) -> None:
        """Let waiting requests in, in order, as others end before `until`; give up those that waited too long."""
        queue, itl = self._queue, self._itl
        while queue:
            arrival, tokens = queue[0]
            moment, replica = self._first_room(sum(tokens))
            deadline = arrival + self._scaling.request_timeout_s
            if min(moment, deadline) > until:
                return
            if replica is None or deadline < moment:
                queue.popleft()
                self._tally.lose("timed out")
                self._late(arrival)
                continue
            advance(replica, moment, itl, self._tally)
            if self._has_room(replica, sum(tokens)):
                queue.popleft()
                self._admit(replica, moment, arrival, tokens)

    def _first_room(self, tokens: int) -> tuple[float, Replica | None]:
        """The replica that has room now (at its own time, or the head's arrival), else the one whose next request ends first."""
        best: tuple[float, Replica | None] = (float("inf"), None)
        head = self._queue[0][0]
        for replica in self._ready:
            moment = max(replica.now, head) if self._has_room(replica, tokens) else replica.end
            if moment < best[0]:
                best = (moment, replica)
        return best

    # Replicas and nodes.

    def _happens(self, now: float, kind: str, replica: Replica | None, *, more: bool) -> None:
        if kind == "tick":
            self._tick(now)
            busy = more or self._queue or any(one.heap for one in (*self._ready, *self._leaving))
            if busy or now < self._requests.seconds:
                self._at(now + TICK_S, "tick")
            else:
                self._close(now)
        elif kind == "ready":
            self._starting -= 1
            self._serve(now, replica or Replica(spot=False, launched=now))
        elif kind == "warm":
            self._warm += 1
        elif kind == "notice" and replica in self._ready and replica is not None:
            self._notice(now, replica)
        elif kind == "gone" and replica in self._leaving and replica is not None:
            self._gone(now, replica)

    def _tick(self, now: float) -> None:
        tally = self._tally
        for replica in (*self._ready, *self._leaving):
            advance(replica, now, self._itl, tally)
        for replica in [one for one in self._leaving if not one.heap and not one.doomed]:
            self._leave(now, replica, keep_node=True)
        requests = sum(len(one.heap) for one in self._ready) + len(self._queue)
        used = sum(one.tokens for one in self._ready) / (self._kv * max(1, len(self._ready)))
        self._seen.append((requests, used))
        mean = [sum(values) / len(self._seen) for values in zip(*self._seen, strict=True)]
        seen = Seen(len(self._ready), self._decision.target, mean[0], len(self._queue), min(1.0, mean[1]))
        target = self._decision.update(now, wanted_replicas(self._scaling, seen))
        self._follow(now, target)
        self._why = self._reason(target)
        while self._idle and self._idle[0][0] <= now:
            since, spot, launched = self._idle.popleft()
            self._count_node(spot, launched, since)
        if not now % TIMELINE_S:
            tally.timeline.append((now, len(self._ready), self._starting, len(self._queue)))

    def _reason(self, target: int) -> str:
        """Why a request that waits now has to."""
        if self._replacing:
            return "spot reclaim"
        if self._starting:
            return "cold start"
        return "at maxReplicas" if target >= self._scaling.max_replicas else "scale-up delay"

    def _follow(self, now: float, target: int) -> None:
        have = len(self._ready) + self._starting
        for _ in range(target - have):
            self._launch(now)
        # The emptiest leave first: with random routing none is ever quite idle.
        for replica in sorted(self._ready, key=lambda one: len(one.heap))[: max(0, have - target)]:
            self._ready.remove(replica)
            self._leaving.append(replica)
            self._tally.events.append((now, f"replica leaves, {len(self._ready)} serve"))

    def _launch(self, now: float) -> None:
        start, spot = self._nodes.start, self._draws_spot()
        late_part = self._draw(start.weights) + self._draw(start.engine)
        early_part = self._draw(start.node) + self._draw(start.image) + self._draw(start.copy)
        if self._idle:
            _, spot, launched = self._idle.pop()
            seconds = late_part
        elif self._warm:
            self._warm -= 1
            self._at(now + early_part, "warm")
            seconds, launched = late_part, now
        else:
            seconds, launched = early_part + late_part, now
        self._starting += 1
        self._at(now + seconds, "ready", Replica(spot=spot, launched=launched))
        self._tally.events.append((now, f"replica asked for, ready in {seconds:.0f} s"))

    def _serve(self, now: float, replica: Replica) -> None:
        replica.since = replica.now = now
        self._ready.append(replica)
        self._tally.peak_replicas = max(self._tally.peak_replicas, len(self._ready))
        self._replacing = max(0, self._replacing - 1)
        life = self._nodes.spot_mean_life_h
        if replica.spot and life:
            self._at(now + self._luck.expovariate(1 / (life * HOUR)), "notice", replica)

    def _notice(self, now: float, replica: Replica) -> None:
        """Spot interruption: no new requests; what runs may end before the node goes."""
        self._ready.remove(replica)
        self._leaving.append(replica)
        replica.doomed = True
        self._replacing += 1
        self._at(now + min(SPOT_NOTICE_S, self._nodes.drain_s), "gone", replica)
        self._tally.events.append((now, f"spot interruption, {len(self._ready)} serve"))

    def _gone(self, now: float, replica: Replica) -> None:
        advance(replica, now, self._itl, self._tally)
        cut = len(replica.heap)
        for _, arrival, tokens in sorted(replica.heap):
            if self._nodes.retry:
                self._tally.retried += 1
                half = max(
                    1, tokens // 2
                )  # how much of it was prompt is not kept; half is near enough for a retry
                self._queue.append((arrival, (half, half)))
        if not self._nodes.retry:
            self._tally.lose("cut by spot reclaim", cut)
        replica.heap.clear()
        replica.end = float("inf")
        self._leave(now, replica, keep_node=False)

    def _leave(self, now: float, replica: Replica, *, keep_node: bool) -> None:
        self._leaving.remove(replica)
        self._tally.replica_hours += (now - replica.since) / HOUR
        if keep_node:
            self._idle.append((now + self._nodes.consolidate_after_s, replica.spot, replica.launched))
        else:
            self._count_node(replica.spot, replica.launched, now)

    def _close(self, now: float) -> None:
        for replica in (*self._ready, *self._leaving):
            self._tally.replica_hours += (now - replica.since) / HOUR
            self._count_node(replica.spot, replica.launched, now)
        for _, spot, launched in self._idle:
            self._count_node(spot, launched, now)
        self._count_node(False, 0.0, now * self._nodes.headroom)
        self._pending.clear()

    def _count_node(self, spot: bool, launched: float, until: float) -> None:  # noqa: FBT001
        hours = (until - launched) / HOUR * self._nodes.nodes_per_replica
        self._tally.node_hours["spot" if spot else "on-demand"] += hours

    def _at(self, when: float, kind: str, replica: Replica | None = None) -> None:
        self._serial += 1
        heappush(self._pending, (when, self._serial, kind, replica))

    def _draws_spot(self) -> bool:
        return self._nodes.spot_part > 0 and self._luck.random() < self._nodes.spot_part

    def _draw(self, span: Span) -> float:
        return (
            self._luck.triangular(span.low, span.high, span.likely) if span.high > span.low else span.likely
        )


def simulate(
    requests: Requests,
    model: ReplicaModel,
    scaling: Scaling,
    nodes: NodeModel,
    *,
    seed: int = 0,
    late_s: float = 1.0,
) -> Tally:
    """One run; `late_s` is the time to first token above which a request counts as late."""
    return Simulation(requests, model, scaling, nodes, seed=seed, late_s=late_s).run()
