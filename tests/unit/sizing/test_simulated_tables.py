"""The simulated tables of docs/sizing.md are what `llmp simulate` prints for the commands beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from llmp.simulate import simulate
from tests.conftest import ROOT

pytestmark = pytest.mark.slow  # ten simulated plans, eight seconds of processor time
APP = typer.Typer(pretty_exceptions_enable=False)
APP.command()(simulate)

SERVICE = ("--model", "llama-3.1-70b", "--instance", "p4d.24xlarge", "--loader", "nvmeCache", "--seed", "0")
DAY = ("--target", "36", "--max-ongoing", "96", "--max-num-seqs", "128", "--rate", "6")
CROWD = ("--crowd", "10000", "--max-num-seqs", "256", "--max-ongoing", "256", "--target", "128")
UNLIMITED = ("--max-queued", "100000")
WORDS = {"queue full": "refused at once with 503", "timed out": "timed out after 600 s"}


def simulated(*arguments: str) -> dict[str, Any]:
    """What the command answers."""
    done = CliRunner().invoke(APP, [*SERVICE, *arguments, "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def rows_of(first_column: str, after: str) -> list[list[str]]:
    """Cells of the page's first table with such a column after a sentence, without bold type and without its head."""
    page = (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")
    below = page[page.index(after) :].splitlines()
    start = next(n for n, line in enumerate(below) if line.startswith(f"| {first_column} |"))
    rows = []
    for line in below[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("**", "") for cell in line.strip("|").split("|")])
    return rows


def percent(share: float) -> str:
    """At most two digits behind the point."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def seconds(value: float) -> str:
    """Two digits below ten seconds as the page has them."""
    return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"


def day_cells(plan: Mapping[str, float]) -> list[str]:
    """Attained, p99 and dollars of one plan."""
    return [percent(plan["attained"]), seconds(plan["ttft_p99_s"]), f"{plan['usd']:,.0f}"]


def test_the_day() -> None:
    """Every plan of the day, in the page's order; the last row is the fleet that is always on."""
    answer = simulated(*DAY, "--vary")
    planned = {"attained": answer["attained"], "ttft_p99_s": answer["ttft_s"]["p99"], "usd": answer["usd"][1]}
    knobs = {"as planned": planned, **answer["knobs"]}
    *plans, always_on = rows_of("Plan", "70B BF16 on p4d, peak 2.4 times the mean")

    said = {row[0].partition(",")[0].partition(" (")[0]: row[1:] for row in plans}
    assert said == {name.partition(",")[0]: day_cells(plan) for name, plan in knobs.items()}
    assert always_on[0] == "always on at the peak (8 replicas)"
    assert always_on[-1] == f"{answer['usd_always_on_at_peak']:,.0f}"


@pytest.mark.parametrize(
    ("plan", "arguments"),
    [
        ("queue of 200, 1 to 8 replicas", ()),
        ("queue without limit, 1 to 8 replicas", UNLIMITED),
        ("queue without limit, 8 replicas on", (*UNLIMITED, "--min-replicas", "8")),
    ],
)
def test_the_crowd(plan: str, arguments: tuple[str, ...]) -> None:
    """Answered, lost, and both percentiles of the first token."""
    answer = simulated(*CROWD, *arguments)
    lost = ", ".join(f"{count:,} {WORDS[why]}" for why, count in answer["lost"].items()) or "none"
    times = answer["ttft_s"]
    (row,) = [row for row in rows_of("Plan", "10,000 users in one second") if row[0] == plan]

    assert row[1:] == [
        f"{answer['completed']:,}", lost, f"{short(times['p50'])} / {short(times['p99'])} s",
    ]  # fmt: skip


def short(value: float) -> str:
    """A digit behind the point below ten seconds."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"
