"""The processes of the embedded control plane, one row each: their command, and how one sees that they are ready.

Flags that do not explain themselves: `--unsafe-no-fsync` because nothing here outlives the machine; the ServiceAccount
admission is off because no controller would make the default account where only the API server runs; leader election
is off because there is one of each.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rehearsal import operator_parts
from rehearsal.api import Api
from rehearsal.places import SERVER_NAME, Part, Places
from rehearsal.probes import answers, healthz
from rehearsal.simulated_operators import KARPENTER, KUBERAY

CONTEXT = "rehearsal"
# Parts that run an operator, which the simulated node then does not play.
REAL_OPERATORS = {"kuberay": KUBERAY, "karpenter": KARPENTER}
SERVICE_RANGE = "10.96.0.0/16"

API_ONLY = ("etcd", "kube-apiserver")
CONTROLLED = (*API_ONLY, "kube-controller-manager", "kube-scheduler")
CLUSTER = (*CONTROLLED, "simulated-node")
# A cluster whose Ray pods run as processes.
LIVE = (*CLUSTER, "kubelet", "kuberay")
# The same with AWS under it: nodes come from Karpenter, and what has no local environment is simulated by kwok.
CLOUD = (*CONTROLLED, "moto", "prices", "kwok", "agents", "kubelet", "kuberay", "karpenter")


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
        kubeconfig = places.kubeconfig_inside
        return [
            str(places.binaries[name]),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--authentication-skip-lookup",
            "--leader-elect=false",
            f"--bind-address={places.address}",
            f"--secure-port={places.ports[name]}",
            f"--cert-dir={places.certificates / name}",
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
    real = [f"--real={name}" for part, name in REAL_OPERATORS.items() if part in places.parts]
    leave = ["--leave-process-pods"] if "kubelet" in places.parts else []
    module = [sys.executable, "-m", "rehearsal.simulated_node"]
    return [*module, f"--kubeconfig={places.kubeconfig_inside}", *leave, *real]


def _api_ready(places: Places) -> bool:
    # The API server writes its certificate on start; without it there is nothing to ask yet.
    if not (places.certificates / "apiserver.crt").exists():
        return False
    with Api.from_kubeconfig(places.kubeconfig_inside) as api:
        return api.ready()


def _node_ready(places: Places) -> bool:
    with Api.from_kubeconfig(places.kubeconfig_inside) as api:
        nodes = api.items("/api/v1/nodes")
    return any(
        row["type"] == "Ready" and row["status"] == "True"
        for node in nodes
        for row in node.get("status", {}).get("conditions", [])
    )


PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part("etcd", "etcd", _etcd, lambda places: answers(f"{places.etcd_url}/health")),
        Part("kube-apiserver", "kube-apiserver", _api_server, _api_ready),
        Part(
            "kube-controller-manager",
            "kube-controller-manager",
            _controller_manager,
            healthz("kube-controller-manager"),
        ),
        Part("kube-scheduler", "kube-scheduler", _controller("kube-scheduler"), healthz("kube-scheduler")),
        Part("simulated-node", "", _simulated_node, _node_ready),
        *operator_parts.PARTS,
    )
}

# What needs a port of its own; etcd has a second one for peers, which it insists on.
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    *operator_parts.PORTS,
)
# Ended after the others, which write to them, and one after the other.
STOPPED_LAST = ("kube-apiserver", "etcd")
# Ports that someone outside of a namespace wants to reach.
DOORS = ("kube-apiserver", "moto")


def write_access(places: Places) -> None:
    """Write the token file and the kubeconfigs, readable by their owner only. A token that is there is kept."""
    tokens = places.state / "tokens.csv"
    if not tokens.exists():
        _write_private(tokens, f'{secrets.token_urlsafe(24)},admin,admin,"system:masters"\n')
    token = tokens.read_text().partition(",")[0]
    # JSON is YAML: the one format that kubectl, the provider and the standard library all read.
    for path, url in (
        (places.kubeconfig, places.url),
        (places.kubeconfig_inside, places.inside("kube-apiserver", "https")),
    ):
        _write_private(path, json.dumps(_kubeconfig(places, url, token), indent=1) + "\n")


def _kubeconfig(places: Places, url: str, token: str) -> dict[str, Any]:
    cluster = {
        "server": url,
        "certificate-authority": str(places.certificates / "apiserver.crt"),
        # The certificate is made for the address inside, which a door does not have.
        **({"tls-server-name": SERVER_NAME} if places.doors else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": places.context,
        "clusters": [{"name": places.context, "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": places.context, "context": {"cluster": places.context, "user": "admin"}}],
    }


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
