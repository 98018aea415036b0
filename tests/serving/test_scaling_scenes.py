"""What `make bench-scaling` calls flapping, and scaling down while requests wait."""

from bench.scaling import Sample, directions, never_down_while_waiting


def samples(*seen: tuple[int, float | None]) -> list[Sample]:
    """A timeline of targets and waiting requests."""
    return [
        Sample(at=float(at), target=target, running=target, waiting=waiting, requests=0)
        for at, (target, waiting) in enumerate(seen)
    ]


def test_a_target_that_turns_is_counted() -> None:
    """Up twice is no turn; up, down and up are two."""
    assert directions(samples((1, 0), (2, 0), (3, 0), (3, 0))) == 0
    assert directions(samples((1, 0), (3, 0), (2, 0), (3, 0))) == 2


def test_down_while_requests_wait_is_seen() -> None:
    """A queue on both sides of the step down; a queue that is gone by then is none."""
    assert not never_down_while_waiting(samples((3, 5), (2, 4)))
    assert never_down_while_waiting(samples((3, 5), (2, 0)))
    assert never_down_while_waiting(samples((3, None), (2, None)))
    assert never_down_while_waiting(samples((2, 5), (3, 4)))
