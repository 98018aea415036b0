"""The cluster, its nodes, add-ons, access and identities."""

from __future__ import annotations

import secrets
import string

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.interfaces import interfaces_gone, interfaces_made
from rehearsal.aws.row import Call, Holder, Needed, Row, Tagging, Values

CLUSTER = {"name": "{id}"}
NODE_GROUP = {"clusterName": "{clusterName}", "nodegroupName": "{nodeGroupName}"}
CLUSTER_GROUP = Call(
    "ec2.describe_security_groups",
    {"Filters": [{"Name": "tag:aws:eks:cluster-name", "Values": ["{id}"]}]},
    "SecurityGroups[0].GroupId",
)
EXISTS = Needed("cluster {clusterName}", Call("eks.describe_cluster", {"name": "{clusterName}"}, "cluster"))
ACCESS_ENTRY = "aws:eks/accessEntry:AccessEntry"
# What EKS deletes with a cluster.
OF_CLUSTER = (
    "aws:eks/addon:Addon",
    ACCESS_ENTRY,
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation",
)


def eks_arn(kind: str, *parts: str) -> str:
    """The ARN of something in a cluster."""
    return f"arn:{{partition}}:eks:{{region}}:{{account}}:{kind}/{'/'.join(parts)}"


def eks_tags(arn: str) -> Tagging:
    """Tags by the ARN; they come with the resource."""
    return Tagging(
        add=Call("eks.tag_resource", {"resourceArn": arn, "tags": "{tagsAll}"}),
        remove=Call("eks.untag_resource", {"resourceArn": arn, "tagKeys": "{tagKeys}"}),
        read="tags",
    )


def _cluster_network(cloud: Cloud, values: Values) -> None:
    """EKS makes a security group and puts the control plane's interfaces into the subnets."""
    subnets = values["vpcConfig"]["subnetIds"]
    described = Call("ec2.describe_subnets", {"SubnetIds": subnets}, "Subnets[].[VpcId, AvailabilityZone]")
    found = cloud.call(described, values)
    arguments = {
        "GroupName": "eks-cluster-sg-{id}-{number}",
        "Description": "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
        "VpcId": found[0][0],
        "TagSpecifications": [
            {
                "ResourceType": "security-group",
                "Tags": [
                    {"Key": "aws:eks:cluster-name", "Value": "{id}"},
                    {"Key": "kubernetes.io/cluster/{id}", "Value": "owned"},
                ],
            }
        ],
    }
    group = cloud.call(Call("ec2.create_security_group", arguments, "GroupId"), values)
    groups = [group, *(values["vpcConfig"].get("securityGroupIds") or ())]
    interfaces_made(cloud, f"Amazon EKS {values['id']}", subnets, groups)


def _cluster_network_gone(cloud: Cloud, values: Values) -> None:
    interfaces_gone(cloud, f"Amazon EKS {values['id']}")
    group = cloud.call(CLUSTER_GROUP, values)
    if group:
        cloud.call(Call("ec2.delete_security_group", {"GroupId": group}), values)
    for token in OF_CLUSTER:
        for note in list(cloud.held.all(token)):
            if note["kept"].get("clusterName") == values["id"]:
                cloud.held.remove(token, note["id"])


def _group_references(cloud: Cloud, values: Values) -> list[str]:
    """Groups with rules that name the cluster's own: EKS cannot delete it then, and leaves it behind."""
    own = cloud.call(CLUSTER_GROUP, values)
    groups = cloud.call(Call("ec2.describe_security_groups", answer="SecurityGroups"), values)
    return [
        group["GroupId"]
        for group in groups
        if own and group["GroupId"] != own and f"'{own}'" in str(group["IpPermissions"])
    ]


def _vpc_config(cloud: Cloud, values: Values) -> Values:
    """What was asked for, and the group that EKS made."""
    return {**values["vpcConfig"], "clusterSecurityGroupId": cloud.call(CLUSTER_GROUP, values)}


def _protected(_cloud: Cloud, values: Values) -> list[str]:
    return ["on"] if values.get("deletionProtection") else []


def _nodes(cloud: Cloud, values: Values) -> None:
    """One interface for each of the smallest number of nodes, with the launch template's groups."""
    template = values.get("launchTemplate") or {}
    groups: list[str] = []
    if template.get("id"):
        call = Call(
            "ec2.describe_launch_template_versions",
            {"LaunchTemplateId": template["id"], "Versions": [template.get("version") or "$Latest"]},
            "LaunchTemplateVersions[0].LaunchTemplateData.SecurityGroupIds",
        )
        groups = cloud.call(call, values) or []
    subnets = values["subnetIds"]
    number = int(values["scalingConfig"]["desiredSize"])
    interfaces_made(cloud, _node_owner(values), (subnets[i % len(subnets)] for i in range(number)), groups)


def _node_owner(values: Values) -> str:
    return f"Nodes of {values['clusterName']} {values['nodeGroupName']}"


def _association_id(_values: Values) -> str:
    return "a-" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(17))


