"""The control plane in a network namespace of its own: who may make one, side by side, killed, opened from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rehearsal import namespace
from rehearsal.api import Api
from rehearsal.control_plane import ControlPlane
from rehearsal.errors import ControlPlaneError
from rehearsal.parts import API_ONLY
from tests.engine.helpers import ROOT, alive, soon

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(bool(namespace.missing()), reason=f"no network namespaces: {namespace.missing()}"),
]

NAMESPACES = "/api/v1/namespaces"


@pytest.mark.parametrize("victim", ["the keeper inside", "its guard"])
def test_killed_keeper_leaves_nothing(folder: Path, victim: str) -> None:
    """SIGKILL of the first process inside, or of its guard outside, ends all, and the folder can be used again."""
    plane = ControlPlane(folder, parts=API_ONLY, namespace=True)
    plane.start()
    keepers = sorted(pid for pid, line in alive(str(folder)).items() if "rehearsal.keeper" in line)
    os.kill(keepers[1 if victim == "the keeper inside" else 0], signal.SIGKILL)

    assert len(keepers) == 2
    assert soon(lambda: alive(str(folder)) == {})
    assert not plane.running()
    assert plane.stop() is False
    with ControlPlane(folder, parts=API_ONLY, namespace=True) as again:
        assert again.api.ready()


def test_two_namespaces_side_by_side(folder: Path, tmp_path: Path) -> None:
    """Two control planes have the same bridge address and see nothing of each other."""
    options: dict[str, Any] = {"parts": API_ONLY, "namespace": True}
    with ControlPlane(folder, **options) as first, ControlPlane(tmp_path / "other", **options) as second:
        first.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}})

        assert first.url != second.url
        assert first.api.get(f"{NAMESPACES}/mine") is not None
        assert second.api.get(f"{NAMESPACES}/mine") is None


def test_a_kept_plane_can_be_opened_by_others(folder: Path) -> None:
    """A control plane that is kept has no hold on the starter's streams, and another object opens doors and stops it."""
    plane = ControlPlane(folder, parts=API_ONLY, namespace=True)
    plane.start()
    url = plane.url
    plane.keep()
    other = ControlPlane(folder)
    door = other.open_door(0, other.address_of("kube-apiserver", inside=True))
    with Api.from_kubeconfig(plane.kubeconfig) as api:
        through = Api(f"https://127.0.0.1:{door}", api.token, api.ca_file, api.server_name)
        answered = through.ready()
        through.close()
    stopped = other.stop()

    assert answered
    assert stopped
    with ControlPlane(folder, parts=API_ONLY, namespace=True) as again:
        assert again.url == url


STARTER = """
import subprocess, sys
from pathlib import Path
from rehearsal import namespace
from rehearsal.control_plane import ControlPlane
from rehearsal.parts import API_ONLY
with ControlPlane(Path(sys.argv[1]), parts=API_ONLY, namespace=True) as plane:
    links = subprocess.run(plane.inside(["ip", "-brief", "link"]), capture_output=True, text=True, check=True).stdout
    print(namespace.unprivileged(), plane.namespaced, plane.api.ready(), [row.split()[0] for row in links.splitlines()])
"""


def test_it_needs_no_root(folder: Path) -> None:
    """A user without rights gets the same namespace, where the system lets users make them."""
    lower = [] if namespace.unprivileged() else ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    done = subprocess.run(
        [*lower, sys.executable, "-c", STARTER, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == f"True True True ['lo', '{namespace.BRIDGE}']\n", done.stderr
    assert alive(str(folder)) == {}


def test_without_namespaces_it_says_what_is_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the machine has no namespaces, the control plane runs on the loopback and says what is not covered."""
    monkeypatch.setattr(namespace, "missing", lambda: "the program ip is not on PATH (install iproute2)")
    with ControlPlane(folder, parts=(*API_ONLY, "kubelet"), namespace=True) as plane:
        parts = plane.running_parts()
        with pytest.raises(ControlPlaneError, match="no namespace of its own"):
            plane.open_door(0, "a/b:1")

    assert parts == set(API_ONLY)
    assert capsys.readouterr().err == (
        "rehearsal: no network namespace of its own: the program ip is not on PATH (install iproute2). It runs on "
        "127.0.0.1 instead; not covered then: pods that run as processes, so no model answers.\n"
    )


def test_a_taken_port_is_named(folder: Path) -> None:
    """A door at a port that something else has says so."""
    with ControlPlane(folder, parts=API_ONLY, namespace=True) as plane:
        port = int(plane.address_of("kube-apiserver").rpartition(":")[2])
        with pytest.raises(ControlPlaneError, match=f"^Port {port} of 127.0.0.1 cannot be opened: "):
            plane.open_door(port, "default/x:1")
