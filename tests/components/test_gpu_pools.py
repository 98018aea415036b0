"""Pools of nodes."""

from pathlib import Path
from typing import Any

import pulumi

from components.gpu_pools import GpuPools, GpuPoolsArgs
from preview.monitor import program_file, run
from tests.components.infra import STACK, Graph, once, registered, settings

ROOT = Path(__file__).resolve().parents[2]
TIGHT = {"name": "p4d", "instanceTypes": ["p4d.24xlarge"], "limits": {"gpus": 16}, "placementGroup": True}


@once
def pools(**changes: Any) -> Graph:
    """What the pools register, with some of the stack's settings changed."""
    wanted = settings(STACK, **changes)

    def program() -> None:
        made = GpuPools(
            "pools", GpuPoolsArgs.of(wanted, node_role="node-role", discovery_tags={"found": "by"})
        )
        pulumi.export("names", made.names)

    return registered(program)


def test_makes_a_class_and_a_pool_each() -> None:
    """One pair for the GPU pool, one for heads and ingress."""
    expected = [
        "pools",
        "pools-node-class-g5",
        "pools-node-class-serving-cpu",
        "pools-node-pool-g5",
        "pools-node-pool-serving-cpu",
    ]

    assert expected == pools().names()
    assert pools().outputs["names"] == ["serving-cpu", "g5"]


def test_a_pool_goes_before_its_class() -> None:
    """Nodes are taken away while Karpenter still knows how they were made."""
    assert "pools-node-class-g5" in pools().outlived_by("pools-node-pool-g5")


def test_deleting_a_pool_waits_for_its_nodes_to_drain() -> None:
    """15 minutes of grace, and ten for EC2."""
    assert pools()["pools-node-pool-g5"].request.customTimeouts.delete == "25m"


def test_nodes_are_made_as_the_caller_says() -> None:
    """Role, tags and zones come from outside."""
    spec = pools().inputs("pools-node-class-g5")["spec"]
    requirements = {
        entry["key"]: entry["values"]
        for entry in pools().inputs("pools-node-pool-g5")["spec"]["template"]["spec"]["requirements"]
    }

    assert spec["role"] == "node-role"
    assert spec["subnetSelectorTerms"] == spec["securityGroupSelectorTerms"] == [{"tags": {"found": "by"}}]
    assert spec["tags"]["team"] == "ml"
    assert requirements["topology.kubernetes.io/zone"] == ["us-west-2a", "us-west-2b"]


def test_a_placement_group_is_made_where_asked() -> None:
    """Nodes of the pool are placed close together, those of others are not."""
    graph = pools(gpuPools=[*STACK["gpuPools"], TIGHT])

    assert graph.inputs("pools-placement-p4d") == {"strategy": "cluster"}
    assert "pools-placement-p4d" in graph.dependencies("pools-node-class-p4d")
    assert "placementGroupSelector" not in graph.inputs("pools-node-class-g5")["spec"]


def test_no_cpu_pool_where_nodes_are_there() -> None:
    """An existing cluster may bring its own."""
    wanted = settings(STACK)
    args = GpuPoolsArgs(
        gpu_pools=wanted.gpu_pools, cpu_pool=None, node_role="r", discovery_tags={"found": "by"}
    )
    graph = registered(lambda: GpuPools("pools", args))

    assert graph.names() == ["pools", "pools-node-class-g5", "pools-node-pool-g5"]


def test_example_runs_by_itself() -> None:
    """The example makes two pools on a cluster that is there, and nothing in AWS."""
    example = ROOT / "examples" / "gpu-pools"
    monitor = run(program_file(example / "__main__.py"), "test", {}, project="gpu-pools")
    types = sorted(registration.type for registration in monitor.registrations)

    assert types == [
        "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
        "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
        "kubernetes:karpenter.sh/v1:NodePool",
        "kubernetes:karpenter.sh/v1:NodePool",
        "llm:platform:GpuPools",
        "pulumi:providers:kubernetes",
    ]
    assert monitor.outputs["pools"] == ["g5", "l4"]
