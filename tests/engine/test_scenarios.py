"""The rehearsal's scenarios with the real engine and API server: the dev stack with simulated pods, or what CI plays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rehearsal import rehearse, session_plan
from rehearsal.scenarios import killed
from tests.engine.helpers import alive

pytestmark = pytest.mark.engine


def played(folder: Path, monkeypatch: pytest.MonkeyPatch, stack: str, only: str) -> dict[str, dict[str, Any]]:
    """The report's scenarios by name, after `make rehearse ONLY=…`; nothing may run afterwards."""
    monkeypatch.setenv("LLMP_REHEARSAL", str(folder / "state"))
    report = folder / "report.json"
    code = rehearse.main(["--stack", stack, "--only", only, "--report", str(report)])
    rows = json.loads(report.read_text())["scenarios"]
    assert alive(str(folder)) == {}
    assert code == (0 if all(row["passed"] for row in rows) else 1)
    return {row["name"]: row for row in rows}


def failures(rows: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What was seen in those that failed."""
    return {name: row["seen"] for name, row in rows.items() if not row["passed"]}


def test_up_up_violation_destroy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios 1, 2, 3 and 13 pass on the dev stack where nothing can run as processes."""
    monkeypatch.setattr(session_plan, "_no_processes", lambda: "a test wants simulated pods")
    rows = played(tmp_path, monkeypatch, "dev", "1,2,3,13")

    assert failures(rows) == {}
    assert sorted(rows) == ["1 first up", "13 destroy", "2 second up", "3 mandatory violation"]
    assert all(len(row["checks"]) >= 1 for row in rows.values())


def test_without_process_pods_live_scenarios_are_not_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be played is no success, and the report says why."""
    monkeypatch.setattr(session_plan, "_no_processes", lambda: "pods are simulated: a test wants it so")
    rows = played(tmp_path, monkeypatch, "prod", "5")

    assert failures(rows) == {"5 spot interruption": "Not played: pods are simulated: a test wants it so."}


@pytest.mark.long
def test_engine_killed_and_api_server_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios 10 (with fewer points than `make rehearse`) and 11."""
    monkeypatch.setattr(killed, "POINTS", 4)
    rows = played(tmp_path, monkeypatch, "dev", "10,11")

    assert failures(rows) == {}


@pytest.mark.long
def test_stages_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios 12 and 14, on three stages in processes of their own."""
    rows = played(tmp_path, monkeypatch, "dev", "12,14")

    assert len(rows) == 3
    assert failures(rows) == {}


@pytest.mark.long
def test_the_ci_set_on_prod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scenarios 1, 2, 3, 4, 5, 7, 8 and 13 with one model that answers."""
    rows = played(tmp_path, monkeypatch, "prod", "ci")

    assert failures(rows) == {}
    assert rows["5 spot interruption"]["requests"]["finished"] > 0
