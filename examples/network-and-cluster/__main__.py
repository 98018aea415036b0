"""A VPC and an EKS cluster, by two components of the library and nothing else of the platform."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where `components` is, until it is installed

import pulumi
import pulumi_aws as aws

from components.eks_cluster import Cluster, ClusterArgs
from components.network import Network, NetworkArgs
from components.settings.cluster import CreateCluster, SystemNodes
from components.settings.network import NatGateways, NetworkSettings

REGION, NAME = "eu-central-1", "example"

provider = aws.Provider("aws", region=REGION)
network = Network(
    "network",
    NetworkArgs(
        settings=NetworkSettings(
            cidr="10.20.0.0/16",
            zones=("eu-central-1a", "eu-central-1b"),
            nat_gateways=NatGateways.SINGLE,
            interface_endpoints=(),
        ),
        region=REGION,
        cluster_name=NAME,
        protect=False,
    ),
    pulumi.ResourceOptions(providers=[provider]),
)
cluster = Cluster(
    "cluster",
    ClusterArgs(
        settings=CreateCluster(name=NAME, system_nodes=SystemNodes(minimum=2, maximum=3)),
        region=REGION,
        vpc_id=network.vpc_id,
        private_subnet_ids=network.private_subnet_ids,
        node_security_group_id=network.node_security_group_id,
        protect=False,
    ),
    pulumi.ResourceOptions(providers=[provider], depends_on=[network]),
)
pulumi.export("vpc", network.vpc_id)
pulumi.export("cluster", cluster.name)
pulumi.export("kubeconfig", cluster.kubeconfig)
