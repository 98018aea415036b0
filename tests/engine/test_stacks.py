"""The real stacks before the real API server and the real engine."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preview.build import Preview
from rehearsal import admission, session_plan
from rehearsal.control_plane import ControlPlane
from tests.engine.helpers import alive, run_module
from tools.crds import Collected

STACKS = ("prod", "dev", "multinode", "local")


@pytest.mark.server
@pytest.mark.parametrize("stack", STACKS)
def test_every_object_is_accepted(
    plane: ControlPlane,
    collected: Collected,
    preview_of: Callable[[str], Preview],
    stack: str,
    record_property: Callable[[str, object], None],
) -> None:
    """The API server takes every Kubernetes object of the stack, strictly; what was not checked is recorded."""
    objects = preview_of(stack).objects
    verdicts = admission.check(plane.api, objects, collected)
    record_property("objects", len(verdicts))
    record_property("not_checked", [row.object for row in verdicts if row.not_checked])
    record_property("left_out", sorted({path for row in verdicts for path in row.left_out}))

    assert len(verdicts) == len(objects) > 0
    assert admission.refused(verdicts) == []


@pytest.fixture
def state(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment whose rehearsals lie in the test's folder and are ended after it."""
    env = {"LLMP_REHEARSAL": str(tmp_path / "state")}
    yield env
    for stack in STACKS:
        run_module("-m", "rehearsal", "down", "--stack", stack, "--discard", env=env)
    assert alive(str(tmp_path / "state")) == {}


@pytest.mark.engine
@pytest.mark.parametrize(
    "stack",
    [
        "local",
        # Scenarios 1, 2, 3 and 13 bring dev up and down in every run.
        *(pytest.param(stack, marks=pytest.mark.long) for stack in ("dev", "prod")),
    ],
)
def test_a_stack_goes_up_and_down(state: dict[str, str], stack: str) -> None:
    """The real engine makes the stack, finds nothing to change a second time, and leaves nothing, here and in AWS."""
    of = ("--stack", stack)
    results = [run_module("-m", "rehearsal", "up", *of, "--live=none", "--json", env=state) for _ in range(2)]
    first, second = (
        ({}, {}) if any(row[0] for row in results) else (json.loads(row[1])["changes"] for row in results)
    )
    code, out, err = run_module("-m", "rehearsal", "down", *of, env=state)

    assert [row[0] for row in results] == [0, 0], results
    assert set(first) == {"create"}
    assert second == {"same": first["create"]}
    assert code == 0, err
    assert "destroyed, nothing of it is left" in out


@pytest.mark.long
@pytest.mark.engine
def test_the_local_stack_answers(state: dict[str, str]) -> None:
    """`up` ends with a model that answers on this machine, from pods that are processes; `down` leaves none."""
    if reason := session_plan._no_processes():
        pytest.skip(reason)
    code, out, err = run_module("-m", "rehearsal", "up", env=state, seconds=400)
    command = next(line for line in out.splitlines() if line.startswith("  curl "))
    asked = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    down = run_module("-m", "rehearsal", "down", env=state)

    assert code == 0, err
    assert json.loads(asked.stdout)["choices"][0]["finish_reason"] == "length"
    assert down[0] == 0, down
