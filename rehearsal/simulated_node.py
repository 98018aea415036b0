"""Simulated nodes and a simulated kubelet: bound pods become Running and Ready, or Succeeded, without any process.

Without it no Deployment rolls out and no Job completes, so the Kubernetes provider would wait for ever. Nothing of a
pod is executed: images are not pulled, probes are not asked, GPUs do not exist. Names hold the word "simulated", so
that nobody takes `kubectl get nodes` for more than it is. What an operator of a real cluster would report about its
own kinds is in `simulated_operators.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from rehearsal.api import Api, Manifest
from rehearsal.errors import ApiError, ApiUnreachableError
from rehearsal.kubelet.images import runs_here
from rehearsal.simulated_operators import play_operators
from tools import terminal

NODE_PREFIX = "simulated-node"
POLL_SECONDS = 0.4
HEARTBEAT_SECONDS = 8.0
# Enough of everything: the node stands for all nodes of a stack, so its size decides nothing.
CAPACITY = {
    "cpu": "10000",
    "memory": "100Ti",
    "ephemeral-storage": "1000Ti",
    "hugepages-2Mi": "1Ti",
    "pods": "5000",
    "nvidia.com/gpu": "1000",
    "vpc.amazonaws.com/efa": "1000",
}
ADDRESS = "192.0.2.10"  # of the range that is kept for documentation: it leads nowhere
ZONE = "simulated-1a"
JOB_LABEL = "batch.kubernetes.io/job-name"  # on every pod of a Job


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, status: str = "True", reason: str = "Simulated") -> dict[str, str]:
    """One status condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "simulated",
        "lastTransitionTime": now(),
    }


def wanted_labels(pod: Manifest) -> dict[str, str]:
    """The labels that a node must have for a pod: its node selector and the first of its required affinity terms."""
    spec = pod["spec"]
    labels = dict(spec.get("nodeSelector") or {})
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    for row in (required.get("nodeSelectorTerms") or [{}])[0].get("matchExpressions", []):
        if row["operator"] in ("In", "Exists"):
            labels.setdefault(row["key"], (row.get("values") or ["simulated"])[0])
    return labels


def node_name(labels: Mapping[str, str]) -> str:
    """The name of the simulated node with these labels; the plain one for none."""
    if not labels:
        return NODE_PREFIX
    text = json.dumps(labels, sort_keys=True).encode()
    return f"{NODE_PREFIX}-{hashlib.sha256(text).hexdigest()[:8]}"


def node_manifest(labels: Mapping[str, str]) -> dict[str, Any]:
    """A node object, with labels that pods may select by."""
    name = node_name(labels)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": ZONE,
                **labels,
            },
        },
    }


def node_status(name: str) -> dict[str, Any]:
    """What a kubelet reports about its node."""
    beat = now()
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [condition("Ready"), *(condition(kind, "False") for kind in pressures)]
    return {
        "capacity": CAPACITY,
        "allocatable": CAPACITY,
        "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": name}],
        "conditions": [{**row, "lastHeartbeatTime": beat} for row in conditions],
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": "v1.36.3-simulated",
            "kernelVersion": "simulated", "osImage": "simulated", "containerRuntimeVersion": "simulated://0",
            "kubeProxyVersion": "", "machineID": "", "systemUUID": "", "bootID": "",
        },
    }  # fmt: skip


def pod_status(pod: Manifest, address: str) -> dict[str, Any]:
    """The status of a bound pod: a Job's has succeeded, any other is running and ready.

    The restart policy says nothing: KubeRay's pods with an autoscaler have `Never`, and run for ever.
    """
    spec = pod["spec"]
    ends = JOB_LABEL in (pod["metadata"].get("labels") or {})
    time_text = now()
    done = {
        "terminated": {"exitCode": 0, "reason": "Completed", "startedAt": time_text, "finishedAt": time_text}
    }
    active = {"running": {"startedAt": time_text}}
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Succeeded" if ends else "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": ADDRESS,
        "startTime": time_text,
        "conditions": [condition(kind, "False" if ends and "Ready" in kind else "True") for kind in kinds],
        "initContainerStatuses": [
            _container(row, active if row.get("restartPolicy") == "Always" and not ends else done)
            for row in spec.get("initContainers", [])
        ],
        "containerStatuses": [_container(row, done if ends else active) for row in spec["containers"]],
    }


def _container(container: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "simulated",
        "containerID": f"simulated://{container['name']}",
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "state": dict(state),
    }


class SimulatedNodes:
    """The loop of the simulated kubelets against one API server: one node for each set of labels that pods ask for."""

    def __init__(self, api: Api, *, leave_process_pods: bool = False, real: Collection[str] = ()) -> None:
        """Take the API, whether pods with a local environment are a real kubelet's, and the operators that run.

        The plain node without wishes is always there.
        """
        self.api = api
        self.leave_process_pods = leave_process_pods
        self.real = frozenset(real)
        self.nodes: dict[str, dict[str, str]] = {node_name({}): {}}
        self.next_address = 2
        self.last_beat: dict[str, float] = {}

    def turn(self) -> None:
        """One pass: every pod, then heartbeats when due, then the operators' kinds."""
        for pod in self.api.items("/api/v1/pods"):
            node = pod["spec"].get("nodeName", "")
            if node.startswith(NODE_PREFIX):
                self._pod(pod)
            elif not node:
                labels = wanted_labels(pod)
                self.nodes.setdefault(node_name(labels), labels)
        for name, labels in self.nodes.items():
            if time.monotonic() - self.last_beat.get(name, -HEARTBEAT_SECONDS) >= HEARTBEAT_SECONDS:
                self._beat(name, labels)
        play_operators(self.api, self.real)

    def _beat(self, name: str, labels: Mapping[str, str]) -> None:
        self.api.apply(node_manifest(labels))
        self.api.patch_status(f"/api/v1/nodes/{name}", node_status(name))
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": 60,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }
        self.api.apply(lease)
        self.last_beat[name] = time.monotonic()

    def _pod(self, pod: Manifest) -> None:
        if self.leave_process_pods and runs_here(pod):
            return
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            # The API server waits for the kubelet's word that the containers are gone.
            self.api.delete(path, grace_seconds=0)
        elif pod.get("status", {}).get("phase") == "Pending":
            self.api.patch_status(path, pod_status(pod, self._address()))

    def _address(self) -> str:
        number = self.next_address
        self.next_address = number % 65000 + 1
        return f"10.244.{number // 250}.{number % 250 + 1}"


def run(nodes: SimulatedNodes, stopped: list[bool]) -> None:
    """Take turns until asked to stop. What one turn could not do (a conflict, a restart), the next one does."""
    while not stopped:
        try:
            nodes.turn()
        except (ApiError, ApiUnreachableError) as error:
            terminal.say(str(error), now())
        time.sleep(POLL_SECONDS)


def main() -> int:
    """Run the simulated node until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--leave-process-pods", action="store_true", help="a kubelet runs those it can")
    parser.add_argument("--real", action="append", default=[], metavar="OPERATOR", help="it runs by itself")
    arguments = parser.parse_args()
    stopped: list[bool] = []

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.append(True)

    signal.signal(signal.SIGTERM, ask_to_stop)
    nodes = SimulatedNodes(
        Api.from_kubeconfig(arguments.kubeconfig),
        leave_process_pods=arguments.leave_process_pods,
        real=arguments.real,
    )
    run(nodes, stopped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
