"""Karpenter's NodePools and the EC2NodeClasses they start nodes from, one pair a pool.

Field rules: CRDs of Karpenter 1.14.1 (karpenter.sh/v1, karpenter.k8s.aws/v1). Deliberately absent: own bootstrap
commands for the NVMe disks (karpenter-provider-aws #8562), the device plugin (in Bottlerocket's NVIDIA variants), and
`amiFamily`, which the alias tells.
"""

from collections.abc import Mapping
from typing import Any

from components import conventions
from components.manifests.placement import GPU_TAINT, AnyPool, pool_labels, pool_name
from components.settings.pools import Budget, Capacity, GpuPool

Manifest = dict[str, Any]

# Parallel pull and unpack of images: 9 GB in 23 s instead of 131 s on Bottlerocket 1.44 and later (karpenter-blueprints,
# soci-snapshotter). The registry must answer range requests, as ECR and Docker Hub do.
SOCI_USER_DATA = """\
[settings.container-runtime]
snapshotter = "soci"

[settings.container-runtime-plugins.soci-snapshotter]
pull-mode = "parallel-pull-unpack"

[settings.container-runtime-plugins.soci-snapshotter.parallel-pull-unpack]
max-concurrent-downloads-per-image = 20
concurrent-download-chunk-size = "16mb"
max-concurrent-unpacks-per-image = 12
discard-unpacked-layers = true
"""

# Pulumi waits until Karpenter has found image, subnets, security group and role. By JSONPath and not by condition=Ready,
# which waits for a change that does not come where the object was ready before (pulumi-kubernetes #4521).
_WAIT = {"pulumi.com/waitFor": 'jsonpath={.status.conditions[?(@.type=="Ready")].status}=True'}

_OS_VOLUME_SIZE = "4Gi"  # Bottlerocket's own size of /dev/xvda
# With RAID0 nothing large lies on /dev/xvdb. It is named because the AMI makes it anyway, and then unencrypted.
_UNUSED_DATA_VOLUME_SIZE = "20Gi"


def node_class(
    pool: AnyPool,
    node_role: Any,
    discovery_tags: Mapping[str, str],
    tags: Mapping[str, str],
    placement_group: Any | None = None,
) -> Manifest:
    """How a pool's nodes are made. ``node_role`` and ``placement_group`` (a name) may be Outputs."""
    spec: Manifest = {
        "role": node_role,
        "amiSelectorTerms": [{"alias": pool.ami_alias}],
        "subnetSelectorTerms": [{"tags": dict(discovery_tags)}],
        "securityGroupSelectorTerms": [{"tags": dict(discovery_tags)}],
        "kubelet": {"maxPods": pool.max_pods},
        "userData": SOCI_USER_DATA,
        # One hop: pods cannot take the node's role from the metadata service.
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
        },
        "blockDeviceMappings": _volumes(pool),
        "tags": {
            **tags,
            conventions.MANAGED_BY_LABEL: conventions.PROJECT,
            conventions.POOL_LABEL: pool_name(pool),
        },
    }
    if isinstance(pool, GpuPool):
        spec |= _gpu_node(pool)
    if placement_group is not None:
        spec["placementGroupSelector"] = {"name": placement_group}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": _metadata(pool),
        "spec": spec,
    }


def _gpu_node(pool: GpuPool) -> Manifest:
    """What only GPU nodes have."""
    reservations = [{"id": name} for name in pool.reservation_ids]
    return {
        **({"instanceStorePolicy": "RAID0"} if pool.local_nvme else {}),
        **({"networkInterfaces": network_interfaces(pool.efa.interfaces)} if pool.efa else {}),
        **({"capacityReservationSelectorTerms": reservations} if reservations else {}),
    }


