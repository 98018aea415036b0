"""A short run of `python -m tests.badconfig`: the bars hold, and a seed gives the same cases."""

import random

from tests.badconfig.operators import OPERATORS
from tests.badconfig.run import run
from tests.badconfig.targets import stacks


def test_broken_stack_files_are_refused_in_words() -> None:
    """No traceback, every refusal names a line, and what must be refused is."""
    report = run(330, seed=3)

    assert report.failures == []
    assert sum(count.cases for count in report.counts.values()) == 330


def test_a_seed_gives_the_same_cases() -> None:
    """A failure can be looked at again."""
    one, other = random.Random(7), random.Random(7)
    files = stacks()

    for operator in OPERATORS:
        assert operator.run(one.choice(files), one) == operator.run(other.choice(files), other)
