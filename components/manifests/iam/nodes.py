"""What nodes may do: the same for the system nodes and for those that Karpenter launches."""

from typing import Final

from components.manifests.iam import Document, allow, document, partition_of
from components.settings.cluster import PullThroughCache

POLICIES: Final = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",  # the only way into a Bottlerocket node, which has no SSH
)
"""Names of AWS's own policies. The CNI's is not here: it belongs to the CNI's own identity."""


def cache_policy(cache: PullThroughCache) -> Document:
    """Bring an image into the pull-through cache the first time it is pulled (ECR user guide, pull-through-cache-iam)."""
    registry = f"arn:{partition_of(cache.region)}:ecr:{cache.region}:{cache.account_id}:repository"
    repositories = [f"{registry}/{prefix}/*" for prefix in cache.prefixes.values()]
    return document(
        allow("FillCache", ["ecr:CreateRepository", "ecr:BatchImportUpstreamImage"], repositories)
    )
