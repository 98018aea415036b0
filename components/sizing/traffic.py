"""Requests over time: a synthetic day, or a trace file of a published format.

A trace keeps its own lengths; a synthetic day draws them from a lognormal shape around a mean. Everything follows
from the random seed.
"""

from __future__ import annotations

import csv
import json
import math
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

HOUR = 3600.0
DAY = 24 * HOUR
_LENGTH_SIGMA = 0.9  # spread of lengths; Azure's 2023 conversations have a p99 of 3.6 means, this gives 5
_POOL = 8192  # lengths drawn once and picked from: cheaper than a draw for each request
_BURST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Requests:
    """Arrival times in seconds, rising, and tokens in and out of each request."""

    times: array[float]
    inputs: array[int]
    outputs: array[int]
    seconds: float

    def __len__(self) -> int:
        return len(self.times)

    @property
    def mean_input(self) -> float:
        """Mean prompt length in tokens."""
        return sum(self.inputs) / max(1, len(self.inputs))

    @property
    def mean_output(self) -> float:
        """Mean answer length in tokens."""
        return sum(self.outputs) / max(1, len(self.outputs))


@dataclass(frozen=True, slots=True)
class Day:
    """A synthetic day: mean rate a second, how far the peak is above the mean and when, how bursty, how long.

    `burst_cv` is the coefficient of variation of the rate from minute to minute around its daily course. Defaults are
    those of published traces: peak over mean about 2.4 (ServeGen 3.0), 1,155 tokens in and 211 out (Azure 2023).
    """

    rate: float
    peak_over_mean: float = 2.4
    peak_hour: float = 14.0
    burst_cv: float = 0.2
    mean_input: int = 1_155
    mean_output: int = 211
    hours: float = 24.0


def synthetic(day: Day, seed: int) -> Requests:
    """Requests of a synthetic day: a Poisson stream whose rate follows the course of the day and bursts."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    times = array("d", _arrivals(day, rng))
    inputs, outputs = _drawn_lengths(len(times), day.mean_input, day.mean_output, rng)
    return Requests(times, inputs, outputs, day.hours * HOUR)


def _drawn_lengths(
    count: int, mean_input: int, mean_output: int, rng: random.Random
) -> tuple[array[int], array[int]]:
    """Lengths of `count` requests, each a pair out of a pool that is drawn once."""
    pool = [*zip(_lengths(mean_input, rng), _lengths(mean_output, rng), strict=True)]
    pairs = rng.choices(pool, k=count)
    return array("l", [one for one, _ in pairs]), array("l", [one for _, one in pairs])


def _arrivals(day: Day, rng: random.Random) -> Iterator[float]:
    steep = _steepness(day.peak_over_mean)
    norm = _bessel_i0(steep)
    gap = rng.expovariate
    for minute in range(math.ceil(day.hours * HOUR / _BURST_SECONDS)):
        start = minute * _BURST_SECONDS
        angle = 2 * math.pi * (start / HOUR - day.peak_hour) / 24
        rate = day.rate * math.exp(steep * math.cos(angle)) / norm * _burst(day.burst_cv, rng)
        if rate <= 0:
            continue
        time, end = start + gap(rate), min(start + _BURST_SECONDS, day.hours * HOUR)
        while time < end:
            yield time
            time += gap(rate)


def _burst(cv: float, rng: random.Random) -> float:
    """A factor of mean 1 with the coefficient of variation `cv` (gamma)."""
    return 1.0 if cv <= 0 else rng.gammavariate(1 / cv**2, cv**2)


def _steepness(peak_over_mean: float) -> float:
    """The a for which exp(a cos x) has that peak over its mean, which is I0(a); found by halving."""
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if math.exp(middle) / _bessel_i0(middle) < peak_over_mean else (low, middle)
        )
    return high


def _bessel_i0(x: float) -> float:
    """Modified Bessel function of order 0, by its series."""
    term, total, k = 1.0, 1.0, 1
    while term > total * 1e-12:
        term *= (x / 2 / k) ** 2
        total += term
        k += 1
    return total


def _lengths(mean: int, rng: random.Random) -> list[int]:
    location = math.log(mean) - _LENGTH_SIGMA**2 / 2
    drawn = [rng.lognormvariate(location, _LENGTH_SIGMA) for _ in range(_POOL)]
    scale = mean * _POOL / sum(drawn)
    return [max(1, round(length * scale)) for length in drawn]


def read_trace(path: Path, scale: float = 1.0) -> Requests:
    """A trace: Azure's CSV (TIMESTAMP, ContextTokens, GeneratedTokens) or Mooncake's JSONL (timestamp in ms, …).

    `scale` multiplies the rate by shortening the gaps. Raises ValueError for another format or an empty file.
    """
    rows = sorted(_mooncake(path) if path.suffix == ".jsonl" else _azure(path))
    if not rows:
        raise ValueError(f"{path}: the trace is empty")
    first = rows[0][0]
    times = array("d", [(time - first) / scale for time, _, _ in rows])
    inputs = array("l", [max(1, row[1]) for row in rows])
    outputs = array("l", [max(1, row[2]) for row in rows])
    return Requests(times, inputs, outputs, times[-1] + 1.0)


def _azure(path: Path) -> Iterator[tuple[float, int, int]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= set(reader.fieldnames or ()):
            raise ValueError(
                f"{path}: is no Azure trace: it needs the columns TIMESTAMP, ContextTokens, GeneratedTokens"
            )
        for row in reader:
            # Seven digits of a second are one more than Python reads.
            stamp = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            yield stamp, int(row["ContextTokens"]), int(row["GeneratedTokens"])


def _mooncake(path: Path) -> Iterator[tuple[float, int, int]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            yield row["timestamp"] / 1000, int(row["input_length"]), int(row["output_length"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: is no line of a Mooncake trace: {error}") from error


def all_at_once(count: int, mean_input: int, mean_output: int, seed: int, seconds: float = HOUR) -> Requests:
    """A crowd that comes in the first second: what a launch or a retry storm does."""
    rng = random.Random(seed)  # noqa: S311 - a simulation, not a secret
    times = array("d", sorted(rng.random() for _ in range(count)))
    inputs, outputs = _drawn_lengths(count, mean_input, mean_output, rng)
    return Requests(times, inputs, outputs, seconds)
