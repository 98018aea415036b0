"""The real stacks before the real API server and the real engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from preview.build import Preview
from rehearsal import admission
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
    run_module("-m", "rehearsal", "down", "--stack", "local", "--discard", env=env)
    assert alive(str(tmp_path / "state")) == {}


@pytest.mark.engine
def test_the_local_stack_goes_up_and_down(state: dict[str, str]) -> None:
    """The real engine makes the local stack, finds nothing to change a second time, and leaves nothing."""
    results = [run_module("-m", "rehearsal", "up", "--json", env=state) for _ in range(2)]
    first, second = (
        ({}, {}) if any(row[0] for row in results) else (json.loads(row[1])["changes"] for row in results)
    )
    code, out, err = run_module("-m", "rehearsal", "down", env=state)

    assert [row[0] for row in results] == [0, 0], results
    assert set(first) == {"create"}
    assert second == {"same": first["create"]}
    assert code == 0, err
    assert "destroyed, nothing of it is left" in out
