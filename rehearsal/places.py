"""Where a control plane keeps things and listens, and what one of its processes is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KUBECONFIG, KUBECONFIG_INSIDE = "kubeconfig", "kubeconfig-inside"
SERVER_NAME = "kubernetes.default.svc"  # the API server's certificate has it, whatever address it listens on


@dataclass(frozen=True)
class Release:
    """What the stub of a chart says about its release (`charts.py`)."""

    namespace: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Places:
    """The files and addresses of one control plane. Everything lies under its state folder.

    `address` is where processes of the control plane reach each other; `doors` are ports of the machine's loopback
    that lead there, empty when there is no namespace between. `facts` say whose AWS account is played.
    """

    state: Path
    context: str
    address: str
    ports: dict[str, int]
    binaries: dict[str, Path]
    parts: tuple[str, ...] = ()
    doors: dict[str, int] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    releases: dict[str, Release] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for anyone on this machine who may read the state folder."""
        return self.state / KUBECONFIG

    @property
    def kubeconfig_inside(self) -> Path:
        """The same for processes of the control plane and for pods."""
        return self.state / KUBECONFIG_INSIDE

    @property
    def certificates(self) -> Path:
        """Where the API server makes its own certificate and key; one for each address, which it is made for."""
        return self.state / "certs" / self.address

    @property
    def url(self) -> str:
        """The API server's address for anyone on this machine."""
        return self.outside("kube-apiserver", "https")

    @property
    def etcd_url(self) -> str:
        """The address at which etcd serves its client."""
        return self.inside("etcd")

    def inside(self, name: str, scheme: str = "http") -> str:
        """The URL of a port for the control plane's own processes."""
        return f"{scheme}://{self.address}:{self.ports[name]}"

    def outside(self, name: str, scheme: str = "http") -> str:
        """The URL of a port for anyone on this machine."""
        port = self.doors.get(name)
        return f"{scheme}://127.0.0.1:{port}" if port else self.inside(name, scheme)

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.state / "logs" / f"{name}.log"


def _no_environment(_places: Places) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class Part:
    """One process. `tool` is its row in tools/table.py, empty for a module of this package.

    With a `chart` it is an operator: it runs while a release of that chart is there, or all the time in a cluster that
    is said to have it; and only once the kinds that it `needs` (names of CRDs) are served.
    """

    name: str
    tool: str
    command: Callable[[Places], list[str]]
    ready: Callable[[Places], bool]
    env: Callable[[Places], Mapping[str, str]] = _no_environment
    chart: str = ""
    needs: tuple[str, ...] = ()
    # Whether it can only work in a namespace of its own.
    namespace: bool = False
