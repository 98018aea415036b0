"""The nodes models run on, as pools that Karpenter fills and empties."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components import conventions
from components.kubernetes_object import KubernetesObject
from components.manifests import node_pools
from components.manifests.placement import AnyPool, pool_name
from components.quantities import seconds
from components.settings.platform import PlatformSettings
from components.settings.pools import CpuPool, GpuPool


@dataclass(frozen=True, kw_only=True)
class GpuPoolsArgs:
    """What the pools are made of.

    Attributes:
        gpu_pools: the GPU pools.
        cpu_pool: on-demand nodes for Ray heads and ingress; None where such nodes are there already.
        node_role: name of the IAM role that the nodes take.
        discovery_tags: tags of the subnets and of the one security group of the nodes.
        zones: zones used where a pool names none; empty for all zones of those subnets.
        tags: AWS tags of instances and volumes. The provider's default tags do not reach them: Karpenter makes them.
    """

    gpu_pools: tuple[GpuPool, ...]
    cpu_pool: CpuPool | None
    node_role: pulumi.Input[str]
    discovery_tags: Mapping[str, str]
    zones: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, settings: PlatformSettings, *, node_role: pulumi.Input[str], discovery_tags: Mapping[str, str]
    ) -> "GpuPoolsArgs":
        """The pools of a stack's settings."""
        return cls(
            gpu_pools=settings.gpu_pools,
            cpu_pool=settings.cpu_pool,
            node_role=node_role,
            discovery_tags=discovery_tags,
            zones=settings.zones,
            tags=settings.tags,
        )


class GpuPools(pulumi.ComponentResource):
    """The nodes of a stack: what Karpenter may start, from which image, and when it takes it away.

    Makes for each GPU pool and for the CPU pool:
    * an `EC2NodeClass`: Bottlerocket, disks, network interfaces, reservations
    * a `NodePool` on it: instance types, capacity, zones, taint, labels, limits, disruption
    * an EC2 placement group where a pool asks for one

    A NodePool is deleted before its NodeClass and Karpenter, and with it go its nodes: Kubernetes waits for them, each
    at most its grace period.
    """

    names: tuple[str, ...]  # of the NodePools, known at preview

    def __init__(self, name: str, args: GpuPoolsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:GpuPools", name, None, opts)
        pools: tuple[AnyPool, ...] = (*((args.cpu_pool,) if args.cpu_pool else ()), *args.gpu_pools)
        for pool in pools:
            self._pool(name, pool, args)
        self.names = tuple(pool_name(pool) for pool in pools)
        self.register_outputs({"names": self.names})

    def _pool(self, name: str, pool: AnyPool, args: GpuPoolsArgs) -> None:
        node_class = KubernetesObject(
            f"{name}-node-class-{pool_name(pool)}",
            node_pools.node_class(
                pool, args.node_role, args.discovery_tags, args.tags, self._placement_group(name, pool)
            ),
            pulumi.ResourceOptions(parent=self),
        )
        drain = pulumi.CustomTimeouts(delete=f"{_delete_minutes(pool)}m")
        KubernetesObject(
            f"{name}-node-pool-{pool_name(pool)}",
            node_pools.node_pool(pool, args.zones),
            pulumi.ResourceOptions(parent=self, depends_on=[node_class], custom_timeouts=drain),
        )

    def _placement_group(self, name: str, pool: AnyPool) -> pulumi.Output[str] | None:
        """Name of a group that keeps a pool's nodes close together, for models over several nodes."""
        if not (isinstance(pool, GpuPool) and pool.placement_group):
            return None
        group = aws.ec2.PlacementGroup(
            f"{name}-placement-{pool.name}", strategy="cluster", opts=pulumi.ResourceOptions(parent=self)
        )
        return group.name


def _delete_minutes(pool: AnyPool) -> int:
    """Minutes a NodePool's deletion may take: the longest drain, and ten for EC2 and the finalizers."""
    return round(seconds(pool.termination_grace_period) / 60) + 10
