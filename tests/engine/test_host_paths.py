"""The admission policy of a namespace with a cache on its nodes, judged by the real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest

from components.manifests import base
from rehearsal.api import Api
from rehearsal.control_plane import ControlPlane
from tests.unit.manifests.stacks import model, platform

pytestmark = pytest.mark.server
STACK = platform(models=[model(loader="nvmeCache")])


def _pod(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    image = {"name": "a", "image": "a:1"}
    body = {"automountServiceAccountToken": False, "containers": [{**image, **container}], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": STACK.namespace},
        "spec": body,
    }


def _security(**context: Any) -> dict[str, Any]:
    return {"securityContext": context}


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Api:
    """A server that has the namespace and the policy, and has begun to apply it."""
    for manifest in (base.namespaces(STACK)[0], *base.host_path_guard(STACK)):
        plane.api.apply(manifest)
    end = time.monotonic() + 30
    while _refusal(plane.api, _pod({}, hostNetwork=True)) is None:
        assert time.monotonic() < end, "the server never applied the policy"
        time.sleep(0.2)
    return plane.api


def _refusal(api: Api, pod: dict[str, Any]) -> str | None:
    return "; ".join(api.dry_run(pod)) or None


CACHE = {"name": "cache", "hostPath": {"path": "/mnt/.ephemeral/models/llama"}}


@pytest.mark.parametrize(
    "pod",
    [
        _pod({}),
        _pod({"ports": [{"containerPort": 8000}]}, volumes=[CACHE]),
        _pod(_security(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]}, procMount="Default")),
        _pod(
            _security(seccompProfile={"type": "RuntimeDefault"}, seLinuxOptions={"type": "container_t"}),
            securityContext={
                "runAsUser": 1000,
                "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
                "seccompProfile": {"type": "RuntimeDefault"},
                "seLinuxOptions": {"level": "s0:c1,c2"},
            },
        ),
    ],
)
def test_pods_of_ours_are_taken(api: Api, pod: dict[str, Any]) -> None:
    """The cache's folder, and what the level baseline lets through."""
    assert _refusal(api, pod) is None


PORT = "takes no port of the node"
CONFINED = "keeps the confinement of its container runtime"


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (_pod({}, volumes=[{"name": "a", "hostPath": {"path": "/mnt/.ephemeral/modelsx"}}]), "mounts nothing of the node"),
        (_pod({}, hostPID=True), "shares no namespace of the node"),
        (_pod(_security(privileged=True)), "is not privileged"),
        (_pod(_security(capabilities={"add": ["SYS_ADMIN"]})), "is not privileged"),
        (_pod({}, initContainers=[{"name": "b", "image": "b:1", **_security(privileged=True)}]), "is not privileged"),
        (_pod(_security(procMount="Unmasked"), hostUsers=False), "is not privileged"),
        (_pod({"ports": [{"containerPort": 8000, "hostPort": 8000}]}), PORT),
        (_pod(_security(seLinuxOptions={"type": "spc_t"})), CONFINED),
        (_pod(_security(seLinuxOptions={"user": "system_u"})), CONFINED),
        (_pod({}, securityContext={"seLinuxOptions": {"role": "system_r"}}), CONFINED),
        (_pod({}, securityContext={"seccompProfile": {"type": "Unconfined"}}), CONFINED),
        (_pod(_security(seccompProfile={"type": "Unconfined"})), CONFINED),
        (_pod(_security(appArmorProfile={"type": "Unconfined"})), CONFINED),
        (_pod({}, securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}), "sets only sysctls"),
    ],
)  # fmt: skip
def test_what_baseline_refuses_is_refused(api: Api, pod: dict[str, Any], words: str) -> None:
    """Every control of the level that a namespace at level privileged would open again."""
    assert words in (_refusal(api, pod) or "")
