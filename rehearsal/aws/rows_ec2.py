"""Security groups and their rules, launch templates, placement groups."""

from __future__ import annotations

import dataclasses

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call, Holder, Row, Values
from rehearsal.aws.rows_network import EC2_TAGS, arn, filtered

RULE_FIELDS = (
    "ipProtocol fromPort toPort cidrIpv4 cidrIpv6 prefixListId referencedSecurityGroupId description"
)


def _without_egress(cloud: Cloud, values: Values) -> None:
    """Take away the rule that AWS gives every new group: the real provider does, so that only written rules hold."""
    arguments = {
        "GroupId": "{id}",
        "IpPermissions": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    }
    cloud.call(Call("ec2.revoke_security_group_egress", arguments), values)


def _revoke_own(cloud: Cloud, values: Values) -> None:
    if not values.get("revokeRulesOnDelete"):
        return
    found = cloud.call(
        filtered("ec2.describe_security_group_rules", "group-id", "SecurityGroupRules"), values
    )
    for side, egress in (("ingress", False), ("egress", True)):
        rules = [row["SecurityGroupRuleId"] for row in found if row["IsEgress"] is egress]
        if rules:
            arguments = {"GroupId": "{id}", "SecurityGroupRuleIds": rules}
            cloud.call(Call(f"ec2.revoke_security_group_{side}", arguments), values)


def _referring(cloud: Cloud, values: Values) -> list[str]:
    """Other groups with a rule that names this one."""
    groups = cloud.call(Call("ec2.describe_security_groups", answer="SecurityGroups"), values)
    return [
        group["GroupId"]
        for group in groups
        if group["GroupId"] != values["id"]
        and any(
            pair.get("GroupId") == values["id"]
            for rule in (*group["IpPermissions"], *group["IpPermissionsEgress"])
            for pair in rule.get("UserIdGroupPairs", ())
        )
    ]


CHANGE_RULE = Call(
    "ec2.modify_security_group_rules",
    {
        "GroupId": "{securityGroupId}",
        "SecurityGroupRules": [
            {
                "SecurityGroupRuleId": "{id}",
                "SecurityGroupRule": {
                    "IpProtocol": "{ipProtocol}",
                    "FromPort": "{fromPort}",
                    "ToPort": "{toPort}",
                    "CidrIpv4": "{cidrIpv4}",
                    "ReferencedGroupId": "{referencedSecurityGroupId}",
                    "Description": "{description}",
                },
            }
        ],
    },
)


def _rule(side: str) -> Row:
    name = f"securityGroup{side.capitalize()}Rule"
    return Row(
        f"aws:vpc/{name}:{name[0].upper()}{name[1:]}",
        source=f"internal/service/ec2/vpc_security_group_{side}_rule.go",
        replaces="securityGroupId",
        create=Call(
            f"ec2.authorize_security_group_{side}",
            {
                "GroupId": "{securityGroupId}",
                "IpPermissions": [
                    {
                        "IpProtocol": "{ipProtocol}",
                        "FromPort": "{fromPort}",
                        "ToPort": "{toPort}",
                        "IpRanges": [
                            {"?": "{cidrIpv4}", "CidrIp": "{cidrIpv4}", "Description": "{description}"}
                        ],
                        "UserIdGroupPairs": [
                            {
                                "?": "{referencedSecurityGroupId}",
                                "GroupId": "{referencedSecurityGroupId}",
                                "Description": "{description}",
                            }
                        ],
                    }
                ],
            },
            "SecurityGroupRules[0].SecurityGroupRuleId",
        ),
        read=Call(
            "ec2.describe_security_group_rules", {"SecurityGroupRuleIds": ["{id}"]}, "SecurityGroupRules[0]"
        ),
        delete=(
            Call(
                f"ec2.revoke_security_group_{side}",
                {"GroupId": "{securityGroupId}", "SecurityGroupRuleIds": ["{id}"]},
            ),
        ),
        arn=arn("security-group-rule"),
        settings=dict.fromkeys(RULE_FIELDS.split(), CHANGE_RULE),
        reads={
            "securityGroupId": "GroupId",
            "referencedSecurityGroupId": "ReferencedGroupInfo.GroupId",
        },
        outputs={"securityGroupRuleId": "={id}"},
        tagging=EC2_TAGS,
    )


