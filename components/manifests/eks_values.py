"""Plain values that the EKS API wants: configuration of add-ons, kinds of image, access policies."""

import re
from typing import Final

from components.manifests.iam import partition_of

CNI: Final = {
    # Whole /28 prefixes: as many pods on a node as the kubelet takes, without one network interface per 15 pods.
    "env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"},
    "enableNetworkPolicy": "true",  # without it NetworkPolicies are accepted and ignored
}
# The chart's own default, said aloud: with the old driver's default its agent missed every tainted node (S3 CSI #107).
S3_CSI: Final = {"node": {"tolerateAllTaints": True}}
EBS_CSI_POLICY: Final = "service-role/AmazonEBSCSIDriverPolicy"


def ami_type(instance_type: str) -> str:
    """EKS's name of the Bottlerocket image for an instance type; Graviton families have a g after their number."""
    family = instance_type.partition(".")[0]
    graviton = re.fullmatch(r"[a-z]+\d+g[a-z-]*", family) is not None
    return "BOTTLEROCKET_ARM_64" if graviton else "BOTTLEROCKET_x86_64"


def administrator_policy(region: str) -> str:
    """ARN of EKS's access policy with all rights in the cluster."""
    return f"arn:{partition_of(region)}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def principal_key(arn: str) -> str:
    """A principal as part of a resource's name: account and path, without the `::` that ends a name in a URN."""
    return re.sub(r"[^A-Za-z0-9]+", "-", arn.partition(":iam::")[2])
