"""AWS roles for nodes, and for pods by EKS Pod Identity, and the EKS add-ons that use them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.manifests import iam
from components.manifests.iam import nodes
from components.settings.cluster import ImageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccount:
    """Whose pods take a role."""

    cluster: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRole:
    """A role that only the pods of one service account can take.

    ``permissions`` are the attachments of its policies: what uses the role must be gone before they go.
    """

    role: aws.iam.Role
    account: ServiceAccount
    permissions: tuple[pulumi.Resource, ...]


def pod_role(
    name: str,
    account: ServiceAccount,
    policies: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> PodRole:
    """Make a role for a service account.

    Args:
        name: name of the Pulumi resource.
        account: whose pods may take it.
        policies: ARN of each policy, by the last part of its attachment's name.
        opts: options of the role and of the attachments.
    """
    role = aws.iam.Role(
        name,
        description=f"Pods of {account.namespace}/{account.name} in {account.cluster}",
        assume_role_policy=json.dumps(
            iam.pod_identity_trust(account.cluster, account.namespace, account.name)
        ),
        opts=opts,
    )
    permissions = tuple(attach(f"{name}-{what}", role.name, arn, opts) for what, arn in policies.items())
    return PodRole(role=role, account=account, permissions=permissions)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRole:
    """A role for EC2 instances that are nodes, and what gives it its permissions."""

    role: aws.iam.Role
    permissions: tuple[pulumi.Resource, ...]


def node_role(
    name: str,
    cluster: str,
    region: str,
    images: ImageSettings,
    opts: pulumi.ResourceOptions,
    *,
    role_name: str | None = None,
) -> NodeRole:
    """Make a role for nodes.

    Args:
        name: name of the Pulumi resource.
        cluster: name of the cluster.
        region: its region.
        images: where images come from; a pull-through cache needs a permission more.
        opts: options of the role and of its permissions.
        role_name: physical name, where others must know it beforehand.
    """
    role = aws.iam.Role(
        name,
        name=role_name,
        description=f"Nodes of {cluster}",
        assume_role_policy=json.dumps(iam.service_trust("ec2.amazonaws.com")),
        opts=opts,
    )
    permissions: list[pulumi.Resource] = [
        attach(f"{name}-{policy}", role.name, iam.aws_managed(region, policy), opts)
        for policy in nodes.POLICIES
    ]
    if images.pull_through_cache:
        cache = nodes.cache_policy(images.pull_through_cache)
        permissions.append(
            aws.iam.RolePolicy(f"{name}-image-cache", role=role.name, policy=json.dumps(cache), opts=opts)
        )
    return NodeRole(role=role, permissions=tuple(permissions))


def attach(
    name: str, role: pulumi.Input[str], policy_arn: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> aws.iam.RolePolicyAttachment:
    """Give a role a policy."""
    return aws.iam.RolePolicyAttachment(name, role=role, policy_arn=policy_arn, opts=opts)


def associate(name: str, role: PodRole, opts: pulumi.ResourceOptions) -> aws.eks.PodIdentityAssociation:
    """Hand a role to its service account. Pods that run already get it only when they are made anew."""
    return aws.eks.PodIdentityAssociation(
        name,
        cluster_name=role.account.cluster,
        namespace=role.account.namespace,
        service_account=role.account.name,
        role_arn=role.role.arn,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(role.permissions))),
    )


def eks_addon(
    name: str,
    addon: str,
    version: str,
    cluster: str,
    opts: pulumi.ResourceOptions,
    *,
    configuration: Mapping[str, Any] | None = None,
    role: PodRole | None = None,
) -> aws.eks.Addon:
    """One EKS add-on at a pinned version.

    Args:
        name: name of the Pulumi resource.
        addon: EKS's name of the add-on.
        version: its version.
        cluster: name of the cluster.
        opts: options of the resource.
        configuration: values of the add-on's own schema.
        role: role of its pods. Given here and not beside the add-on, because pods that start before their association
            have no credentials until they restart.
    """
    associations = [
        aws.eks.AddonPodIdentityAssociationArgs(service_account=role.account.name, role_arn=role.role.arn)
    ] if role else None  # fmt: skip
    return aws.eks.Addon(
        name,
        cluster_name=cluster,
        addon_name=addon,
        addon_version=version,
        configuration_values=json.dumps(configuration) if configuration else None,
        pod_identity_associations=associations,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",  # what is written here is how it is, also after a kubectl edit
        opts=opts,
    )
