"""NodePools and EC2NodeClasses."""

from typing import Any

from components.manifests.node_pools import network_interfaces, node_class, node_pool
from components.settings.pools import CpuPool
from tests.unit.manifests.stacks import the_pool

TAGS = {"karpenter.sh/discovery": "test"}


def _node(**changes: Any) -> dict[str, Any]:
    return node_class(the_pool(**changes), "node-role", TAGS, {"team": "a"})["spec"]


def _pool(stack_zones: tuple[str, ...] = (), /, **changes: Any) -> dict[str, Any]:
    return node_pool(the_pool(**changes), stack_zones)["spec"]


def _requirement(spec: dict[str, Any], key: str) -> list[str] | None:
    found = {entry["key"]: entry["values"] for entry in spec["template"]["spec"]["requirements"]}
    return found.get(key)


def test_nodes_come_from_the_pinned_image() -> None:
    """An alias with a version: `latest` would replace GPU nodes at each release."""
    assert _node()["amiSelectorTerms"] == [{"alias": "bottlerocket@v1.64.0"}]


def test_local_disks_become_one() -> None:
    """With localNvme the instance's disks hold images and caches."""
    assert _node()["instanceStorePolicy"] == "RAID0"


def test_the_data_volume_stands_in_for_local_disks() -> None:
    """Without localNvme images lie on /dev/xvdb, which is large, fast and encrypted."""
    spec = _node(localNvme=False)
    expected = {
        "volumeSize": "500Gi", "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True,
        "iops": 10000, "throughput": 1000,
    }  # fmt: skip

    assert "instanceStorePolicy" not in spec
    assert expected == spec["blockDeviceMappings"][1]["ebs"]


def test_every_volume_is_encrypted() -> None:
    """Also the OS's, and the data volume that stays empty beside local disks."""
    volumes = {entry["deviceName"]: entry["ebs"]["encrypted"] for entry in _node()["blockDeviceMappings"]}

    assert volumes == {"/dev/xvda": True, "/dev/xvdb": True}


def test_images_are_pulled_in_parallel() -> None:
    """The user data turns on SOCI, and holds no command that would prepare disks a second time."""
    user_data = _node()["userData"]

    assert 'pull-mode = "parallel-pull-unpack"' in user_data
    assert "ephemeral-storage" not in user_data


def test_pods_do_not_reach_the_nodes_metadata() -> None:
    """One hop and tokens: a pod cannot take the node's role."""
    expected = {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}

    assert expected == _node()["metadataOptions"]


def test_instances_carry_the_stacks_tags() -> None:
    """The provider's default tags do not reach what Karpenter makes."""
    expected = {"team": "a", "app.kubernetes.io/managed-by": "llm-platform", "llm-platform.dev/pool": "g5"}

    assert expected == _node()["tags"]


def test_karpenter_is_told_how_many_pods_fit() -> None:
    """It does not know prefix delegation."""
    assert _node()["kubelet"] == {"maxPods": 110}


def test_a_p4d_has_one_efa_on_each_card() -> None:
    """The primary interface has an address; the four EFA interfaces have none."""
    expected = [
        (0, 0, "interface"),
        (0, 1, "efa-only"),
        (1, 0, "efa-only"),
        (2, 0, "efa-only"),
        (3, 0, "efa-only"),
    ]
    found = [(i["networkCardIndex"], i["deviceIndex"], i["interfaceType"]) for i in network_interfaces(4)]

    assert expected == found


def test_without_efa_interfaces_are_left_alone() -> None:
    """A single-node pool has no networkInterfaces, which would rule out types without EFA."""
    assert "networkInterfaces" not in _node()
    assert "networkInterfaces" in _node(instanceTypes=["p4d.24xlarge"], efa={"interfaces": 4})


def test_reservations_are_named() -> None:
    """Reservations are never taken by chance."""
    assert _node(reservationIds=["cr-0abc1234"])["capacityReservationSelectorTerms"] == [
        {"id": "cr-0abc1234"}
    ]


