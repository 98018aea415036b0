"""What the roles may do: policies as plain dicts, from the platform's settings.

The deployer makes networks, clusters and roles, so it is powerful within its account; give each environment an account of
its own. What bounds it here: one region, IAM only for names that the stack's roles have, a role only for the services that
the stack uses, and never its own role or trust.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from components.manifests.iam import Document, Statement, allow, document, partition_of
from components.settings import PlatformSettings
from delivery.names import ROLE_PREFIX

# Services that the stack makes resources of; a test finds each resource of the stacks in here.
SERVICES: Final = ("ec2", "eks", "elasticache", "events", "logs", "sqs")
# First parts of the names that Pulumi gives the stack's roles and policies: those of the components that make them.
OWNERS: Final = ("cluster", "gateway", "karpenter", "storage")
_PASSED_TO: Final = ("eks.amazonaws.com", "pods.eks.amazonaws.com", "ec2.amazonaws.com")
_LINKED: Final = ("eks.amazonaws.com", "eks-nodegroup.amazonaws.com", "elasticache.amazonaws.com")


@dataclass(frozen=True, slots=True)
class Place:
    """Account and region of a stack, and what its names begin with."""

    platform: PlatformSettings
    account_id: str

    @property
    def partition(self) -> str:
        """The AWS partition."""
        return partition_of(self.platform.region)

    @property
    def prefixes(self) -> tuple[str, ...]:
        """First parts of the names of the stack's roles and policies."""
        return (*OWNERS, self.platform.cluster_name)

    def iam(self, kind: str) -> list[str]:
        """ARNs of the stack's roles, policies or instance profiles."""
        return [f"arn:{self.partition}:iam::{self.account_id}:{kind}/{prefix}-*" for prefix in self.prefixes]

    @property
    def bucket(self) -> list[str]:
        """ARNs of the bucket with the weights and of what is in it; Pulumi names it where the settings do not."""
        name = self.platform.storage.bucket or "storage-bucket-*"
        return [f"arn:{self.partition}:s3:::{name}", f"arn:{self.partition}:s3:::{name}/*"]


def deployer_policy(place: Place) -> Document:
    """Everything that `pulumi up` and `pulumi destroy` of the stack need."""
    in_region = {"StringEquals": {"aws:RequestedRegion": place.platform.region}}
    roles = place.iam("role")
    return document(
        allow("Stack", [f"{service}:*" for service in SERVICES], condition=in_region),
        allow("Weights", ["s3:*"], place.bucket),
        allow("NodeImages", ["ssm:GetParameter"], f"arn:{place.partition}:ssm:{place.platform.region}::parameter/aws/service/*"),
        allow("Identities", ["iam:*"], [*roles, *place.iam("policy"), *place.iam("instance-profile")]),
        _never("PassElsewhere", ["iam:PassRole"], roles, {"StringNotEquals": {"iam:PassedToService": list(_PASSED_TO)}}),
        allow(
            "LinkedRoles",
            ["iam:CreateServiceLinkedRole"],
            f"arn:{place.partition}:iam::{place.account_id}:role/aws-service-role/*",
            {"StringEquals": {"iam:AWSServiceName": list(_LINKED)}},
        ),
        allow("Look", ["iam:GetRole", "iam:ListRoles", "iam:ListPolicies", "kms:DescribeKey"]),
        *_keys(place),
        _never("NotItself", ["iam:*"], [
            f"arn:{place.partition}:iam::{place.account_id}:role/{ROLE_PREFIX}*",
            f"arn:{place.partition}:iam::{place.account_id}:oidc-provider/*",
        ]),
    )  # fmt: skip


def preview_policy(place: Place) -> Document:
    """What `pulumi preview`, also with a refresh, reads: how things are set, no log, object or other content."""
    reads = [f"{service}:{verb}*" for service in SERVICES for verb in ("Describe", "List")]
    return document(
        allow("Look", [*reads, "sqs:GetQueueAttributes"], condition={"StringEquals": {"aws:RequestedRegion": place.platform.region}}),
        allow("Bucket", ["s3:GetBucket*", "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration", "s3:ListBucket"], place.bucket[:1]),
        allow("NodeImages", ["ssm:GetParameter"], f"arn:{place.partition}:ssm:{place.platform.region}::parameter/aws/service/*"),
        allow("Identities", ["iam:Get*", "iam:List*"], [*place.iam("role"), *place.iam("policy")]),
    )  # fmt: skip


def _never(
    sid: str, actions: list[str], resources: Any, condition: dict[str, Any] | None = None
) -> Statement:
    return {**allow(sid, actions, resources, condition), "Effect": "Deny"}


def _keys(place: Place) -> Iterator[Statement]:
    """Own KMS keys that the stack's settings name: EKS and S3 are given grants on them."""
    cluster = place.platform.cluster.create
    keys = [
        key
        for key in (cluster.secrets_key_arn if cluster else None, place.platform.storage.kms_key_arn)
        if key
    ]
    if keys:
        yield allow("Keys", ["kms:DescribeKey", "kms:CreateGrant"], keys)
