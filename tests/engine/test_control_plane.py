"""The embedded control plane: starts, says what died, and never leaves a process behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from rehearsal import control_plane
from rehearsal.api import Api
from rehearsal.control_plane import ControlPlane
from rehearsal.errors import ApiUnreachableError, ControlPlaneError, RehearsalError
from tests.engine.helpers import alive, pid_of, soon, start_module

pytestmark = pytest.mark.server

STARTER = """
import sys, time
from pathlib import Path
from rehearsal.control_plane import ControlPlane
plane = ControlPlane(Path(sys.argv[1]))
plane.start()
if sys.argv[2] == "keep":
    plane.keep()
print("ready", flush=True)
time.sleep(float(sys.argv[3]))
"""


def _config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


def test_starts_and_stops(folder: Path) -> None:
    """A control plane answers inside its block, and no process of it is left after."""
    with ControlPlane(folder) as plane:
        assert plane.running()
        assert plane.api.ready()
        assert len(alive(str(folder))) == 3  # the keeper, etcd, the API server
        assert plane.kubeconfig.stat().st_mode & 0o077 == 0

    assert not plane.running()
    assert alive(str(folder)) == {}


def test_two_side_by_side(folder: Path, tmp_path: Path) -> None:
    """Two control planes do not see each other's objects."""
    with ControlPlane(folder) as first, ControlPlane(tmp_path / "other") as second:
        first.api.apply(_config_map("only-in-first"))

        assert first.url != second.url
        assert first.api.get("/api/v1/namespaces/default/configmaps/only-in-first") is not None
        assert second.api.get("/api/v1/namespaces/default/configmaps/only-in-first") is None


def test_state_outlives_a_restart(folder: Path) -> None:
    """A second start in the same folder has the objects and the address of the first."""
    with ControlPlane(folder) as plane:
        plane.api.apply(_config_map("kept"))
        url = plane.url
    with ControlPlane(folder) as plane:
        assert plane.url == url
        assert plane.api.get("/api/v1/namespaces/default/configmaps/kept") is not None


@pytest.mark.parametrize("victim", ["etcd", "kube-apiserver"])
def test_says_what_died(folder: Path, victim: str) -> None:
    """When one process is killed, the error names it, the signal and the end of its log, and the other is ended."""
    with ControlPlane(folder) as plane:
        api = plane.api
        os.kill(pid_of(str(folder), f"/{victim} "), signal.SIGKILL)
        assert soon(lambda: not plane.running())
        with pytest.raises(ControlPlaneError) as caught:
            plane.check()
        with pytest.raises(ApiUnreachableError, match="does not answer"):
            api.items("/api/v1/namespaces")

    assert str(caught.value).startswith(
        f"{victim} was ended by signal 9. The end of {folder}/logs/{victim}.log:\n    "
    )
    assert alive(str(folder)) == {}


def test_a_part_that_does_not_start(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends at once is named with its exit code and what it said."""
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho no space left on device\nexit 3\n")
    broken.chmod(0o755)
    real = control_plane.tool_paths(["kube-apiserver"])
    monkeypatch.setattr(control_plane, "tool_paths", lambda _names: {**real, "etcd": broken})

    with pytest.raises(ControlPlaneError) as caught:
        ControlPlane(folder).start()

    assert str(caught.value) == (
        f"etcd ended with code 3. The end of {folder}/logs/etcd.log:\n    no space left on device"
    )
    assert alive(str(folder)) == {}


def test_missing_tools_are_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the tools the error names them and says how to get them."""
    monkeypatch.setenv("LLMP_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", os.defpath)

    with pytest.raises(RehearsalError) as caught:
        ControlPlane(folder).start()

    assert str(caught.value) == (
        "Not built yet: etcd, kube-apiserver. Run `make tools` first (once, about 25 minutes on two cores)."
    )


def test_killed_starter_leaves_nothing(folder: Path) -> None:
    """SIGKILL of the process that started a control plane ends all of it."""
    with start_module("-c", STARTER, str(folder), "tied", "60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()

    assert soon(lambda: alive(str(folder)) == {})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_killed_keeper_leaves_nothing(folder: Path) -> None:
    """SIGKILL of the keeper ends its children, and the folder can be used again."""
    plane = ControlPlane(folder)
    plane.start()
    os.kill(pid_of(str(folder), "rehearsal.keeper"), signal.SIGKILL)

    assert soon(lambda: alive(str(folder)) == {})
    assert not plane.running()
    assert plane.stop() is False
    with ControlPlane(folder) as again:
        assert again.api.ready()


def test_kept_plane_outlives_its_starter(folder: Path) -> None:
    """A kept control plane stays when its starter ends; another process stops it; stopping twice is fine."""
    with start_module("-c", STARTER, str(folder), "keep", "0") as process:
        process.communicate(timeout=60)
    plane = ControlPlane(folder)

    assert plane.running()
    with Api.from_kubeconfig(plane.kubeconfig) as api:
        assert api.ready()
    assert plane.start() is False
    assert plane.stop() is True
    assert plane.stop() is False
    assert alive(str(folder)) == {}
