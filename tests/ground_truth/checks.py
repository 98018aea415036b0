"""The bars: what must hold between the product's answers and the measured rows."""

from __future__ import annotations

from dataclasses import dataclass

from components.sizing.calibration import CALIBRATIONS, FIRST_TOKEN, STEP
from components.sizing.cold_start import start_seconds
from components.sizing.fit import DOES_NOT_FIT, fit
from components.sizing.speed import Speed, speed
from tests.ground_truth.fitting import fit_points, leave_one_out, quantile
from tests.ground_truth.measured import QUEUED_MS, Measured, memory_deployment, points, runs
from tests.ground_truth.rows import COLD_START_ROWS, MEMORY_ROWS, ColdStartRow, MemoryRow

KV_WIDTH_GIB = 4.4
FLOOR_PART = 0.5
TTFT_HIGH = 3.0
ERROR_LIMITS = {"hopper": (("H100", "H200"), 0.20), "ampere": (("A100-40", "A100-80"), 0.35)}


@dataclass(frozen=True, slots=True)
class Answer:
    """A measured point and what the product says about it."""

    point: Measured
    speed: Speed


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: what it says, the value reached, whether it is met, and which rows break it."""

    name: str
    limit: float
    value: float
    broken: tuple[str, ...]

    @property
    def met(self) -> bool:
        """A bar is met when no row breaks it."""
        return not self.broken


def answers(measured: list[Measured]) -> list[Answer]:
    """The product's answer for each point."""
    return [Answer(point, speed(point.deployment, point.load)) for point in measured]


def _ratio(bound: float, measured: float | None) -> float:
    return 0.0 if measured is None else bound / measured


def floor_bar(given: list[Answer]) -> Bar:
    """Floors and ceilings: no measured time is below its floor, no measured throughput above its ceiling."""
    ratios = {
        a.point.id: max(
            _ratio(a.speed.itl_ms.floor, a.point.itl_ms),
            _ratio(a.speed.ttft_ms.floor, a.point.ttft_ms),
            (a.point.tokens_per_s or 0) / a.speed.output_tokens_per_s.high,
        )
        for a in given
    }
    broken = tuple(name for name, ratio in ratios.items() if ratio > 1)
    return Bar("floor over measured, largest", 1.0, max(ratios.values()), broken)


def single_request_bar(given: list[Answer]) -> Bar:
    """At one request at a time the floor is at least half of what was measured."""
    parts = {
        a.point.id: a.speed.itl_ms.floor / a.point.itl_ms
        for a in given
        if a.point.load.concurrency == 1 and a.point.itl_ms
    }
    broken = tuple(name for name, part in parts.items() if part < FLOOR_PART)
    return Bar("floor over measured at concurrency 1, smallest", FLOOR_PART, min(parts.values()), broken)


def high_bar(given: list[Answer]) -> Bar:
    """No measured time between tokens is above its high."""
    ratios = {a.point.id: _ratio(a.point.itl_ms or 0, a.speed.itl_ms.high) for a in given}
    broken = tuple(name for name, ratio in ratios.items() if ratio > 1)
    return Bar("measured time between tokens over its high, largest", 1.0, max(ratios.values()), broken)


def first_token_bar(given: list[Answer]) -> Bar:
    """Where nothing queues the high of the time to first token is at most three times its estimate."""
    parts = {
        a.point.id: a.speed.ttft_ms.high / a.speed.ttft_ms.estimate
        for a in given
        if a.speed.regime == "steady" and a.point.load.concurrency == 1 and a.speed.ttft_ms.estimate
    }
    broken = tuple(name for name, part in parts.items() if part > TTFT_HIGH)
    return Bar(
        "high over estimate of the unloaded time to first token, largest",
        TTFT_HIGH,
        max(parts.values()),
        broken,
    )


def exhausted_bar(given: list[Answer]) -> Bar:
    """A18 ran out of cache: it is reported as queueing, with the cache as the reason."""
    a18 = next(a for a in given if a.point.id == "A18")
    said = a18.speed.regime == "queueing" and "KV cache exhausted" in a18.speed.notes[0]
    return Bar("A18 is reported as KV exhausted with queueing", 1, float(said), () if said else ("A18",))


def memory_answer(row: MemoryRow) -> tuple[str, tuple[int, int], float]:
    """Verdict, tokens of one replica, and the width of the interval in GiB per GPU."""
    memory = fit(memory_deployment(row))
    low, high = memory.overhead_gib_per_gpu
    return memory.verdict, memory.kv_tokens, high - low


def memory_bars() -> list[Bar]:
    """Every measured cache lies in its interval, intervals are narrow, and AM4 does not fit."""
    given = {row.id: (row, *memory_answer(row)) for row in MEMORY_ROWS}
    outside = tuple(
        name
        for name, (row, _, (low, high), _) in given.items()
        if row.kv_tokens is not None and not low <= row.kv_tokens <= high
    )
    widths = {name: width for name, (_, _, _, width) in given.items()}
    wide = tuple(name for name, width in widths.items() if width > KV_WIDTH_GIB)
    am4 = given["AM4"][1] == DOES_NOT_FIT
    return [
        Bar("measured KV caches outside their interval", 0, len(outside), outside),
        Bar("width of the KV interval, GiB per GPU, largest", KV_WIDTH_GIB, max(widths.values()), wide),
        Bar("AM4 does not fit", 1, float(am4), () if am4 else ("AM4",)),
    ]


def error_bars() -> list[Bar]:
    """p90 error of predicting a kind of GPU that the fit did not see, and what the calibration sets promise."""
    errors = leave_one_out(fit_points())
    bars = []
    for name, (gpus, limit) in ERROR_LIMITS.items():
        seen = [abs(error) for gpu in gpus for _, error in errors[gpu]]
        p90 = quantile(seen, 0.9)
        promised = next(c for c in CALIBRATIONS if c.id.startswith(name)).itl_error_p90
        broken = (f"{p90:.3f}",) if p90 > min(limit, promised) else ()
        bars.append(
            Bar(f"p90 error of the time between tokens, {name}, left out of the fit", limit, p90, broken)
        )
    return bars


def parameter_bar() -> Bar:
    """At most one fitted parameter for three points."""
    count, third = len(STEP.vector()) + len(FIRST_TOKEN.vector()), len(fit_points()) / 3
    return Bar("fitted parameters", third, count, (str(count),) if count > third else ())


def cold_start_answer(row: ColdStartRow) -> tuple[float, float]:
    """Seconds from a started container to a ready engine, least and most."""
    return start_seconds(row.instance, row.weights_gb, row.loader, row.volume_mib_per_s)


def cold_start_bar() -> Bar:
    """Measured starts lie in their interval."""
    outside = tuple(
        row.id
        for row in COLD_START_ROWS
        if not cold_start_answer(row)[0] <= row.ready_s <= cold_start_answer(row)[1]
    )
    return Bar("measured starts outside their interval", 0, len(outside), outside)


def all_bars() -> list[Bar]:
    """Every bar, over the rows and, where it is about floors and highs, over the runs too.

    Runs whose requests queued are left out there: how many ran at a time follows from a limit that the source does
    not publish (times between tokens at 512 requests are those of a few dozen).
    """
    rows = answers(list(points().values()))
    both = rows + answers([run for run in runs() if (run.ttft_ms or 0) <= QUEUED_MS])
    return [
        floor_bar(both), single_request_bar(both), high_bar(both), first_token_bar(rows), exhausted_bar(rows),
        *memory_bars(), *error_bars(), parameter_bar(), cold_start_bar(),
    ]  # fmt: skip
