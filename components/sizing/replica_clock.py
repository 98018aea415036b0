"""Replicas of the simulation: processor sharing in virtual time, and everything that is counted.

A replica with n running requests gives each a token every `itl[n]` seconds. `work` counts tokens that a request which
was there all along has got; a request that comes at `work` w and needs k tokens ends at w + k, whatever n does in
between. So a replica needs attention only when something looks at it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

_SAMPLE = 7  # of eight completions one keeps its stay
_NEVER = math.inf
Tables = tuple[list[float], list[float]]
"""Seconds between tokens and to the first token, by the number of running requests."""


@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """One replica: seconds between tokens and to the first token by the number of requests, and its limits.

    `itl[n]` and `ttft[n]` are for n running requests (index 0 is not used). `slots` is the most that run at a time,
    `kv_tokens` the tokens that its cache holds.
    """

    itl: Sequence[float]
    ttft: Sequence[float]
    slots: int
    kv_tokens: int


@dataclass(slots=True, eq=False)
class Replica:
    """A replica: its node was launched at `launched`, it serves since `since`.

    `heap` holds (end in virtual time, arrival, tokens in the cache) of its requests, `end` is when the next of them
    ends if nothing is added; `work` and `now` are the virtual and the real time of its last change. `doomed` says that its node is
    being taken.
    """

    spot: bool
    launched: float
    since: float = 0.0
    heap: list[tuple[float, float, int]] = field(default_factory=list)
    work: float = 0.0
    now: float = 0.0
    tokens: int = 0
    end: float = _NEVER
    doomed: bool = False


@dataclass(slots=True)
class Tally:
    """What is counted.

    `time_at[n]` is the time that replicas spent with n requests, `ttft_at[n]` counts the requests that came in as the
    n-th without waiting, and `waited` holds (time to first token, arrival, why) of the others.
    """

    time_at: list[float]
    ttft_at: list[int]
    waited: list[tuple[float, float, str]] = field(default_factory=list)
    stays: array[float] = field(default_factory=lambda: array("d"))
    completed: int = 0
    stay_total: float = 0.0
    lost: dict[str, int] = field(default_factory=dict)
    retried: int = 0
    node_hours: dict[str, float] = field(default_factory=lambda: {"spot": 0.0, "on-demand": 0.0})
    replica_hours: float = 0.0
    events: list[tuple[float, str]] = field(default_factory=list)
    timeline: list[tuple[float, int, int, int]] = field(default_factory=list)
    late_by_hour: dict[int, int] = field(default_factory=dict)
    peak_replicas: int = 0

    def lose(self, why: str, count: int = 1) -> None:
        """Requests that get no answer."""
        if count:
            self.lost[why] = self.lost.get(why, 0) + count


def advance(replica: Replica, until: float, itl: Sequence[float], tally: Tally) -> None:
    """Bring a replica up to `until`: requests that end before leave, time is counted."""
    heap, now, work = replica.heap, replica.now, replica.work
    running, end = len(heap), replica.end
    time_at = tally.time_at
    while end <= until:
        time_at[running] += end - now
        now = end
        work, arrival, tokens = heappop(heap)
        replica.tokens -= tokens
        tally.completed += 1
        tally.stay_total += end - arrival
        if not tally.completed & _SAMPLE:
            tally.stays.append(end - arrival)
        running -= 1
        end = now + (heap[0][0] - work) * itl[running] if running else _NEVER
    if running:
        time_at[running] += until - now
        work += (until - now) / itl[running]
    replica.work, replica.now, replica.end = work, until, end


def admit(
    replica: Replica, now: float, arrival: float, tokens: tuple[int, int], tables: Tables, tally: Tally
) -> float:
    """Add a request (tokens in and out) to a replica none of whose requests has ended unnoticed.

    Returns the time from `now` to its first token, which is a part of its stay.
    """
    itl, ttft = tables
    heap, running, work = replica.heap, len(replica.heap), replica.work
    if running:
        elapsed = now - replica.now
        tally.time_at[running] += elapsed
        work += elapsed / itl[running]
    running += 1
    pace, first = itl[running], ttft[running]
    held = tokens[0] + tokens[1]
    heappush(heap, (work + tokens[1] + first / pace, arrival, held))
    replica.tokens += held
    replica.work, replica.now = work, now
    replica.end = now + (heap[0][0] - work) * pace
    return first
