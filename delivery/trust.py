"""Who may take the roles: trust policies as plain dicts.

A token of Pulumi Deployments says organization, project, stack and operation, one of GitHub Actions the repository and the
environment of the job. Each is compared in whole, never with a wildcard, so that no other stack, operation or job fits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from components import conventions
from components.manifests.iam import Document, Statement, document
from delivery.settings import Deployments


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """Somebody whose tokens AWS can check."""

    name: str
    host: str  # and path; how AWS names the provider and its claims
    sid: str

    @property
    def url(self) -> str:
        """Where AWS finds the keys."""
        return f"https://{self.host}"


PULUMI: Final = Issuer(name="pulumi", host="api.pulumi.com/oidc", sid="PulumiDeployments")
GITHUB: Final = Issuer(name="github", host="token.actions.githubusercontent.com", sid="GitHubActions")
GITHUB_AUDIENCE: Final = "sts.amazonaws.com"  # what aws-actions/configure-aws-credentials asks for


def operations(deployments: Deployments) -> tuple[str, ...]:
    """Operations of Pulumi Deployments that may take the role.

    The documentation of the subject lists preview, update, refresh and destroy; that of PULUMI_CI_OPERATION has
    detect-drift and remediate-drift besides. Which of the two a drift run shows AWS was never seen, so both are let in.
    """
    drift = deployments.drift
    return (
        "update",
        "refresh",
        *(["preview"] if deployments.preview_pull_requests else []),
        *(["destroy"] if deployments.destroy else []),
        *(["detect-drift"] if drift else []),
        *(["remediate-drift"] if drift and drift.remediate else []),
    )


def deployments_trust(provider_arn: str, organization: str, stack: str, allowed: Sequence[str]) -> Statement:
    """Lets deployments of one stack take a role, for some operations (Pulumi docs, deployments/guides/oidc)."""
    whose = f"pulumi:deploy:org:{organization}:project:{conventions.PROJECT}:stack:{stack}"
    subjects = [f"{whose}:operation:{operation}:scope:write" for operation in allowed]
    return _trust(PULUMI, provider_arn, organization, subjects)


def actions_trust(provider_arn: str, subject: str, environment: str) -> Statement:
    """Lets jobs of one GitHub environment take a role. Who may use the environment is set in GitHub, with reviewers."""
    return _trust(GITHUB, provider_arn, GITHUB_AUDIENCE, [f"{subject}:environment:{environment}"])


def people_trust(roles: Sequence[str]) -> Statement:
    """Lets people take a role, from roles of their own."""
    return {"Sid": "People", "Effect": "Allow", "Principal": {"AWS": list(roles)}, "Action": "sts:AssumeRole"}


def trust(*statements: Statement) -> Document:
    """A trust policy."""
    return document(*statements)


def _trust(issuer: Issuer, provider_arn: str, audience: str, subjects: Sequence[str]) -> Statement:
    return {
        "Sid": issuer.sid,
        "Effect": "Allow",
        "Principal": {"Federated": provider_arn},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{issuer.host}:aud": audience, f"{issuer.host}:sub": list(subjects)}},
    }