def node_pool(pool: AnyPool, zones: tuple[str, ...] = ()) -> Manifest:
    """Which nodes may be started for a pool, and when they go. ``zones``: the stack's, used where the pool names none."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": _metadata(pool),
        "spec": {
            **({"weight": pool.weight} if isinstance(pool, GpuPool) and pool.weight else {}),
            "limits": _limits(pool),
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": pool.disruption.consolidate_after,
                "budgets": [_budget(budget) for budget in pool.disruption.budgets],
            },
            "template": {
                "metadata": {"labels": pool_labels(pool)},
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": pool_name(pool),
                    },
                    **({"taints": [dict(GPU_TAINT)]} if isinstance(pool, GpuPool) else {}),
                    # Pods with weights would otherwise start before the driver of their volume.
                    "startupTaints": [{"key": conventions.S3_CSI_STARTUP_TAINT, "effect": "NoExecute"}],
                    "requirements": _requirements(pool, pool.zones or zones),
                    "expireAfter": pool.disruption.expire_after,
                    "terminationGracePeriod": pool.termination_grace_period,
                },
            },
        },
    }


def network_interfaces(count: int) -> list[dict[str, int | str]]:
    """The primary interface, and one EFA without an IP address on each network card.

    The first card already has the primary as its device 0 (EC2 user guide, "efa-acc-inst-types"; never launched). Only
    `efa-only`: an `efa` interface takes addresses, and a p5 with 32 of them can drain a subnet.
    """
    primary: dict[str, int | str] = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    efa: list[dict[str, int | str]] = [
        {"networkCardIndex": card, "deviceIndex": 1 if card == 0 else 0, "interfaceType": "efa-only"}
        for card in range(count)
    ]
    return [primary, *efa]


def _metadata(pool: AnyPool) -> Manifest:
    name = pool_name(pool)
    return {
        "name": name,
        "labels": conventions.labels("karpenter", "node-pool", name),
        "annotations": dict(_WAIT),
    }


def _volumes(pool: AnyPool) -> list[Manifest]:
    data = pool.data_volume
    used = not (isinstance(pool, GpuPool) and pool.local_nvme)
    speed = {"iops": data.iops, "throughput": data.throughput} if used else {}
    return [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": _OS_VOLUME_SIZE, **_GP3}},
        {
            "deviceName": "/dev/xvdb",
            "ebs": {"volumeSize": data.size if used else _UNUSED_DATA_VOLUME_SIZE, **_GP3, **speed},
        },
    ]


_GP3 = {"volumeType": "gp3", "encrypted": True, "deleteOnTermination": True}


def _requirements(pool: AnyPool, zones: tuple[str, ...]) -> list[Manifest]:
    # The bare key instance-type would be a label of our own that restricts nothing.
    values = {
        conventions.INSTANCE_TYPE_LABEL: pool.instance_types,
        conventions.CAPACITY_TYPE_LABEL: tuple(kind.value for kind in _capacity(pool)),
        conventions.ZONE_LABEL: zones,
    }
    return [{"key": key, "operator": "In", "values": list(names)} for key, names in values.items() if names]


def _capacity(pool: AnyPool) -> tuple[Capacity, ...]:
    """Karpenter takes reserved, then spot, then on-demand, whatever the order here."""
    return pool.capacity if isinstance(pool, GpuPool) else (Capacity.ON_DEMAND,)


def _limits(pool: AnyPool) -> dict[str, str]:
    if isinstance(pool, GpuPool):
        limits = {
            conventions.GPU_RESOURCE: str(pool.limits.gpus),
            "cpu": pool.limits.cpu,
            "memory": pool.limits.memory,
        }
        return {key: value for key, value in limits.items() if value is not None}
    return {"cpu": pool.limits.cpu, "memory": pool.limits.memory}


def _budget(budget: Budget) -> Manifest:
    window = {"schedule": budget.schedule, "duration": budget.duration} if budget.schedule else {}
    return {"nodes": budget.nodes, **({"reasons": list(budget.reasons)} if budget.reasons else {}), **window}
