"""`pulumi-resource-eks` for a rehearsal: makes the children of `eks.Cluster` and points its kubeconfig to this machine.

The children have the names, types and parents of the real component (pulumi/pulumi-eks, nodejs/eks/cluster/cluster.ts,
servicerole.ts, authenticationMode.ts), as far as the program uses it: no node groups, no add-ons, no security groups of
the component's own. An argument beyond that is refused, not ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi
from pulumi.provider import ConstructResult, Provider
from pulumi.provider import main as serve_provider

from components.manifests.iam import partition_of
from rehearsal.aws.provider import end_with_parent

VERSION = "4.4.0"  # of the SDK in requirements.txt; a test compares them
KUBECONFIG = "LLMP_AWS_KUBECONFIG"
REGION = "LLMP_AWS_REGION"
CLUSTER = "eks:index:Cluster"
# What an argument must be for the stand-in to leave it out as the component would.
OFF = {
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
    "createOidcProvider": False,
}
ADDONS = ("corednsAddonOptions", "kubeProxyAddonOptions")
TAKEN = {
    *OFF, *ADDONS, "name", "version", "vpcId", "privateSubnetIds", "publicSubnetIds", "subnetIds", "authenticationMode",
    "accessEntries", "endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs", "enabledClusterLogTypes",
    "encryptionConfigKeyArn", "upgradePolicy", "deletionProtection", "bootstrapSelfManagedAddons", "tags", "clusterTags",
}  # fmt: skip
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Action": ["sts:AssumeRole", "sts:TagSession"],
            "Effect": "Allow",
            "Principal": {"Service": ["eks.amazonaws.com"]},
        }
    ],
}


def refused(inputs: Mapping[str, Any]) -> list[str]:
    """What the stand-in does not do, in words."""
    wrong = [f"{name} is not in the stand-in for pulumi-eks" for name in sorted(set(inputs) - TAKEN)]
    wrong += [
        f"{name} must be {str(value).lower()}: the stand-in makes no such children"
        for name, value in OFF.items()
        if inputs.get(name) is not value
    ]
    return wrong + [
        f"{name}.enabled must be false"
        for name in ADDONS
        if (inputs.get(name) or {}).get("enabled") is not False
    ]


class ServiceRole(pulumi.ComponentResource):
    """The role that EKS itself takes."""

    def __init__(self, name: str, region: str, opts: pulumi.ResourceOptions) -> None:
        from pulumi_aws import iam  # noqa: PLC0415 - half a second that the engine need not wait for

        super().__init__("eks:index:ServiceRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.role = iam.Role(
            f"{name}-role",
            description="Allows EKS to manage clusters on your behalf.",
            assume_role_policy=json.dumps(TRUST),
            opts=child,
        )
        suffix = hashlib.sha1(b"arn:aws:iam::aws:policy/AmazonEKSClusterPolicy").hexdigest()[:8]  # noqa: S324 - a name
        self.permission = iam.RolePolicyAttachment(
            f"{name}-{suffix}",
            role=self.role.name,
            policy_arn=f"arn:{partition_of(region)}:iam::aws:policy/AmazonEKSClusterPolicy",
            opts=child,
        )
        self.register_outputs({"role": self.role})


class Cluster(pulumi.ComponentResource):
    """What `eks.Cluster` is to the program."""

    def __init__(self, name: str, inputs: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        from pulumi_aws import eks  # noqa: PLC0415 - as above
        from pulumi_kubernetes import Provider as Kubernetes  # noqa: PLC0415

        # With the inputs, as the real one: they are what a policy sees of the component.
        super().__init__(CLUSTER, name, dict(inputs), opts)
        role = ServiceRole(f"{name}-eksRole", os.environ[REGION], pulumi.ResourceOptions(parent=self))
        self.cluster = eks.Cluster(
            f"{name}-eksCluster",
            **_cluster_arguments(name, inputs, role.role.arn),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[role.role, role.permission],
                ignore_changes=[
                    "accessConfig.bootstrapClusterCreatorAdminPermissions",
                    "bootstrapSelfManagedAddons",
                ],
            ),
        )
        self._make_access(name, inputs.get("accessEntries") or {})
        # Not known before the cluster is there, as with the real component.
        self.kubeconfig_json = self.cluster.endpoint.apply(lambda _: Path(os.environ[KUBECONFIG]).read_text())
        Kubernetes(
            f"{name}-eks-k8s", kubeconfig=self.kubeconfig_json, opts=pulumi.ResourceOptions(parent=self)
        )
        security_group = self.cluster.vpc_config.apply(lambda config: config.cluster_security_group_id)
        self.results = {
            "eksCluster": self.cluster,
            "kubeconfig": self.kubeconfig_json.apply(json.loads),
            "kubeconfigJson": self.kubeconfig_json,
            "clusterSecurityGroupId": security_group,
            "nodeSecurityGroupId": security_group,
            "instanceRoles": [],
            "oidcIssuer": "",
            "oidcProviderArn": "",
            "oidcProviderUrl": "",
        }
        self.register_outputs(self.results)

    def _make_access(self, name: str, entries: Mapping[str, Any]) -> None:
        from pulumi_aws import eks  # noqa: PLC0415 - as above

        opts = pulumi.ResourceOptions(parent=self, depends_on=[self.cluster])
        for key, entry in entries.items():
            eks.AccessEntry(
                f"{name}-{key}",
                cluster_name=self.cluster.name,
                principal_arn=entry["principalArn"],
                type=entry.get("type"),
                kubernetes_groups=entry.get("kubernetesGroups"),
                user_name=entry.get("username"),
                opts=opts,
            )
            for policy_key, policy in (entry.get("accessPolicies") or {}).items():
                eks.AccessPolicyAssociation(
                    f"{name}-{key}-{policy_key}",
                    cluster_name=self.cluster.name,
                    principal_arn=entry["principalArn"],
                    policy_arn=policy["policyArn"],
                    access_scope=policy["accessScope"],
                    opts=opts,
                )


def _cluster_arguments(name: str, inputs: Mapping[str, Any], role_arn: pulumi.Output[str]) -> dict[str, Any]:
    """Arguments of the AWS resource, as the component writes them."""
    subnets = [inputs.get(key) or [] for key in ("subnetIds", "publicSubnetIds", "privateSubnetIds")]
    key_arn, mode = inputs.get("encryptionConfigKeyArn"), inputs.get("authenticationMode")
    return {
        "name": inputs.get("name"),
        "role_arn": role_arn,
        "version": inputs.get("version"),
        "bootstrap_self_managed_addons": inputs.get("bootstrapSelfManagedAddons", True),
        "vpc_config": {
            "subnetIds": pulumi.Output.all(*subnets).apply(
                lambda groups: [item for group in groups for item in group]
            ),
            "endpointPrivateAccess": inputs.get("endpointPrivateAccess"),
            "endpointPublicAccess": inputs.get("endpointPublicAccess"),
            "publicAccessCidrs": inputs.get("publicAccessCidrs"),
        },
        "enabled_cluster_log_types": inputs.get("enabledClusterLogTypes"),
        "encryption_config": {"provider": {"keyArn": key_arn}, "resources": ["secrets"]} if key_arn else None,
        "access_config": {"authenticationMode": mode, "bootstrapClusterCreatorAdminPermissions": True}
        if mode
        else None,
        "upgrade_policy": inputs.get("upgradePolicy"),
        "deletion_protection": inputs.get("deletionProtection"),
        "tags": {
            "Name": f"{name}-eksCluster",
            **(inputs.get("clusterTags") or {}),
            **(inputs.get("tags") or {}),
        },
    }


class Eks(Provider):
    """Makes clusters; other components of the package have no stand-in."""

    def __init__(self) -> None:
        super().__init__(VERSION)

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Mapping[str, Any],
        options: pulumi.ResourceOptions | None = None,
    ) -> ConstructResult:
        """Make one component with its children."""
        if resource_type != CLUSTER:
            raise ValueError(
                f"the rehearsal's stand-in for pulumi-eks makes {CLUSTER} only, not {resource_type}"
            )
        wrong = refused(inputs)
        if wrong:
            raise ValueError("; ".join(wrong))
        cluster = Cluster(name, inputs, options or pulumi.ResourceOptions())
        return ConstructResult(urn=cluster.urn, state=cluster.results)


if __name__ == "__main__":
    end_with_parent()
    serve_provider(Eks(), sys.argv[1:])
