"""The cluster of a stack: made here, or one that is already there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes
from pulumi_aws import Provider as AwsProvider
from pulumi_aws import ProviderDefaultTagsArgs

from components import conventions
from components.eks_cluster import Cluster, ClusterArgs
from components.manifests import iam
from components.network import Network, NetworkArgs
from components.settings import PlatformSettings
from components.settings.cluster import ExistingCluster

__all__ = ["Cluster", "ClusterArgs", "ClusterHandle", "cluster_for"]


@dataclass(frozen=True, kw_only=True)
class ClusterHandle:
    """What everything inside the cluster needs to know of it.

    Attributes:
        name: name of the cluster, known at preview.
        region: its AWS region.
        account_id: its AWS account; None when the stack touches no AWS.
        kubernetes: provider for objects in the cluster.
        aws: provider for resources beside it; None when the stack touches no AWS.
        vpc_id: its VPC; None when the cluster was there before.
        private_subnet_ids: subnets of its nodes; empty when the cluster was there before.
        node_security_group_id: group of all nodes and pods; None when the cluster was there before.
        s3_csi_role: name of the role of the S3 CSI driver, where the driver is installed by this stack.
        discovery_tags: tags of the subnets and of the one security group that Karpenter's nodes take.
        ready: what must be there before anything is put into the cluster, and be gone after it.
    """

    name: str
    region: str
    kubernetes: pulumi_kubernetes.Provider
    account_id: str | None = None
    aws: AwsProvider | None = None
    vpc_id: pulumi.Input[str] | None = None
    private_subnet_ids: tuple[pulumi.Input[str], ...] = ()
    node_security_group_id: pulumi.Input[str] | None = None
    s3_csi_role: pulumi.Input[str] | None = None
    discovery_tags: Mapping[str, str] = field(default_factory=dict)
    ready: tuple[pulumi.Resource, ...] = ()

    def scope(self, what: str) -> iam.Scope:
        """Account, region and cluster for policy documents.

        Raises:
            pulumi.RunError: the stack names no account, and ``what`` needs resources in one.
        """
        if self.account_id is None:
            message = f"{what} on the existing cluster {self.name} needs AWS resources; name their account in accountId"
            raise pulumi.RunError(message)
        return iam.Scope(account_id=self.account_id, region=self.region, cluster=self.name)

    def after(self, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
        """Options of something in this cluster: made after the cluster and ``resources``, and destroyed before them."""
        providers: list[pulumi.ProviderResource] = [self.kubernetes, *([self.aws] if self.aws else [])]
        return pulumi.ResourceOptions(providers=providers, depends_on=[*self.ready, *resources])


def cluster_for(platform: PlatformSettings) -> ClusterHandle:
    """The cluster of a stack, with the providers that reach it: made here when the settings say `create`."""
    provider = _aws_provider(platform)
    if platform.cluster.existing:
        return _use_existing(platform, platform.cluster.existing, provider)
    assert provider is not None  # noqa: S101 - held by PlatformSettings._made_cluster_is_whole
    assert platform.network is not None  # noqa: S101 - the same
    assert platform.cluster.create is not None  # noqa: S101 - held by ClusterSettings._one_of
    inside = pulumi.ResourceOptions(providers=[provider])
    network = Network(
        "network",
        NetworkArgs(
            settings=platform.network,
            region=platform.region,
            cluster_name=platform.cluster_name,
            protect=platform.deletion.protect,
        ),
        inside,
    )
    cluster = Cluster(
        "cluster",
        ClusterArgs(
            settings=platform.cluster.create,
            region=platform.region,
            vpc_id=network.vpc_id,
            private_subnet_ids=network.private_subnet_ids,
            node_security_group_id=network.node_security_group_id,
            images=platform.images,
            tags=platform.tags,
            protect=platform.deletion.protect,
        ),
        # The routes and NAT gateways too: nodes must reach AWS as long as there are nodes.
        pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[network])),
    )
    return ClusterHandle(
        name=cluster.name,
        region=platform.region,
        account_id=platform.account_id,
        kubernetes=cluster.kubernetes,
        aws=provider,
        vpc_id=network.vpc_id,
        private_subnet_ids=network.private_subnet_ids,
        node_security_group_id=network.node_security_group_id,
        s3_csi_role=cluster.s3_csi_role,
        discovery_tags=network.discovery_tags,
        ready=cluster.ready,
    )


def _aws_provider(platform: PlatformSettings) -> AwsProvider | None:
    """AWS in the stack's region and only in its account; None when no account is named."""
    if platform.account_id is None:
        return None
    return AwsProvider(
        "aws",
        region=platform.region,
        allowed_account_ids=[platform.account_id],
        default_tags=ProviderDefaultTagsArgs(
            tags={"managed-by": conventions.PROJECT, "cluster": platform.cluster_name, **platform.tags}
        ),
    )


def _use_existing(
    platform: PlatformSettings, existing: ExistingCluster, provider: AwsProvider | None
) -> ClusterHandle:
    """Reach a cluster that was there before; nothing of it is made or owned."""
    kubernetes = pulumi_kubernetes.Provider(
        "kubernetes",
        context=existing.context,
        cluster_identifier=existing.name,
        enable_server_side_apply=True,
        enable_patch_force=True,  # an edit by hand is taken back instead of stopping every preview with a conflict
        enable_config_map_mutable=True,  # as for a cluster that is made here (eks_cluster.py)
    )
    return ClusterHandle(
        name=existing.name,
        region=existing.region or platform.region,
        account_id=platform.account_id,
        kubernetes=kubernetes,
        aws=provider,
        discovery_tags=existing.discovery_tags,
    )