TEMPLATE_DATA = {
    "BlockDeviceMappings": "{blockDeviceMappings}",
    "MetadataOptions": "{metadataOptions}",
    "SecurityGroupIds": "{vpcSecurityGroupIds}",
    "TagSpecifications": "{tagSpecifications}",
}
NEW_VERSION = Call(
    "ec2.create_launch_template_version",
    {"LaunchTemplateId": "{id}", "VersionDescription": "{description}", "LaunchTemplateData": TEMPLATE_DATA},
)
LATEST = Call(
    "ec2.describe_launch_template_versions",
    {"LaunchTemplateId": "{id}", "Versions": ["$Latest"]},
    "LaunchTemplateVersions[0]",
)


def _latest(field: str) -> Call:
    return Call(LATEST.operation, LATEST.arguments, f"LaunchTemplateVersions[0].{field}")


ROWS = (
    Row(
        "aws:ec2/securityGroup:SecurityGroup",
        source="internal/service/ec2/vpc_security_group.go",
        replaces="name namePrefix description vpcId",
        create=Call(
            "ec2.create_security_group", {"GroupName": "{name}"}, "GroupId", takes="description vpcId"
        ),
        read=Call("ec2.describe_security_groups", {"GroupIds": ["{id}"]}, "SecurityGroups[0]"),
        delete=(_revoke_own, Call("ec2.delete_security_group", {"GroupId": "{id}"})),
        arn=arn("security-group"),
        after=(_without_egress,),
        reads={"name": "GroupName"},
        own="revokeRulesOnDelete",
        autoname="name",
        holders=(
            Holder("it is named by rules of", _referring),
            Holder(
                "it is on the network interfaces",
                filtered(
                    "ec2.describe_network_interfaces", "group-id", "NetworkInterfaces[].NetworkInterfaceId"
                ),
            ),
            Holder(
                "it is on the endpoints",
                Call(
                    "ec2.describe_vpc_endpoints",
                    answer="VpcEndpoints[?State!='deleted' && contains(not_null(Groups[].GroupId,`[]`),'{id}')].VpcEndpointId",
                ),
            ),
        ),
        tagging=EC2_TAGS,
    ),
    _rule("ingress"),
    _rule("egress"),
    Row(
        "aws:ec2/launchTemplate:LaunchTemplate",
        source="internal/service/ec2/ec2_launch_template.go",
        replaces="name namePrefix",
        create=Call(
            "ec2.create_launch_template",
            {
                "LaunchTemplateName": "{name}",
                "VersionDescription": "{description}",
                "LaunchTemplateData": TEMPLATE_DATA,
            },
            "LaunchTemplate.LaunchTemplateId",
        ),
        read=Call("ec2.describe_launch_templates", {"LaunchTemplateIds": ["{id}"]}, "LaunchTemplates[0]"),
        delete=(Call("ec2.delete_launch_template", {"LaunchTemplateId": "{id}"}),),
        arn=arn("launch-template"),
        settings=dict.fromkeys(
            (
                "description",
                "blockDeviceMappings",
                "metadataOptions",
                "vpcSecurityGroupIds",
                "tagSpecifications",
            ),
            NEW_VERSION,
        ),
        reads={
            "name": "LaunchTemplateName",
            "description": _latest("VersionDescription"),
            "blockDeviceMappings": _latest("LaunchTemplateData.BlockDeviceMappings"),
            "metadataOptions": _latest("LaunchTemplateData.MetadataOptions"),
            "vpcSecurityGroupIds": _latest("LaunchTemplateData.SecurityGroupIds"),
            "tagSpecifications": _latest("LaunchTemplateData.TagSpecifications"),
        },
        outputs={"latestVersion": "LatestVersionNumber", "defaultVersion": "DefaultVersionNumber"},
        autoname="name",
        # moto's answer holds only the tags of the first day.
        tagging=dataclasses.replace(
            EC2_TAGS, read=filtered("ec2.describe_tags", "resource-id", "Tags[].{Key: Key, Value: Value}")
        ),
    ),
    Row(
        "aws:ec2/placementGroup:PlacementGroup",
        source="internal/service/ec2/ec2_placement_group.go",
        replaces="name strategy partitionCount spreadLevel",
        identity="{name}",
        arn="arn:{partition}:ec2:{region}:{account}:placement-group/{id}",
        outputs={"placementGroupId": "=pg-{number}"},
        keeps="*",
        autoname="name",
        tagging=EC2_TAGS,
    ),
)
