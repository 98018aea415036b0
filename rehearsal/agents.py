"""Who does the agents' work in a rehearsal of a stack that makes its cluster: one row for each whose part is played.

On AWS these run on every node, or are AWS itself. Karpenter, KubeRay and the scheduler are real there and wait for
them: a node with a startup taint takes no pod, and operators live on nodes that Karpenter does not make.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from botocore.exceptions import BotoCoreError

from components import conventions
from components.facts.instance_types import INSTANCE_TYPES, MAX_PODS, InstanceType
from rehearsal.api import MERGE, Api, Manifest
from rehearsal.aws.cloud import AwsError, Cloud, Held
from rehearsal.aws.row import Call
from rehearsal.errors import ApiError, ApiUnreachableError
from rehearsal.simulated_node import ADDRESS, now
from rehearsal.simulated_operators import KARPENTER, KUBERAY, play_operators, simulated_names
from tools import terminal

POLL_SECONDS = 0.5
NODES = "/api/v1/nodes"
GROUP_LABEL = "eks.amazonaws.com/nodegroup"
# kwok keeps nodes with it Ready, as it does those that Karpenter makes here.
FAKE = {"kwok.x-k8s.io/node": "fake"}
REAL = frozenset({KUBERAY, KARPENTER})
RESERVED_GIB = 1.0  # of a node's memory, for its system


@dataclass
class World:
    """What the agents see: the API server, the AWS account if there is one, and the operators that are real."""

    api: Api
    cloud: Cloud | None = None
    real: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Agent:
    """Whose part is played, and one pass of it."""

    plays: str
    turn: Callable[[World], None]


def is_ready(node: Manifest) -> bool:
    """Whether a kubelet, or kwok in its place, says that the node is well."""
    conditions = node.get("status", {}).get("conditions") or []
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


def _storage_agent(world: World) -> None:
    """Take the startup taint of the S3 CSI driver away from nodes that are Ready, as its agent does when it runs."""
    for node in world.api.items(NODES):
        taints = node["spec"].get("taints") or []
        kept = [row for row in taints if row["key"] != conventions.S3_CSI_STARTUP_TAINT]
        if len(kept) < len(taints) and is_ready(node):
            # The version makes the server refuse it if someone has changed the taints meanwhile.
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            body = {"metadata": metadata, "spec": {"taints": kept}}
            world.api.request("PATCH", f"{NODES}/{node['metadata']['name']}", body, MERGE)


def _device_plugins(world: World) -> None:
    """Report GPUs and EFA interfaces of nodes whose instance type has some and which do not show them yet."""
    for node in world.api.items(NODES):
        labels = node["metadata"].get("labels") or {}
        kind = INSTANCE_TYPES.get(labels.get(conventions.INSTANCE_TYPE_LABEL, ""))
        shown = node.get("status", {}).get("allocatable") or {}
        missing = (
            {name: amount for name, amount in devices(kind).items() if name not in shown} if kind else {}
        )
        if missing and is_ready(node):
            path = f"{NODES}/{node['metadata']['name']}"
            world.api.patch_status(path, {"capacity": missing, "allocatable": missing})


def devices(kind: InstanceType) -> dict[str, str]:
    """What device plugins report of an instance type."""
    found = {conventions.GPU_RESOURCE: kind.gpus, conventions.EFA_RESOURCE: kind.efa_interfaces}
    return {name: str(number) for name, number in found.items() if number}


def _node_groups(world: World) -> None:
    """Make the nodes of the cluster's managed node groups, and take them away with their group."""
    wanted = dict(_group_nodes(world))
    there = {
        node["metadata"]["name"]
        for node in world.api.items(NODES)
        if GROUP_LABEL in (node["metadata"].get("labels") or {})
    }
    for name in wanted.keys() - there:
        node = wanted[name]
        world.api.apply({**node, "status": {}})
        world.api.patch_status(f"{NODES}/{name}", node["status"])
    for name in there - wanted.keys():
        world.api.delete(f"{NODES}/{name}")


