"""Names of the delivery's roles. They are fixed, since EKS makes whoever creates a cluster its administrator."""

from typing import Final

from components.manifests import iam

ROLE_PREFIX: Final = "llm-platform-"


def deployer(stack: str) -> str:
    """Role that updates a stack."""
    return iam.role_name(f"{ROLE_PREFIX}deployer", stack)


def preview(stack: str) -> str:
    """Role that previews pull requests in GitHub Actions."""
    return iam.role_name(f"{ROLE_PREFIX}preview", stack)


def role_arn(region: str, account_id: str, name: str) -> str:
    """ARN of a role, known before the role is made."""
    return f"arn:{iam.partition_of(region)}:iam::{account_id}:role/{name}"
