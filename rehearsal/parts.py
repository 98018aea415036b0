"""The processes of the embedded control plane, one row each: their command, and how one sees that they are ready.

Flags that do not explain themselves: `--unsafe-no-fsync` because nothing here outlives the machine; the ServiceAccount
admission is off because no controller would make the default account where only the API server runs; leader election
is off because there is one of each.
"""

from __future__ import annotations

import json
import secrets
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rehearsal.api import Api

CONTEXT = "rehearsal"
SERVICE_RANGE = "10.96.0.0/16"
PROBE_SECONDS = 2.0

API_ONLY = ("etcd", "kube-apiserver")
CLUSTER = (*API_ONLY, "kube-controller-manager", "kube-scheduler", "simulated-node")


@dataclass(frozen=True)
class Places:
    """The files and addresses of one control plane. Everything lies under its state folder."""

    state: Path
    context: str
    address: str
    ports: dict[str, int]
    binaries: dict[str, Path]

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig for anyone on this machine who may read the state folder."""
        return self.state / "kubeconfig"

    @property
    def certificates(self) -> Path:
        """Where the API server makes its own certificate and key."""
        return self.state / "certs"

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{self.address}:{self.ports['kube-apiserver']}"

    @property
    def etcd_url(self) -> str:
        """The address at which etcd serves its client."""
        return f"http://{self.address}:{self.ports['etcd']}"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.state / "logs" / f"{name}.log"


@dataclass(frozen=True)
class Part:
    """One process. `tool` is its row in tools/table.py, empty for a module of this package."""

    name: str
    tool: str
    command: Callable[[Places], list[str]]
    ready: Callable[[Places], bool]


def _etcd(places: Places) -> list[str]:
    peer = f"http://{places.address}:{places.ports['etcd-peer']}"
    return [
        str(places.binaries["etcd"]),
        f"--data-dir={places.state / 'etcd'}",
        f"--listen-client-urls={places.etcd_url}",
        f"--advertise-client-urls={places.etcd_url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(places: Places) -> list[str]:
    key = places.certificates / "apiserver.key"
    return [
        str(places.binaries["kube-apiserver"]),
        f"--etcd-servers={places.etcd_url}",
        f"--etcd-prefix=/{places.context}",
        f"--cert-dir={places.certificates}",
        f"--bind-address={places.address}",
        f"--secure-port={places.ports['kube-apiserver']}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--authorization-mode=RBAC",
        f"--token-auth-file={places.state / 'tokens.csv'}",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def _controller(name: str, *more: str) -> Callable[[Places], list[str]]:
    def command(places: Places) -> list[str]:
        kubeconfig = places.kubeconfig
        return [
            str(places.binaries[name]),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authentication-skip-lookup",
            "--leader-elect=false",
            f"--bind-address={places.address}",
            f"--secure-port={places.ports[name]}",
            f"--cert-dir={places.state / 'certs' / name}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
            "--profiling=false",
            *more,
        ]

    return command


def _controller_manager(places: Places) -> list[str]:
    key = places.certificates / "apiserver.key"
    command = _controller(
        "kube-controller-manager",
        f"--service-account-private-key-file={key}",
        f"--root-ca-file={places.certificates / 'apiserver.crt'}",
    )
    return command(places)


def _simulated_node(places: Places) -> list[str]:
    return [sys.executable, "-m", "rehearsal.simulated_node", "--kubeconfig", str(places.kubeconfig)]


def _answers(url: str) -> bool:
    # Only "is it up": these ports hold nothing, and each process makes its own certificate.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - loopback health check without secrets
    try:
        with urllib.request.urlopen(url, timeout=PROBE_SECONDS, context=context) as answer:  # noqa: S310 - own URL
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except (OSError, urllib.error.URLError, ValueError):
        return False


def _api_ready(places: Places) -> bool:
    # The API server writes its certificate on start; without it there is nothing to ask yet.
    if not (places.certificates / "apiserver.crt").exists():
        return False
    with Api.from_kubeconfig(places.kubeconfig) as api:
        return api.ready()


def _healthz(name: str) -> Callable[[Places], bool]:
    return lambda places: _answers(f"https://{places.address}:{places.ports[name]}/healthz")


def _node_ready(places: Places) -> bool:
    with Api.from_kubeconfig(places.kubeconfig) as api:
        nodes = api.items("/api/v1/nodes")
    return any(
        row["type"] == "Ready" and row["status"] == "True"
        for node in nodes
        for row in node.get("status", {}).get("conditions", [])
    )


PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part("etcd", "etcd", _etcd, lambda places: _answers(f"{places.etcd_url}/health")),
        Part("kube-apiserver", "kube-apiserver", _api_server, _api_ready),
        Part(
            "kube-controller-manager",
            "kube-controller-manager",
            _controller_manager,
            _healthz("kube-controller-manager"),
        ),
        Part("kube-scheduler", "kube-scheduler", _controller("kube-scheduler"), _healthz("kube-scheduler")),
        Part("simulated-node", "", _simulated_node, _node_ready),
    )
}

# What needs a port of its own; etcd has a second one for peers, which it insists on.
PORTS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def write_access(places: Places) -> None:
    """Write the token file and the kubeconfig, readable by their owner only. A token that is there is kept."""
    tokens = places.state / "tokens.csv"
    if not tokens.exists():
        _write_private(tokens, f'{secrets.token_urlsafe(24)},admin,admin,"system:masters"\n')
    token = tokens.read_text().partition(",")[0]
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": places.context,
        "clusters": [
            {
                "name": places.context,
                "cluster": {
                    "server": places.url,
                    "certificate-authority": str(places.certificates / "apiserver.crt"),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": places.context, "context": {"cluster": places.context, "user": "admin"}}],
    }
    # JSON is YAML: the one format that kubectl, the provider and the standard library all read.
    _write_private(places.kubeconfig, json.dumps(content, indent=1) + "\n")


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
