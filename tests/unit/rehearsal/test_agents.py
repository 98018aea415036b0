"""What the agents of a cluster do, on a stand-in for the API server that keeps nodes."""

from __future__ import annotations

from typing import Any

import pytest

from components.facts.instance_types import INSTANCE_TYPES
from rehearsal import agents
from rehearsal.agents import World, devices, system_node

TAINT = {"key": "s3.csi.aws.com/agent-not-ready", "effect": "NoExecute"}
GPU = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
READY = [{"type": "Ready", "status": "True"}]
GROUP = {
    "nodegroupName": "Nodes",
    "labels": {"llm-platform.dev/workload": "system"},
    "instanceTypes": ["m6i.xlarge"],
    "scalingConfig": {"desiredSize": 2},
    "zones": ["us-west-2a", "us-west-2b"],
}


class Nodes:
    """Keeps nodes by name and takes the calls that agents make."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}

    def items(self, path: str) -> list[dict[str, Any]]:
        """All nodes."""
        assert path == "/api/v1/nodes"
        return list(self.nodes.values())

    def request(self, method: str, path: str, body: Any, _kind: str) -> dict[str, Any]:
        """A merge patch of the spec."""
        assert method == "PATCH"
        node = self.nodes[path.rpartition("/")[2]]
        assert body["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"]
        node["spec"] |= body["spec"]
        return node

    def patch_status(self, path: str, status: Any) -> None:
        """A merge patch of the status."""
        have = self.nodes[path.rpartition("/")[2]].setdefault("status", {})
        for key, value in status.items():
            have[key] = {**have.get(key, {}), **value} if isinstance(value, dict) else value

    def apply(self, node: dict[str, Any]) -> None:
        """Make a node."""
        self.nodes[node["metadata"]["name"]] = {**node}

    def delete(self, path: str) -> None:
        """Take a node away."""
        del self.nodes[path.rpartition("/")[2]]


def node(*, conditions: list[dict[str, str]], kind: str = "g5.12xlarge", **status: Any) -> dict[str, Any]:
    """A node with both taints."""
    return {
        "metadata": {
            "name": "a",
            "resourceVersion": "7",
            "labels": {"node.kubernetes.io/instance-type": kind},
        },
        "spec": {"taints": [GPU, TAINT]},
        "status": {"conditions": conditions, **status},
    }


def world(nodes: Nodes) -> World:
    """What the agents see."""
    return World(nodes)  # type: ignore[arg-type]  # only the calls above are made


@pytest.mark.parametrize(("conditions", "left"), [(READY, [GPU]), ([], [GPU, TAINT])])
def test_the_storage_agents_taint_goes_with_readiness(
    conditions: list[dict[str, str]], left: list[dict[str, str]]
) -> None:
    """Only the taint of the S3 CSI driver is taken away, and only from a node that is Ready."""
    nodes = Nodes(node(conditions=conditions))
    agents._storage_agent(world(nodes))

    assert nodes.nodes["a"]["spec"]["taints"] == left


def test_devices_appear_where_they_are_missing() -> None:
    """GPUs of the instance type are reported once; what a node shows already stays as it is."""
    nodes = Nodes(node(conditions=READY, allocatable={"cpu": "47"}))
    agents._device_plugins(world(nodes))
    assert nodes.nodes["a"]["status"]["allocatable"] == {
        "cpu": "47",
        "nvidia.com/gpu": "4",
        "vpc.amazonaws.com/efa": "1",
    }

    shown = Nodes(node(conditions=READY, allocatable={"nvidia.com/gpu": "3", "vpc.amazonaws.com/efa": "1"}))
    agents._device_plugins(world(shown))
    assert shown.nodes["a"]["status"]["allocatable"]["nvidia.com/gpu"] == "3"


def test_system_nodes_come_and_go_with_their_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A managed node group has as many nodes as it wants, with its labels; without the group they are gone."""
    groups = [GROUP]
    monkeypatch.setattr(agents, "_groups", lambda _cloud: iter(groups))
    other = node(conditions=READY)
    nodes = Nodes(other)
    agents._node_groups(world(nodes))

    made = sorted(nodes.nodes.keys() - {"a"})
    assert made == ["nodes-0.system.invalid", "nodes-1.system.invalid"]
    labels = [nodes.nodes[name]["metadata"]["labels"] for name in made]
    assert [row["topology.kubernetes.io/zone"] for row in labels] == ["us-west-2a", "us-west-2b"]
    assert {row["llm-platform.dev/workload"] for row in labels} == {"system"}
    groups.clear()
    agents._node_groups(world(nodes))
    assert nodes.nodes == {"a": other}


def test_a_system_node_is_as_large_as_its_type() -> None:
    """Capacity is the instance type's, and kwok is asked to keep the node Ready."""
    made = system_node("n", GROUP, INSTANCE_TYPES["m6i.xlarge"], "us-west-2a")

    assert made["status"]["capacity"]["cpu"] == "4"
    assert made["status"]["capacity"]["memory"] == "16Gi"
    assert made["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert devices(INSTANCE_TYPES["m6i.xlarge"]) == {}
