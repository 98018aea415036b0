"""A short run of the fuzzer; the long one is `python -m tests.fuzzcheck --count 2000 --seed 1`."""

from __future__ import annotations

from tests.fuzzcheck.operators import TEXT_OPERATORS, VALUE_OPERATORS
from tests.fuzzcheck.run import run


def test_nothing_breaks_the_checker():
    """Neither spoilt values nor spoilt text bring a traceback."""
    counts = run(count=250, seed=7)

    assert counts.tracebacks == []
    assert set(counts.runs) == {*VALUE_OPERATORS, *TEXT_OPERATORS}
    assert sum(counts.findings.values()) > 0
