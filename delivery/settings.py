"""The settings of a delivery stack: the value of `llm-platform-delivery:delivery` in `delivery/Pulumi.<stack>.yaml`.

Account, region and cluster are not written a second time: they are read from the platform's stack file of the same name.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from components.settings.base import Arn, Cidr, Cron, Fault, Name, Settings, Text, form
from components.settings.cluster import ImageReference

# The image of the CLI that requirements.txt pins (a test holds them equal).
# renovate: datasource=docker depName=pulumi/pulumi
EXECUTOR_IMAGE: Final = "pulumi/pulumi:3.272.0"

Organization = Annotated[
    str,
    form(r"^[a-z0-9][a-z0-9_-]*$", "the name of a Pulumi organization in lower case, like acme", longest=40),
]
Repository = Annotated[
    str, form(r"^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$", "a repository like acme/llm-platform")
]
Branch = Annotated[
    str, form(r"^[A-Za-z0-9_][A-Za-z0-9._/-]*$", "the name of a branch like main, without refs/heads/")
]
# Repositories made since summer 2026 have the numbers of owner and repository in the subject of their tokens, so that a
# name that was given up cannot be taken over (GitHub changelog, 2026-04-23). GitHub shows the text to put here.
Subject = Annotated[
    str,
    form(
        r"^repo:[A-Za-z0-9-]+(@[0-9]+)?/[A-Za-z0-9._-]+(@[0-9]+)?$",
        "the start of GitHub's subject like repo:acme@123456/llm-platform@456789, as the repository's OIDC settings show it",
    ),
]
Session = Annotated[
    str, form(r"^([1-9]|1[0-2])h$", "whole hours from 1h to 12h, the longest that AWS gives a role")
]


class IdentityProviders(StrEnum):
    """AWS allows one OIDC provider per address in an account, so one delivery stack of each account makes them."""

    CREATE = "create"
    PRESENT = "present"


class Drift(Settings):
    """A regular look for what was changed past Pulumi."""

    schedule: Cron = Field(default="0 6 * * *", description="When, in UTC.")
    # Off: a fix by hand in an incident must not be undone while people look at it.
    remediate: bool = Field(default=False, description="Undo what was changed.")


class Runners(Settings):
    """Where deployments run. Pulumi's own runners are outside the VPC; a private API endpoint needs some inside it."""

    pool: Name | None = Field(
        default=None, description="Name of a pool that is made, for runners that you start."
    )
    pool_id: Text | None = Field(default=None, description="Id of a pool that is there.")
    cidrs: tuple[Cidr, ...] = Field(
        default=(), description="Networks that the runners come from, where the API endpoint is public."
    )

    def faults(self) -> Iterable[Fault]:
        """One way for runners to reach the API endpoint."""
        if (self.pool is not None) + (self.pool_id is not None) + bool(self.cidrs) != 1:
            yield (
                self.written("cidrs", "pool_id", "pool"),
                "needs exactly one of pool (a pool made here, of runners that you start), poolId (one that is there) and cidrs (networks that the runners come from)",
            )


class Deployments(Settings):
    """Pulumi Deployments runs the stack's updates."""

    runners: Runners = Field(description="Where deployments run, so that they reach the cluster.")
    # Off: a preview runs the code of the pull request with the role of the stack.
    preview_pull_requests: bool = Field(
        default=False, description="Preview pull requests against the branch, with the deployer's role."
    )
    destroy: bool = Field(default=False, description="Deployments may destroy the stack.")
    drift: Drift | None = Field(default=Drift(), description="Look for drift; null: do not.")
    executor_image: ImageReference = Field(
        default=EXECUTOR_IMAGE, description="Image of the runner: Pulumi, Python 3.11 to 3.13, make and git."
    )
    # A first update with a cluster and three models takes most of an hour.
    session: Session = Field(default="2h", description="How long the credentials of one run last.")


class Actions(Settings):
    """Workflows of GitHub Actions take the roles: previews of pull requests, and updates where Deployments are off."""

    subject: Subject = Field(
        description="Start of the subject in GitHub's tokens, as the repository's OIDC settings show it."
    )


class Permissions(Settings):
    """What the deployer may do beyond what a stack needs, and a ceiling on it."""

    policies: tuple[Arn, ...] = Field(
        default=(),
        description="More policies of the deployer, for a state bucket or a key for secrets of your own.",
    )
    boundary: Arn | None = Field(default=None, description="Permissions boundary of both roles.")


class DeliverySettings(Settings):
    """How one stack of the platform is delivered."""

    organization: Organization = Field(
        description="The organization in Pulumi Cloud that the stack belongs to."
    )
    repository: Repository = Field(description="The repository on GitHub.")
    branch: Branch = Field(description="The branch whose newest commit the stack runs.")
    identity_providers: IdentityProviders = Field(
        description="create in one delivery stack of each AWS account, present in the others."
    )
    deployments: Deployments | None = Field(
        default=None, description="Pulumi Deployments runs the updates; unset: it does not."
    )
    actions: Actions | None = Field(
        default=None, description="GitHub Actions may take the roles; unset: they may not."
    )
    # A first update may have to come from outside the VPC that it makes, and Deployments may not destroy production.
    people: tuple[Arn, ...] = Field(
        default=(),
        description="Roles of people who may take the deployer's role: first update, rescue, destroy.",
    )
    permissions: Permissions = Permissions()

    def faults(self) -> Iterable[Fault]:
        """Somebody has to run updates."""
        if self.deployments is None and self.actions is None:
            yield (
                (),
                "needs deployments (Pulumi Deployments), actions (GitHub Actions), or both; nobody could run an update",
            )
