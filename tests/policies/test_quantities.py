"""Numbers as Kubernetes, Karpenter and Pulumi write them."""

from __future__ import annotations

import math

import pytest

from components.quantities import (
    format_bytes,
    format_number,
    format_seconds,
    quantity,
    quantity_or_none,
    seconds,
    seconds_or_none,
)


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("16Gi", 16 * 2.0**30), ("20G", 20e9), ("100m", 0.1), ("2", 2.0), (2, 2.0), (16.0, 16.0), ("1e3", 1000.0),
        ("1.5Ti", 1.5 * 2.0**40), ("12E", 12e18), (".5", 0.5), ("-1", -1.0), (" 8 ", 8.0),
    ], ids=repr)  # fmt: skip
def test_quantities(written, number):
    """Text and numbers; every number is a float behind protobuf."""
    assert quantity(written) == pytest.approx(number)


@pytest.mark.parametrize(
    "written", [None, True, "", "16GB", "Gi", "1,5", "ten", [], "1e400", math.inf, math.nan], ids=repr
)
def test_no_quantities(written):
    """None where a rule asks, a sentence where a person wrote it."""
    assert quantity_or_none(written) is None
    with pytest.raises(ValueError, match=r"is not a"):
        quantity(written)


@pytest.mark.parametrize(
    ("written", "number"),
    [("30s", 30.0), ("10m", 600.0), ("1h30m", 5400.0), ("500ms", 0.5), ("Never", math.inf), ("1.5h", 5400.0)],
    ids=repr,
)
def test_durations(written, number):
    """Go's durations, and Karpenter's word for none."""
    assert seconds(written) == number


@pytest.mark.parametrize("written", [None, "", "10", 10, "1d", "5 m", "m"], ids=repr)
def test_no_durations(written):
    """Days are none, though people write them."""
    assert seconds_or_none(written) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (format_bytes(16 * 2.0**30), "16Gi"), (format_bytes(1536 * 2.0**20), "1.5Gi"), (format_bytes(100), "100"),
        (format_number(16.0), "16"), (format_number(3.92), "3.92"), (format_seconds(600), "10m"),
        (format_seconds(90), "90s"), (format_seconds(7200), "2h"), (format_seconds(math.inf), "Never"),
    ], ids=repr)  # fmt: skip
def test_what_people_read(text, shown):
    """Back as people write them."""
    assert text == shown
