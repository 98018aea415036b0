"""Says whether two runs differ by more than noise. Pure functions over the load tool's own result files.

Requests of one run are not independent (they share batches), so each run is cut into blocks of time and the blocks are
compared: a difference counts when it is larger than both the noise between blocks and the least that is worth saying.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BLOCKS = 10
# Of ten blocks the two least and the two largest count as their neighbours: a moment in which the machine did something
# else is no difference between runs (Yuen's test, Biometrika 61, 1974).
_TRIMMED = 0.2
# Two-sided 99 % of Student's t for the 10 degrees of freedom of two times six blocks.
_T = 3.17
# Below it a difference is called none however sure it is: machines differ by as much from hour to hour.
LEAST_SHARE = 0.03
UNKNOWN = f"not known: a run needs {2 * BLOCKS} finished requests to be compared"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One figure of two runs: `ratio` is after over before, `noise` the share that blocks differ by anyhow."""

    figure: str
    before: float
    after: float
    ratio: float
    noise: float
    verdict: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """The figures that both runs have."""
    rows = []
    for name, (blocks_of, lower_is_better) in _FIGURES.items():
        first, second = blocks_of(before), blocks_of(after)
        if len(first) > 1 and len(second) > 1:
            rows.append(_difference(name, first, second, lower_is_better=lower_is_better))
    return rows


def verdict(rows: Sequence[Difference]) -> str:
    """One word for all figures: slower, faster, mixed, no difference, or UNKNOWN where there are none."""
    if not rows:
        return UNKNOWN
    words = {row.verdict for row in rows} - {"no difference"}
    if not words:
        return "no difference"
    return words.pop() if len(words) == 1 else "mixed"


def _difference(
    name: str, first: Sequence[float], second: Sequence[float], *, lower_is_better: bool
) -> Difference:
    (before, before_error), (after, after_error) = _trimmed(first), _trimmed(second)
    error = math.hypot(before_error, after_error)
    noise = _T * error / before if before else math.inf
    ratio = after / before if before else math.inf
    change = ratio - 1
    if abs(change) <= max(noise, LEAST_SHARE):
        word = "no difference"
    else:
        word = "slower" if (change > 0) == lower_is_better else "faster"
    return Difference(figure=name, before=before, after=after, ratio=ratio, noise=noise, verdict=word)


def _trimmed(blocks: Sequence[float]) -> tuple[float, float]:
    """The trimmed mean of some blocks and its standard error, from the variance of the blocks with their ends pulled in."""
    ordered, number = sorted(blocks), len(blocks)
    cut = int(_TRIMMED * number)
    kept = ordered[cut : number - cut]
    pulled = [kept[0]] * cut + kept + [kept[-1]] * cut
    squares = (number - 1) * statistics.variance(pulled)
    return statistics.fmean(kept), math.sqrt(squares / (len(kept) * (len(kept) - 1)))


def _throughput(run: Mapping[str, Any]) -> list[float]:
    """Finished requests a second in each block of time, without the run's ragged ends."""
    ends = sorted(_ends(run))
    if len(ends) < 2 * BLOCKS:
        return []
    first, last = ends[0], ends[-1]
    width = (last - first) / BLOCKS
    counts = [0] * BLOCKS
    for end in ends:
        counts[min(BLOCKS - 1, int((end - first) / width)) if width else 0] += 1
    return [count / width for count in counts] if width else []


def _ends(run: Mapping[str, Any]) -> list[float]:
    return [start + latency for start, ttft, latency in _requests(run) if ttft is not None]


def _requests(run: Mapping[str, Any]) -> list[tuple[float, float | None, float]]:
    """Start, time to first token and whole latency of each request that succeeded."""
    found = []
    rows = zip(
        run.get("start_times", ()),
        run.get("ttfts", ()),
        run.get("itls", ()),
        run.get("errors", ()),
        strict=False,
    )
    for start, ttft, itls, error in rows:
        if not error:
            found.append((start, ttft, ttft + sum(itls)))
    return found


def _blocks(values: Sequence[float]) -> list[float]:
    """Medians of consecutive blocks of requests."""
    if len(values) < 2 * BLOCKS:
        return []
    size = len(values) / BLOCKS
    return [statistics.median(values[int(i * size) : int((i + 1) * size)]) for i in range(BLOCKS)]


def _first_tokens(run: Mapping[str, Any]) -> list[float]:
    return _blocks([ttft for _, ttft, _ in sorted(_requests(run)) if ttft is not None])


def _latencies(run: Mapping[str, Any]) -> list[float]:
    return _blocks([latency for _, _, latency in sorted(_requests(run))])


_FIGURES: dict[str, tuple[Callable[[Mapping[str, Any]], list[float]], bool]] = {
    "requests/s": (_throughput, False),
    "time to first token, s": (_first_tokens, True),
    "whole answer, s": (_latencies, True),
}
