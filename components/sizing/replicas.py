"""How many replicas for a rate and an objective, what binds, and how much room is left.

Latency is taken at the load that a replica really gets: its part of the rate, and for the 99th percentile the batch
that chance makes larger than its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from components.sizing.calibration import Calibration, calibration_of
from components.sizing.deployment import Deployment, Load
from components.sizing.fit import Fit, fit
from components.sizing.speed import (
    Bound,
    Speed,
    batch_limits,
    itl_bound,
    speed,
    wait_p99_seconds,
)
from components.sizing.steps import decode_floor, first_token_floor

P99_SIGMAS = 2.33
"""Standard deviations of the 99th percentile; the number of running requests is close to a Poisson variable."""
BUSIEST = 0.8
"""Largest part of a replica's capacity that a plan uses: above it two equal runs differ by a factor (AccelMark)."""


@dataclass(frozen=True, slots=True)
class Objective:
    """What users are promised, in seconds at the 99th percentile; None is no promise."""

    ttft_p99: float | None = None
    itl_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Replicas:
    """Replicas by the likely and by the cautious latency; None where no number of them is enough.

    `binding` says what decides: "itl", "ttft", "throughput" or "minimum". `infeasible` is a sentence when not even
    the physical floor meets the objective.
    """

    likely: int | None
    cautious: int | None
    binding: str
    rate_per_replica: float | None
    headroom: float | None
    infeasible: str | None


def p99_latencies(deployment: Deployment, load: Load, memory: Fit) -> tuple[Bound, Bound] | None:
    """Seconds to the first token and between tokens at the 99th percentile; None when the replica is overloaded."""
    at_rate = speed(deployment, load, memory)
    if at_rate.regime != "steady":
        return None
    crowded = _crowded(deployment, load, memory, at_rate)
    calibration = calibration_of(deployment)
    itl = itl_bound(deployment, load, (at_rate.batch[0], crowded), crowded, calibration)
    wait = wait_p99_seconds(deployment, load)
    estimate = at_rate.ttft_ms.estimate
    ttft = Bound(
        at_rate.ttft_ms.floor / 1000,
        None if estimate is None else estimate / 1000 + wait,
        at_rate.ttft_ms.high / 1000,
    )
    return ttft, itl


def _crowded(deployment: Deployment, load: Load, memory: Fit, at_rate: Speed) -> float:
    most = batch_limits(deployment, memory, load)[1]
    mean = at_rate.batch[1]
    return min(most, mean + P99_SIGMAS * math.sqrt(mean))


def replicas_for(
    deployment: Deployment, load: Load, objective: Objective, memory: Fit | None = None
) -> Replicas:
    """Fewest replicas that serve `load.rate` within the objective.

    The likely number uses estimates (highs where there are none), the cautious one uses highs.
    """
    memory = memory or fit(deployment)
    reason = infeasible(deployment, load, objective)
    if reason:
        return Replicas(None, None, "floor", None, None, reason)
    likely = _largest_rate(deployment, load, objective, memory, cautious=False)
    cautious = _largest_rate(deployment, load, objective, memory, cautious=True)
    if likely is None:
        return Replicas(None, None, "latency", None, None, None)
    count = _count(load.arrivals, likely[0])
    return Replicas(
        likely=count,
        cautious=None if cautious is None else _count(load.arrivals, cautious[0]),
        binding="minimum" if count == 1 else likely[1],
        rate_per_replica=likely[0],
        headroom=count * likely[0] / load.arrivals - 1,
        infeasible=None,
    )


def infeasible(deployment: Deployment, load: Load, objective: Objective) -> str | None:
    """A sentence when the physical floor is above the objective: no number of replicas can meet it."""
    floors = (
        ("time to first token", objective.ttft_p99, first_token_floor(deployment, load)),
        ("inter-token latency", objective.itl_p99, decode_floor(deployment, 1, load.input_tokens)),
    )
    for name, promised, floor in floors:
        if promised is not None and floor > promised:
            return (
                f"{name} of {promised * 1000:.0f} ms cannot be met: {deployment.gpu.name} x {deployment.gpus} needs at "
                f"least {floor * 1000:.0f} ms for {load.input_tokens:,} input tokens, whatever the engine"
            )
    return None


def _count(rate: float, per_replica: float) -> int:
    return max(1, math.ceil(rate / per_replica - 1e-9))


def _largest_rate(
    deployment: Deployment, load: Load, objective: Objective, memory: Fit, *, cautious: bool
) -> tuple[float, str] | None:
    """The largest rate of one replica within the objective, and what stops it there; None when none is."""
    low, high = 0.0, BUSIEST * capacity(deployment, load, memory)
    binding = "throughput"
    for _ in range(12):
        middle = (low + high) / 2
        stops = _what_stops(deployment, replace(load, rate=middle), objective, memory, cautious=cautious)
        if stops is None:
            low = middle
        else:
            high, binding = middle, stops
    return (low, binding) if low > 0 else None


def capacity(deployment: Deployment, load: Load, memory: Fit) -> float:
    """Requests a second of one full replica by its estimate, or its low where there is none."""
    full = min(batch_limits(deployment, memory, load)[0], deployment.max_num_seqs)
    saturated = speed(deployment, replace(load, rate=None, concurrency=full), memory)
    tokens = saturated.output_tokens_per_s
    return (tokens.floor if tokens.estimate is None else tokens.estimate) / load.output_tokens


def _what_stops(
    deployment: Deployment, load: Load, objective: Objective, memory: Fit, *, cautious: bool
) -> str | None:
    latencies = p99_latencies(deployment, load, memory)
    if latencies is None:
        return "throughput"
    ttft, itl = ((bound.high if cautious else bound.likely) for bound in latencies)
    if objective.itl_p99 is not None and itl > objective.itl_p99:
        return "itl"
    if objective.ttft_p99 is not None and ttft > objective.ttft_p99:
        return "ttft"
    return None


def confidence(calibration: Calibration | None) -> str:
    """How far an estimate can be trusted, in a word: that of its set, or "bound only"."""
    return "bound only" if calibration is None else calibration.confidence