def _group_nodes(world: World) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in _groups(world.cloud):
        kind = INSTANCE_TYPES[group["instanceTypes"][0]]
        zones = group["zones"] or ["a"]
        for index in range(group["scalingConfig"]["desiredSize"]):
            name = f"{group['nodegroupName']}-{index}.system.invalid".lower()
            yield name, system_node(name, group, kind, zones[index % len(zones)])


def _groups(cloud: Cloud | None) -> Iterator[dict[str, Any]]:
    if cloud is None:
        return
    for cluster in cloud.call(Call("eks.list_clusters", answer="clusters"), {}) or ():
        names = Call("eks.list_nodegroups", {"clusterName": cluster}, "nodegroups")
        for name in cloud.call(names, {}) or ():
            which = {"clusterName": cluster, "nodegroupName": name}
            group = cloud.call(Call("eks.describe_nodegroup", which, "nodegroup"), {})
            subnets = Call(
                "ec2.describe_subnets", {"SubnetIds": group["subnets"]}, "sort(Subnets[].AvailabilityZone)"
            )
            yield {**group, "zones": cloud.call(subnets, {})}


def system_node(name: str, group: Mapping[str, Any], kind: InstanceType, zone: str) -> dict[str, Any]:
    """A node of a managed group, as EKS joins it to the cluster."""
    capacity = {
        "cpu": str(kind.vcpus),
        "memory": f"{kind.memory_gib}Gi",
        "ephemeral-storage": "100Gi",
        "pods": str(MAX_PODS),
        **devices(kind),
    }
    free = {**capacity, "cpu": f"{kind.vcpus * 1000 - 100}m", "memory": f"{kind.memory_gib - RESERVED_GIB}Gi"}
    taints = [
        {"key": row["key"], "effect": "NoSchedule", **({"value": row["value"]} if row.get("value") else {})}
        for row in group.get("taints") or ()
    ]
    labels = {
        **(group.get("labels") or {}),
        GROUP_LABEL: group["nodegroupName"],
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        conventions.INSTANCE_TYPE_LABEL: kind.name,
        conventions.ZONE_LABEL: zone,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": FAKE},
        "spec": {"taints": taints},
        "status": {
            "capacity": capacity,
            "allocatable": free,
            "addresses": [{"type": "InternalIP", "address": ADDRESS}, {"type": "Hostname", "address": name}],
        },
    }


AGENTS: tuple[Agent, ...] = (
    Agent("operators that do not run", lambda world: play_operators(world.api, world.real)),
    Agent("S3 CSI driver's agent", _storage_agent),
    Agent("EKS managed node groups", _node_groups),
    Agent("device plugins of NVIDIA and EFA", _device_plugins),
)


def played(real: Collection[str] = REAL) -> list[str]:
    """Whose parts are played where some operators run, for people."""
    return [*simulated_names(real), *(row.plays for row in AGENTS[1:])]


def turn(world: World) -> None:
    """One pass of every agent. What one could not do (a conflict, a restart), its next pass does."""
    for agent in AGENTS:
        try:
            agent.turn(world)
        except (ApiError, ApiUnreachableError, AwsError, BotoCoreError) as error:
            terminal.say(f"{agent.plays}: {error}", now())


def main() -> int:
    """Take turns until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--simulated", action="store_true", help="neither KubeRay nor Karpenter runs")
    parser.add_argument("--endpoint", help="where AWS is served; without it there are no managed node groups")
    parser.add_argument("--account", default="")
    parser.add_argument("--region", default="us-west-2")
    arguments = parser.parse_args()
    stopped: list[bool] = []

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.append(True)

    signal.signal(signal.SIGTERM, ask_to_stop)
    nowhere = Held(Path())  # node groups are moto's; nothing that the stand-in keeps is needed
    cloud = (
        Cloud(arguments.endpoint, arguments.region, nowhere, arguments.account)
        if arguments.endpoint
        else None
    )
    real = frozenset() if arguments.simulated else REAL
    world = World(Api.from_kubeconfig(arguments.kubeconfig), cloud, real)
    while not stopped:
        turn(world)
        time.sleep(POLL_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
