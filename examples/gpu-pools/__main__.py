"""GPU nodes for an EKS cluster that has Karpenter already, by one component of the library."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where `components` is, until it is installed

import pulumi
import pulumi_kubernetes

from components.gpu_pools import GpuPools, GpuPoolsArgs
from components.settings.pools import Capacity, GpuPool, Limits

CLUSTER = "research"

kubernetes = pulumi_kubernetes.Provider("kubernetes", context=CLUSTER, cluster_identifier=CLUSTER)
pools = GpuPools(
    "pools",
    GpuPoolsArgs(
        gpu_pools=(
            GpuPool(
                name="g5",
                instance_types=("g5.12xlarge", "g5.24xlarge"),
                capacity=(Capacity.SPOT, Capacity.ON_DEMAND),
                limits=Limits(gpus=16),
            ),
            GpuPool(
                name="l4",
                instance_types=("g6.2xlarge",),
                limits=Limits(gpus=4),
                local_nvme=False,  # images on a volume
            ),
        ),
        cpu_pool=None,
        node_role="KarpenterNodeRole-research",
        discovery_tags={"karpenter.sh/discovery": CLUSTER},
        tags={"team": "research"},
    ),
    pulumi.ResourceOptions(providers=[kubernetes]),
)
pulumi.export("pools", pools.names)
