"""Whether two runs of the load tool differ by more than noise."""

import random
from typing import Any

from bench.compare import differences, verdict


def run(seed: int, slower: float = 1.0, requests: int = 600, stall: float = 0.0) -> dict[str, Any]:
    """A made-up result file: ten at a time, latencies with the spread that real runs have, a stall in the middle."""
    generator = random.Random(seed)
    starts, ttfts, itls, free = [], [], [], [0.0] * 10
    for number in range(requests):
        if number == requests // 2:
            free = [moment + stall for moment in free]
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


def test_a_moment_in_which_the_machine_stood_still_hides_nothing() -> None:
    """Two seconds of 46 without a request before: a tenth slower is seen in the requests a second all the same."""
    pairs = [(run(seed, 1.0, 1200, 2.0), run(seed + 100, 1.1, 1200)) for seed in range(20)]
    words = [differences(before, after)[0] for before, after in pairs]

    assert {row.figure for row in words} == {"requests/s"}
    assert [row.verdict for row in words] == ["slower"] * 20


def test_ten_percent_faster_is_faster() -> None:
    """The other way round."""
    assert verdict(differences(run(1, slower=1.1), run(2))) == "faster"


def test_short_runs_are_not_compared() -> None:
    """With few requests there are no blocks to compare, and nothing is claimed."""
    rows = differences(run(1, requests=10), run(2, requests=10))

    assert rows == []
    assert verdict(rows).startswith("not known")
