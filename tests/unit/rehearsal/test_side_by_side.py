"""Stages played beside each other: two at a time, nothing lost when one of their processes ends early."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal import side_by_side
from rehearsal.rehearse import Rehearsal, main
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.table import LIVE, OPERATORS, SMALL, Scenario, chosen
from rehearsal.side_by_side import Part

WAITS = "import sys; sys.stdin.read()"


@dataclass(frozen=True)
class Held(Part):
    """A part that runs until it is let go."""

    processes: list[subprocess.Popen[bytes]] = field(default_factory=list, compare=False)

    def start(self) -> subprocess.Popen[bytes]:
        """Start a process that waits for the end of its input."""
        self.processes.append(subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE))
        return self.processes[-1]

    def let_go(self) -> None:
        """End it."""
        assert self.processes[0].stdin
        self.processes[0].stdin.close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "POLL_SECONDS", 0.02)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[list[Held]]:
    """Three parts."""
    parts = [Held(kind, (), tmp_path / f"{kind}.json") for kind in ("a", "b", "c")]
    yield parts
    for process in (process for part in parts for process in part.processes):
        if process.stdin:
            process.stdin.close()


def test_two_run_at_a_time_and_each_is_taken_with_its_code(three: list[Held]) -> None:
    """The third begins when the first has ended; a part is taken while it runs and when it ended."""
    taken: list[tuple[str, int | None, int]] = []

    def take(part: Part, code: int | None) -> None:
        taken.append((part.kind, code, sum(len(one.processes) for one in three)))
        running = [one for one in three if one.processes and one.processes[0].poll() is None]
        if code is None and running[0].kind == part.kind:
            running[0].let_go()

    side_by_side.play(three, take)
    assert {(kind, started) for kind, code, started in taken if code is None} >= {
        ("a", 2),
        ("b", 2),
        ("c", 3),
    }
    assert [(kind, code) for kind, code, _ in taken if code is not None] == [("a", 0), ("b", 0), ("c", 0)]


def test_an_interrupt_ends_those_that_run(three: list[Held]) -> None:
    """And starts no other."""

    def take(_part: Part, _code: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side.play(three, take)
    assert [len(one.processes) for one in three] == [1, 1, 0]
    assert all(one.processes[0].poll() is not None for one in three[:2])


def _nothing(_stage: Any, _outcome: Outcome) -> None:
    pass


def test_what_a_part_reported_is_taken_and_what_it_did_not_play_has_failed(tmp_path: Path) -> None:
    """In playing order, whichever ended first."""
    rows = [
        Scenario(7, "live", "", _nothing, LIVE),
        Scenario(1, "first", "", _nothing, SMALL),
        Scenario(2, "second", "is played", _nothing, SMALL),
        Scenario(3, "third", "", _nothing, OPERATORS),
    ]
    rehearsal = Rehearsal("prod", rows, tmp_path)
    small, operators = rehearsal.parts()
    operators.report.write_text(json.dumps({"scenarios": [{"name": "3 third", "passed": True}]}))
    small.report.write_text(
        json.dumps({"scenarios": [{"name": "1 first", "passed": True}], "kept": ["/a/folder"]})
    )

    assert [rehearsal.take(operators, 0), rehearsal.take(small, None), rehearsal.take(small, None)] == [
        1,
        1,
        0,
    ]
    assert rehearsal.take(small, -9) == 1
    assert [row["name"] for row in rehearsal.played()] == ["1 first", "2 second", "3 third"]
    missed = rehearsal.played()[1]
    assert (missed["passed"], missed["expected"]) == (False, "is played")
    assert missed["seen"] == "Its process ended with code -9 before this was reported."
    assert rehearsal.failed_at == {"/a/folder"}
    assert rehearsal.broken == ["The process of the stage small ended with code -9."]


@pytest.mark.parametrize(
    ("only", "kinds"),
    [("", ["simulated", "small", "operators"]), ("ci", []), ("3,11", ["simulated", "small"])],
)
def test_only_several_stages_without_a_live_model_are_played_beside_each_other(
    tmp_path: Path, only: str, kinds: list[str]
) -> None:
    """A single one is played by the process itself, and so is what needs both cores."""
    rehearsal = Rehearsal("prod", chosen(only), tmp_path, only=only)
    assert [part.kind for part in rehearsal.parts()] == kinds


class Able:
    """A plan without a reason against anything."""

    why = ""


def test_the_arguments_of_a_part_play_its_stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a part's process is started with is what the command understands; of 14's two halves each plays its own."""
    monkeypatch.setattr("rehearsal.rehearse.choose", lambda *_: Able())
    monkeypatch.setenv("LLMP_REHEARSAL", str(tmp_path))
    seen: list[tuple[str, set[int], int, Path]] = []

    def runner(played: Rehearsal, report: Path, _console: Any) -> bool:
        seen.append((played.stage, {row.number for row in played.scenarios}, played.attempts, report))
        return True

    parts = Rehearsal.of("prod", "3,11,14", attempts=2).parts()
    assert [main(list(part.arguments), runner) for part in parts] == [0, 0, 0]
    assert [row[:3] for row in seen] == [
        ("simulated", {3}, 2),
        ("small", {11, 14}, 2),
        ("operators", {14}, 2),
    ]
    assert [row[3] for row in seen] == [part.report for part in parts]


def test_a_stage_without_a_chosen_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing played is no pass."""
    assert main(["--only", "3", "--stage", "small"]) == 1
    assert "None of the scenarios 3 is played on the stage small." in capsys.readouterr().err
