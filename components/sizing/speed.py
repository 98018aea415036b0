"""How fast: time to first token, inter-token latency, throughput, each as (floor, estimate, high).

The floor is physics and holds for any engine; the estimate is calibrated and missing where nothing was measured; the
high is the estimate and four of its errors, or `UNMEASURED` times what other GPUs' parameters would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from components.sizing.calibration import FIRST_TOKEN_HIGH, HIGH_ERRORS, Calibration, calibration_of
from components.sizing.deployment import Deployment, Load
from components.sizing.fit import Fit, fit
from components.sizing.queueing import waiting_quantile
from components.sizing.steps import (
    decode_floor,
    first_token_floor,
    first_token_seconds,
    prefill_floor,
    step_seconds,
)

UNMEASURED = 3.0
"""High over what the parameters of the measured GPUs give, where nothing was measured. Of all measured runs of every
engine the worst took 2.4 times that (text-generation-inference 1.0 of 2023 on g5.12xlarge)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Least possible, expected (None where nothing was measured) and most."""

    floor: float
    estimate: float | None
    high: float

    @property
    def likely(self) -> float:
        """The estimate, or the high where there is none: what a cautious plan uses."""
        return self.high if self.estimate is None else self.estimate


@dataclass(frozen=True, slots=True)
class Speed:
    """Latencies in milliseconds, throughput in output tokens a second, of one replica under a load.

    `batch` is the number of requests that run at a time (least and most, where the cache decides). `regime` is
    "steady", "queueing" (more requests than run at a time, because of the cache or `max_num_seqs`) or "overloaded"
    (a rate above what the replica can do; its queue grows without end).
    """

    ttft_ms: Bound
    itl_ms: Bound
    output_tokens_per_s: Bound
    calibration: Calibration | None
    batch: tuple[float, float]
    regime: str
    notes: tuple[str, ...]


def batch_limits(deployment: Deployment, memory: Fit, load: Load) -> tuple[float, float]:
    """Requests that can run at a time, least and most: `max_num_seqs`, or what the cache holds of mean contexts."""
    least, most = (max(1.0, tokens / load.mean_context) for tokens in memory.kv_tokens)
    return min(deployment.max_num_seqs, least), min(deployment.max_num_seqs, most)


def speed(deployment: Deployment, load: Load, memory: Fit | None = None) -> Speed:
    """Latency and throughput of one replica under `load`, which names a concurrency or a rate.

    Raises ValueError when it names neither or both.
    """
    if (load.concurrency is None) == (load.rate is None):
        raise ValueError("a load names either a concurrency or a rate")
    memory = memory or fit(deployment)
    if load.rate is not None:
        return _at_rate(deployment, load, memory)
    return _at_concurrency(deployment, load, memory, load.concurrency or 1.0)


def _at_concurrency(deployment: Deployment, load: Load, memory: Fit, asked: float) -> Speed:
    least, most = batch_limits(deployment, memory, load)
    running = (min(asked, least), min(asked, most))
    middle = (running[0] + running[1]) / 2
    calibration = calibration_of(deployment)
    itl = itl_bound(deployment, load, running, middle, calibration)
    ttft = _ttft_bound(deployment, load, middle, calibration)
    notes: tuple[str, ...] = ()
    regime = "steady"
    if asked > running[0]:
        # A request whose blocks are taken away waits between two tokens, so the queue counts there as well.
        itl = replace(itl, high=itl.high * asked / running[0])
        notes = (
            f"the cache may hold only {running[0]:.0f} of {asked:.0f} requests; then the rest would queue",
        )
    if asked > running[1]:
        regime = "queueing"
        wait = (asked / running[0] - 1) * (ttft.high + itl.high * load.output_tokens)
        ttft = Bound(ttft.floor, None, ttft.high + wait)
        notes = (_queueing_note(deployment, load, asked, running),)
    return Speed(
        ttft_ms=_milliseconds(ttft),
        itl_ms=_milliseconds(itl),
        output_tokens_per_s=_throughput(deployment, load, running, ttft=ttft, itl=itl),
        calibration=calibration,
        batch=running,
        regime=regime,
        notes=notes + _coverage_note(calibration),
    )


def _at_rate(deployment: Deployment, load: Load, memory: Fit) -> Speed:
    least, most = batch_limits(deployment, memory, load)
    calibration = calibration_of(deployment)
    floor_batch = steady_batch(load, most, lambda n: decode_floor(deployment, n, load.mean_context))
    batch = steady_batch(load, least, lambda n: _likely_step(deployment, n, load, calibration))
    if batch is None or floor_batch is None:
        sure = floor_batch is None
        overloaded = _at_concurrency(deployment, replace(load, rate=None, concurrency=least), memory, least)
        word = "cannot be served" if sure else "is more than one replica is expected to serve"
        note = f"{load.arrivals:g} requests/s {word}: the queue grows without end"
        return replace(overloaded, regime="overloaded", notes=(note, *overloaded.notes))
    running = (min(batch, floor_batch), max(batch, floor_batch))
    itl = itl_bound(deployment, load, running, batch, calibration)
    ttft = _ttft_bound(deployment, load, batch, calibration)
    tokens = load.arrivals * load.output_tokens
    return Speed(
        ttft_ms=_milliseconds(replace(ttft, high=ttft.high + wait_p99_seconds(deployment, load))),
        itl_ms=_milliseconds(itl),
        output_tokens_per_s=Bound(tokens, tokens if calibration else None, tokens),
        calibration=calibration,
        batch=running,
        regime="steady",
        notes=_coverage_note(calibration),
    )


def _likely_step(deployment: Deployment, batch: float, load: Load, calibration: Calibration | None) -> float:
    return (1.0 if calibration else UNMEASURED) * step_seconds(deployment, batch, load)


def steady_batch(
    load: Load, limit: float, step: Callable[[float], float], halvings: int = 18
) -> float | None:
    """Requests that a new one finds running, itself included, at a rate: n = 1 + rate * tokens * step(n).

    None where there is no such number up to `limit`: the rate is more than the replica can serve. Found by halving;
    the step grows with n.
    """
    arriving = load.arrivals * load.output_tokens
    if 1 + arriving * step(limit) > max(limit, 1 + 1e-9):
        return None
    low, high = 1.0, limit
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 + arriving * step(middle) > middle else (low, middle)
    return high


def itl_bound(
    deployment: Deployment,
    load: Load,
    running: tuple[float, float],
    middle: float,
    calibration: Calibration | None,
) -> Bound:
    """Seconds between two tokens while `running` (least, most) requests run; the estimate is for `middle` of them."""
    floor = decode_floor(deployment, running[0], load.mean_context)
    if calibration is None:
        return Bound(floor, None, UNMEASURED * step_seconds(deployment, running[1], load))
    high = step_seconds(deployment, running[1], load) * (1 + HIGH_ERRORS * calibration.itl_error_p90)
    return Bound(floor, step_seconds(deployment, middle, load), high)


def _ttft_bound(
    deployment: Deployment, load: Load, together: float, calibration: Calibration | None
) -> Bound:
    floor = first_token_floor(deployment, load)
    estimate = first_token_seconds(deployment, load, together)
    if calibration is None:
        return Bound(floor, None, UNMEASURED * estimate)
    return Bound(floor, estimate, FIRST_TOKEN_HIGH * estimate)


def wait_p99_seconds(deployment: Deployment, load: Load) -> float:
    """What one request in a hundred waits for the prefill of others that came at random before it.

    Infinite when prefill alone is more than the replica can do.
    """
    return waiting_quantile(load.arrivals, first_token_seconds(deployment, load, 1), 0.99)


def _throughput(
    deployment: Deployment, load: Load, running: tuple[float, float], *, ttft: Bound, itl: Bound
) -> Bound:
    """Output tokens a second of requests that follow each other: running * output / life of one."""
    least, most = running
    middle, length = (least + most) / 2, load.output_tokens
    ceiling = most * length / (ttft.floor + length * ceiling_step(deployment, most, load))
    estimate = None
    if itl.estimate is not None:
        first = first_token_seconds(deployment, load, middle)
        estimate = min(ceiling, middle * length / (first + length * itl.estimate))
    first_high = FIRST_TOKEN_HIGH * first_token_seconds(deployment, load, most)
    low = least * length / (first_high + length * itl.high)
    return Bound(min(low, estimate or low), estimate, ceiling)


def ceiling_step(deployment: Deployment, batch: float, load: Load) -> float:
    """Seconds per token of one request that no engine beats when `batch` follow each other: with the others' prefill."""
    tokens = max(0.0, batch - 1) * load.prefill_tokens / load.output_tokens
    return max(decode_floor(deployment, batch, load.mean_context), prefill_floor(deployment, tokens, load))


def _milliseconds(bound: Bound) -> Bound:
    estimate = None if bound.estimate is None else bound.estimate * 1000
    return Bound(bound.floor * 1000, estimate, bound.high * 1000)


def _queueing_note(deployment: Deployment, load: Load, asked: float, running: tuple[float, float]) -> str:
    why = "max_num_seqs" if running[1] >= deployment.max_num_seqs else "KV cache exhausted"
    return (
        f"{why}: {running[0]:.0f} to {running[1]:.0f} of {asked:.0f} requests of {load.input_tokens:,} + "
        f"{load.output_tokens:,} tokens run at a time, the rest queue, so there is no estimate of the time to first token"
    )


def _coverage_note(calibration: Calibration | None) -> tuple[str, ...]:
    if calibration is None:
        return ("bound only: nothing was measured on this GPU, link and engine",)
    if calibration.confidence == "low":
        return (f"low confidence: {calibration.points} measured points on {calibration.measured_on}",)
    return ()
