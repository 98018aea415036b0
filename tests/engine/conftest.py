"""What the tests of the real servers and the real engine share.

`server` needs etcd and the API server, `engine` the Pulumi CLI and the Kubernetes provider too. Where they are not
built the tests are skipped with the reason, so that `make test-fast` works without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.control_plane import ControlPlane
from tools import cache, crds
from tools.table import find

NEEDS = {
    "server": ("etcd", "kube-apiserver"),
    # The operators of a rehearsal are not among them: without one, its work is simulated.
    "engine": (
        *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
        *("pulumi", "pulumi-kubernetes"),
    ),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs tools that are not there, and say which."""
    reasons = {marker: _missing(names) for marker, names in NEEDS.items()}
    for item in items:
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def _missing(names: tuple[str, ...]) -> str:
    missing = [name for name in names if cache.locate(find(name)) is None]
    return f"not built: {', '.join(missing)}; run `make tools`" if missing else ""


@pytest.fixture(scope="session")
def collected() -> crds.Collected:
    """The CRDs of the operators."""
    return crds.ensure()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory, collected: crds.Collected) -> Iterator[ControlPlane]:
    """One API server with the CRDs, for all tests that only ask it."""
    with ControlPlane(tmp_path_factory.mktemp("plane")) as running:
        running.apply_crds(collected.files)
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A state folder for a control plane of one test."""
    return tmp_path / "plane"