UPDATE_NODES = Call(
    "eks.update_nodegroup_config",
    {**NODE_GROUP, "labels": {"addOrUpdateLabels": "{labels}"}, "scalingConfig": "{scalingConfig}"},
)

ROWS = (
    Row(
        "aws:eks/cluster:Cluster",
        source="internal/service/eks/cluster.go",
        replaces="name roleArn bootstrapSelfManagedAddons accessConfig.bootstrapClusterCreatorAdminPermissions "
        "kubernetesNetworkConfig.ipFamily kubernetesNetworkConfig.serviceIpv4Cidr outpostConfig",
        create=Call(
            "eks.create_cluster",
            {"resourcesVpcConfig": "{vpcConfig}"},
            "cluster.name",
            takes="name roleArn version",
        ),
        read=Call("eks.describe_cluster", CLUSTER, "cluster"),
        delete=(_cluster_network_gone, Call("eks.delete_cluster", CLUSTER)),
        arn=eks_arn("cluster", "{id}"),
        after=(_cluster_network,),
        outputs={
            "certificateAuthority": "{data: certificateAuthority.data}",
            "identities": "[{oidcs: [{issuer: identity.oidc.issuer}]}]",
            "vpcConfig": _vpc_config,
        },
        # moto changes no version, and forgets the rest.
        keeps="version accessConfig upgradePolicy deletionProtection enabledClusterLogTypes bootstrapSelfManagedAddons "
        "encryptionConfig vpcConfig",
        autoname="name",
        holders=(
            Holder("its deletion protection is", _protected),
            Holder(
                "it has the node groups", Call("eks.list_nodegroups", {"clusterName": "{id}"}, "nodegroups")
            ),
            Holder("its security group is named by rules of", _group_references),
        ),
        needs=(
            Needed("role {roleArn}", Call("iam.list_roles", {"MaxItems": 1000}, "Roles[?Arn=='{roleArn}']")),
        ),
        tagging=eks_tags(eks_arn("cluster", "{id}")),
    ),
    Row(
        "aws:eks/nodeGroup:NodeGroup",
        source="internal/service/eks/node_group.go",
        replaces="amiType capacityType clusterName diskSize instanceTypes launchTemplate.id launchTemplate.name "
        "nodeGroupName nodeGroupNamePrefix nodeRoleArn remoteAccess subnetIds",
        create=Call(
            "eks.create_nodegroup",
            {**NODE_GROUP, "subnets": "{subnetIds}", "nodeRole": "{nodeRoleArn}"},
            "nodegroup.nodegroupName",
            takes="scalingConfig instanceTypes amiType capacityType labels launchTemplate version releaseVersion diskSize",
        ),
        read=Call("eks.describe_nodegroup", NODE_GROUP, "nodegroup"),
        delete=(
            Call("eks.delete_nodegroup", NODE_GROUP),
            lambda cloud, values: interfaces_gone(cloud, _node_owner(values)),
        ),
        identity="{clusterName}:{nodeGroupName}",
        after=(_nodes,),
        settings={"scalingConfig": UPDATE_NODES, "labels": UPDATE_NODES},
        reads={"nodeRoleArn": "nodeRole", "subnetIds": "subnets", "nodeGroupName": "nodegroupName"},
        outputs={"arn": "nodegroupArn"},
        # moto has no rolling update of nodes, and tags clusters only.
        keeps="tags tagsAll version releaseVersion launchTemplate updateConfig nodeRepairConfig taints",
        own="forceUpdateVersion",
        autoname="nodeGroupName",
        needs=(EXISTS,),
        tagging=eks_tags("{arn}"),
    ),
    Row(
        "aws:eks/addon:Addon",
        source="internal/service/eks/addon.go",
        replaces="addonName clusterName",
        identity="{clusterName}:{addonName}",
        outputs={"arn": "=" + eks_arn("addon", "{clusterName}", "{addonName}", "{number}")},
        keeps="*",
        needs=(EXISTS,),
        tagging=eks_tags("{arn}"),
    ),
    Row(
        ACCESS_ENTRY,
        source="internal/service/eks/access_entry.go",
        replaces="clusterName principalArn type",
        identity="{clusterName}:{principalArn}",
        outputs={"accessEntryArn": "=" + eks_arn("access-entry", "{clusterName}", "{number}")},
        keeps="*",
        needs=(EXISTS,),
        tagging=eks_tags("{accessEntryArn}"),
    ),
    Row(
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        source="internal/service/eks/access_policy_association.go",
        replaces="accessScope clusterName policyArn principalArn",
        identity="{clusterName}#{principalArn}#{policyArn}",
        keeps="*",
        needs=(EXISTS,),
    ),
    Row(
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        source="internal/service/eks/pod_identity_association.go",
        replaces="clusterName namespace serviceAccount",
        identity=_association_id,
        outputs={
            "associationArn": "=" + eks_arn("podidentityassociation", "{clusterName}", "{id}"),
            "associationId": "={id}",
        },
        keeps="*",
        unique="{clusterName}:{namespace}:{serviceAccount}",
        needs=(EXISTS,),
        tagging=eks_tags("{associationArn}"),
    ),
)
