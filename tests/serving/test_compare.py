"""Whether two runs of the load tool differ by more than noise."""

import random
from typing import Any

from bench.compare import differences, verdict


def run(seed: int, slower: float = 1.0, requests: int = 600) -> dict[str, Any]:
    """A made-up result file: ten at a time, latencies with the spread that real runs have."""
    generator = random.Random(seed)
    starts, ttfts, itls, free = [], [], [], [0.0] * 10
    for _ in range(requests):
        slot = min(range(10), key=free.__getitem__)
        ttft = 0.05 * slower * generator.lognormvariate(0, 0.2)
        steps = [0.01 * slower * generator.lognormvariate(0, 0.2) for _ in range(32)]
        starts.append(free[slot])
        ttfts.append(ttft)
        itls.append(steps)
        free[slot] += ttft + sum(steps)
    return {"start_times": starts, "ttfts": ttfts, "itls": itls, "errors": [""] * requests}


def test_repeated_run_is_no_difference() -> None:
    """The same endpoint again, twenty times over."""
    words = [verdict(differences(run(seed), run(seed + 100))) for seed in range(20)]

    assert words == ["no difference"] * 20


def test_ten_percent_slower_is_slower() -> None:
    """Every figure that changed says the same."""
    words = [verdict(differences(run(seed), run(seed + 100, slower=1.1))) for seed in range(20)]

    assert words == ["slower"] * 20


def test_ten_percent_faster_is_faster() -> None:
    """The other way round."""
    assert verdict(differences(run(1, slower=1.1), run(2))) == "faster"


def test_short_runs_are_not_compared() -> None:
    """With few requests there are no blocks to compare, and nothing is claimed."""
    rows = differences(run(1, requests=10), run(2, requests=10))

    assert rows == []
    assert verdict(rows).startswith("not known")
