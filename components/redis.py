"""Redis in which Ray heads keep their state, so that a new head finds the workers of the old one."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from components import conventions
from components.cluster import ClusterHandle
from components.settings import PlatformSettings

PORT: Final = 6379
ENGINE_VERSION: Final = "7.1"  # the last Redis of ElastiCache, which goes on with Valkey
SNAPSHOT_DAYS: Final = 1
SIZES: Final = ("micro", "small", "medium", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge")


@dataclass(frozen=True, kw_only=True)
class RedisArgs:
    """What Redis needs.

    Attributes:
        cluster: a cluster made by this stack; Redis stands in its private subnets and answers its nodes only.
        node_type: ElastiCache node type.
        auth_token: password, 16 to 128 printable characters without @, " and / (ElastiCache's rule).
    """

    cluster: ClusterHandle
    node_type: str
    auth_token: pulumi.Input[str]


class Redis(pulumi.ComponentResource):
    """A small Redis for all models of a stack; KubeRay keeps their states apart by namespace.

    Makes:
    * a subnet group of the private subnets;
    * a security group that lets in the cluster's nodes and pods only;
    * a primary and a replica in different zones with automatic failover, encrypted on disk and on the wire, with a
      password.
    """

    address: pulumi.Output[str]
    """`rediss://host:6379` of the primary; stays the same after a failover."""

    def __init__(self, name: str, args: RedisArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Redis", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        cluster = args.cluster
        subnets = aws.elasticache.SubnetGroup(
            f"{name}-subnets",
            description=f"Ray state of {cluster.name}",
            subnet_ids=list(cluster.private_subnet_ids),
            opts=child,
        )
        group = self._make_group(name, cluster, child)
        self._group = aws.elasticache.ReplicationGroup(
            f"{name}-state",
            description=f"Ray state of {cluster.name}",
            engine="redis",
            engine_version=ENGINE_VERSION,
            parameter_group_name="default.redis7",
            node_type=args.node_type,
            num_cache_clusters=2,
            automatic_failover_enabled=True,
            multi_az_enabled=True,
            port=PORT,
            subnet_group_name=subnets.name,
            security_group_ids=[group.id],
            at_rest_encryption_enabled=True,
            transit_encryption_enabled=True,
            auth_token=args.auth_token,  # a new one is added to the old one, which heads still use
            snapshot_retention_limit=SNAPSHOT_DAYS,
            apply_immediately=True,  # a new password must not wait for the maintenance window
            opts=child,
        )
        self.address = pulumi.Output.format("rediss://{0}:{1}", self._group.primary_endpoint_address, PORT)
        self.register_outputs({"address": self.address})

    @staticmethod
    def _make_group(
        name: str, cluster: ClusterHandle, child: pulumi.ResourceOptions
    ) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            f"{name}-access",
            vpc_id=cluster.vpc_id,
            description=f"Redis for the nodes of {cluster.name}",
            tags={"Name": f"{cluster.name}-redis"},
            opts=child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-access-of-nodes",
            security_group_id=group.id,
            referenced_security_group_id=cluster.node_security_group_id,
            description="Redis from nodes and pods",
            ip_protocol="tcp",
            from_port=PORT,
            to_port=PORT,
            opts=child,
        )
        return group


def redis_for(
    platform: PlatformSettings,
    cluster: ClusterHandle,
    auth_token: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions | None = None,
) -> Redis | None:
    """The stack's Redis, when a model wants one and names no address; of the largest node type that a model names.

    Raises:
        pulumi.RunError: the cluster was there before, so that there is no network to put it in.
    """
    wanting = [model for model in platform.models if model.redis and model.redis.address is None]
    if not wanting:
        return None
    if platform.cluster.create is None or auth_token is None:
        names = ", ".join(model.name for model in wanting)
        raise pulumi.RunError(
            f"models {names}: redis without an address is made by the stack, which needs cluster.create and the secret "
            "llm-platform:redisPassword; name an address instead"
        )
    node_types = {model.redis.node_type for model in wanting if model.redis}
    largest = max(node_types, key=lambda name: (_rank(name), name))
    return Redis("redis", RedisArgs(cluster=cluster, node_type=largest, auth_token=auth_token), opts)


def _rank(node_type: str) -> int:
    """Place of a node type among the sizes; the largest for one that is not known here."""
    size = node_type.rpartition(".")[2]
    return SIZES.index(size) if size in SIZES else len(SIZES)
