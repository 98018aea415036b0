"""AWS policy documents as plain dicts, so that rules can read them in a preview.

ARNs are put together from the account, the region and names that are known before anything exists. Only a bucket that
AWS names has an ARN that comes later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

Document = dict[str, Any]
Statement = dict[str, Any]

MAX_ROLE_NAME: Final = 64  # IAM API reference, CreateRole
MANAGED_POLICY_CHARACTERS: Final = 6144  # IAM quotas: a managed policy without its white space


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where and for which cluster a document grants something."""

    account_id: str
    region: str
    cluster: str

    @property
    def partition(self) -> str:
        """The AWS partition that the region belongs to."""
        return partition_of(self.region)

    @property
    def cluster_arn(self) -> str:
        """ARN of the EKS cluster."""
        return self.arn("eks", f"cluster/{self.cluster}")

    def arn(
        self, service: str, resource: str, *, region: str | None = None, account: str | None = None
    ) -> str:
        """ARN of a resource in this account and region; either can be overridden (IAM has no region, images no owner)."""
        place = self.region if region is None else region
        owner = self.account_id if account is None else account
        return f"arn:{self.partition}:{service}:{place}:{owner}:{resource}"

    def role_arn(self, name: str) -> str:
        """ARN of a role of this account."""
        return self.arn("iam", f"role/{name}", region="")


def partition_of(region: str) -> str:
    """The AWS partition of a region."""
    prefixes = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
    return next((partition for prefix, partition in prefixes.items() if region.startswith(prefix)), "aws")


def aws_managed(region: str, name: str) -> str:
    """ARN of a policy that AWS maintains."""
    return f"arn:{partition_of(region)}:iam::aws:policy/{name}"


def document(*statements: Statement) -> Document:
    """A policy document of these statements."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(
    sid: str,
    actions: Sequence[str],
    resources: Any = "*",
    condition: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """One statement that grants actions on resources."""
    statement: Statement = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resources}
    return statement | (
        {"Condition": {key: dict(value) for key, value in condition.items()}} if condition else {}
    )


def deny_without_tls(sid: str, actions: str, resources: Any) -> Statement:
    """Refuse everybody who does not come over TLS."""
    return {
        "Sid": sid,
        "Effect": "Deny",
        "Principal": "*",
        "Action": actions,
        "Resource": resources,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def pod_identity_trust(cluster: str, namespace: str, service_account: str) -> Document:
    """Lets pods of exactly one service account in one cluster take the role (EKS user guide, pod-id-role).

    Without the conditions every Pod Identity association of the account could hand the role to any pod. They rest on
    the session tags that EKS sets, so an association must not disable those.
    """
    tags = {
        "eks-cluster-name": cluster,
        "kubernetes-namespace": namespace,
        "kubernetes-service-account": service_account,
    }
    return document(
        {
            "Sid": "PodsOfOneServiceAccount",
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Condition": {"StringEquals": {f"aws:RequestTag/{key}": value for key, value in tags.items()}},
        }
    )


def service_trust(service: str) -> Document:
    """Lets an AWS service take the role."""
    return document(
        {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole"]},
    )


def role_name(*parts: str) -> str:
    """A role's physical name out of parts, cut to what IAM allows with a hash in place of what was cut."""
    name = "-".join(parts)
    if len(name) <= MAX_ROLE_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: MAX_ROLE_NAME - len(digest) - 1]}-{digest}"