def test_a_placement_group_is_selected_by_name() -> None:
    """The name is passed through as it comes."""
    spec = node_class(the_pool(), "node-role", TAGS, {}, "pools-placement-g5")["spec"]

    assert spec["placementGroupSelector"] == {"name": "pools-placement-g5"}


def test_waits_by_json_path() -> None:
    """`condition=Ready` may wait for a change that does not come (pulumi-kubernetes #4521)."""
    expected = {"pulumi.com/waitFor": 'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True'}

    assert expected == node_pool(the_pool())["metadata"]["annotations"]


def test_instance_types_are_asked_for_by_the_key_that_restricts() -> None:
    """The bare key instance-type would be a label without effect."""
    assert _requirement(_pool(), "node.kubernetes.io/instance-type") == ["g5.12xlarge"]
    assert _requirement(_pool(), "instance-type") is None


def test_capacity_is_the_pools() -> None:
    """One pool with spot and on-demand falls back by itself."""
    assert _requirement(_pool(capacity=["spot", "on-demand"]), "karpenter.sh/capacity-type") == [
        "spot",
        "on-demand",
    ]


def test_zones_are_the_pools_or_the_stacks() -> None:
    """A pool's own zones win; without any, Karpenter takes all zones of the subnets."""
    key = "topology.kubernetes.io/zone"

    assert _requirement(_pool(("us-west-2b",)), key) == ["us-west-2b"]
    assert _requirement(_pool(("us-west-2b",), zones=["us-west-2a"]), key) == ["us-west-2a"]
    assert _requirement(_pool(), key) is None


def test_the_class_is_named_whole() -> None:
    """NodeClassRef without group and kind is refused by the v1 API."""
    expected = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "g5"}

    assert expected == _pool()["template"]["spec"]["nodeClassRef"]


def test_gpu_nodes_keep_other_pods_off() -> None:
    """The taint stands on GPU nodes."""
    expected = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]

    assert expected == _pool()["template"]["spec"]["taints"]


def test_the_s3_driver_starts_before_pods() -> None:
    """As a startup taint, which Karpenter expects to go; a plain one would make it loop."""
    expected = [{"key": "s3.csi.aws.com/agent-not-ready", "effect": "NoExecute"}]

    assert expected == _pool()["template"]["spec"]["startupTaints"]


def test_only_empty_nodes_are_taken_away() -> None:
    """A GPU node in use is never moved to save money."""
    expected = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m", "budgets": [{"nodes": "1"}]}

    assert expected == _pool()["disruption"]


def test_a_budget_keeps_its_window() -> None:
    """Schedule, duration and reasons are passed on together."""
    window = {"nodes": "0", "schedule": "0 15 * * 1-5", "duration": "9h", "reasons": ["Drifted"]}

    assert _pool(disruption={"budgets": [window]})["disruption"]["budgets"] == [window]


def test_growth_and_drain_are_bounded() -> None:
    """Limits, expiry and the longest drain are always there."""
    spec = _pool(limits={"gpus": 8, "cpu": "96"})

    assert spec["limits"] == {"nvidia.com/gpu": "8", "cpu": "96"}
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert spec["template"]["spec"]["terminationGracePeriod"] == "15m"


def test_weight_stands_only_where_asked() -> None:
    """Without a weight the pools are equal."""
    assert "weight" not in _pool()
    assert _pool(weight=100)["weight"] == 100


def test_the_cpu_pool_is_on_demand_and_open() -> None:
    """Heads are not lost to spot, and the CPU pool has no GPU taint."""
    pool = node_pool(CpuPool())

    assert pool["metadata"]["name"] == "serving-cpu"
    assert _requirement(pool["spec"], "karpenter.sh/capacity-type") == ["on-demand"]
    assert "taints" not in pool["spec"]["template"]["spec"]
    assert pool["spec"]["limits"] == {"cpu": "64", "memory": "256Gi"}
