"""VPC, subnets and routes."""

from __future__ import annotations

import zlib

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call, Holder, Row, Tagging, Values

EC2_TAGS = Tagging(
    add=Call("ec2.create_tags", {"Resources": ["{id}"], "Tags": "{tagsAll}"}),
    remove=Call("ec2.delete_tags", {"Resources": ["{id}"], "Tags": "{tagKeyList}"}),
)


def filtered(operation: str, name: str, answer: str, value: str = "{id}") -> Call:
    """A describe call with one filter (NAT gateways have their own word for filters)."""
    word = "Filter" if operation == "ec2.describe_nat_gateways" else "Filters"
    return Call(operation, {word: [{"Name": name, "Values": [value]}]}, answer)


def arn(kind: str) -> str:
    """The ARN of an EC2 resource."""
    return f"arn:{{partition}}:ec2:{{region}}:{{account}}:{kind}/{{id}}"


def _attribute(name: str) -> tuple[Call, Call]:
    """How an attribute of a VPC is set, and read."""
    field = name[0].upper() + name[1:]
    return (
        Call("ec2.modify_vpc_attribute", {"VpcId": "{id}", field: {"Value": f"{{{name}}}"}}),
        Call("ec2.describe_vpc_attribute", {"VpcId": "{id}", "Attribute": name}, f"{field}.Value"),
    )


SUPPORT, HOSTNAMES = _attribute("enableDnsSupport"), _attribute("enableDnsHostnames")
INTERFACES_IN_SUBNET = filtered(
    "ec2.describe_network_interfaces", "subnet-id", "NetworkInterfaces[].NetworkInterfaceId"
)
NAT_IN_VPC = "NatGateways[?State!='deleted'].NatGatewayId"
ENDPOINTS = "VpcEndpoints[?State!='deleted'].VpcEndpointId"
# What Amazon VPC's user guide ("Delete your VPC") wants to be gone first.
VPC_HOLDERS = (
    Holder("it has the subnets", filtered("ec2.describe_subnets", "vpc-id", "Subnets[].SubnetId")),
    Holder(
        "it has the internet gateways",
        filtered(
            "ec2.describe_internet_gateways", "attachment.vpc-id", "InternetGateways[].InternetGatewayId"
        ),
    ),
    Holder("it has the NAT gateways", filtered("ec2.describe_nat_gateways", "vpc-id", NAT_IN_VPC)),
    Holder("it has the endpoints", filtered("ec2.describe_vpc_endpoints", "vpc-id", ENDPOINTS)),
    Holder(
        "it has the route tables",
        filtered(
            "ec2.describe_route_tables",
            "vpc-id",
            "RouteTables[?length(not_null(Associations,`[]`)[?Main])==`0`].RouteTableId",
        ),
    ),
    Holder(
        "it has the security groups",
        filtered("ec2.describe_security_groups", "vpc-id", "SecurityGroups[?GroupName!='default'].GroupId"),
    ),
    Holder(
        "it has the network interfaces",
        filtered("ec2.describe_network_interfaces", "vpc-id", "NetworkInterfaces[].NetworkInterfaceId"),
    ),
)


def _route_id(values: Values) -> str:
    """The real provider's id: the table, and a checksum of the destination."""
    return f"r-{values['routeTableId']}{zlib.crc32(str(values['destinationCidrBlock']).encode())}"


ROUTE = {
    "RouteTableId": "{routeTableId}",
    "DestinationCidrBlock": "{destinationCidrBlock}",
    "GatewayId": "{gatewayId}",
    "NatGatewayId": "{natGatewayId}",
}
REPLACE_ROUTE = Call("ec2.replace_route", ROUTE)


def _clean_default_group(cloud: Cloud, values: Values) -> None:
    """Take all rules away, as the real provider does when it adopts the default group."""
    permissions = "SecurityGroups[0].{ins: IpPermissions, outs: IpPermissionsEgress}"
    found = cloud.call(Call("ec2.describe_security_groups", {"GroupIds": ["{id}"]}, permissions), values)
    for side, rules in (("ingress", found["ins"]), ("egress", found["outs"])):
        if rules:
            arguments = {"GroupId": "{id}", "IpPermissions": rules}
            cloud.call(Call(f"ec2.revoke_security_group_{side}", arguments), values)


ROWS = (
    Row(
        "aws:ec2/vpc:Vpc",
        source="internal/service/ec2/vpc_.go",
        replaces="cidrBlock ipv4IpamPoolId ipv4NetmaskLength",
        create=Call("ec2.create_vpc", takes="cidrBlock instanceTenancy", answer="Vpc.VpcId"),
        read=Call("ec2.describe_vpcs", {"VpcIds": ["{id}"]}, "Vpcs[0]"),
        delete=(Call("ec2.delete_vpc", {"VpcId": "{id}"}),),
        arn=arn("vpc"),
        settings={"enableDnsSupport": SUPPORT[0], "enableDnsHostnames": HOSTNAMES[0]},
        reads={"enableDnsSupport": SUPPORT[1], "enableDnsHostnames": HOSTNAMES[1]},
        outputs={
            "defaultSecurityGroupId": Call(
                "ec2.describe_security_groups",
                {"Filters": [{"Name": "vpc-id", "Values": ["{id}"]}]},
                "SecurityGroups[?GroupName=='default'].GroupId | [0]",
            ),
            "mainRouteTableId": filtered(
                "ec2.describe_route_tables", "vpc-id", "RouteTables[?Associations[?Main]].RouteTableId | [0]"
            ),
        },
        holders=VPC_HOLDERS,
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/subnet:Subnet",
        source="internal/service/ec2/vpc_subnet.go",
        replaces="vpcId cidrBlock availabilityZone availabilityZoneId outpostArn ipv6Native",
        create=Call("ec2.create_subnet", takes="vpcId cidrBlock availabilityZone", answer="Subnet.SubnetId"),
        read=Call("ec2.describe_subnets", {"SubnetIds": ["{id}"]}, "Subnets[0]"),
        delete=(Call("ec2.delete_subnet", {"SubnetId": "{id}"}),),
        arn=arn("subnet"),
        settings={
            "mapPublicIpOnLaunch": Call(
                "ec2.modify_subnet_attribute",
                {"SubnetId": "{id}", "MapPublicIpOnLaunch": {"Value": "{mapPublicIpOnLaunch}"}},
            )
        },
        holders=(Holder("it has the network interfaces", INTERFACES_IN_SUBNET),),
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/internetGateway:InternetGateway",
        source="internal/service/ec2/vpc_internet_gateway.go",
        replaces="",
        create=Call("ec2.create_internet_gateway", answer="InternetGateway.InternetGatewayId"),
        read=Call("ec2.describe_internet_gateways", {"InternetGatewayIds": ["{id}"]}, "InternetGateways[0]"),
        delete=(
            Call("ec2.detach_internet_gateway", {"InternetGatewayId": "{id}", "VpcId": "{vpcId}"}),
            Call("ec2.delete_internet_gateway", {"InternetGatewayId": "{id}"}),
        ),
        arn=arn("internet-gateway"),
        after=(Call("ec2.attach_internet_gateway", {"InternetGatewayId": "{id}", "VpcId": "{vpcId}"}),),
        reads={"vpcId": "Attachments[0].VpcId"},
        holders=(
            # EC2: "Network vpc-… has some mapped public address(es)".
            Holder(
                "public addresses of its VPC are in use by",
                filtered("ec2.describe_nat_gateways", "vpc-id", NAT_IN_VPC, "{vpcId}"),
            ),
        ),
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/routeTable:RouteTable",
        source="internal/service/ec2/vpc_route_table.go",
        replaces="vpcId",
        create=Call("ec2.create_route_table", takes="vpcId", answer="RouteTable.RouteTableId"),
        read=Call("ec2.describe_route_tables", {"RouteTableIds": ["{id}"]}, "RouteTables[0]"),
        delete=(Call("ec2.delete_route_table", {"RouteTableId": "{id}"}),),
        arn=arn("route-table"),
        holders=(
            Holder(
                "subnets use it by",
                Call(
                    "ec2.describe_route_tables",
                    {"RouteTableIds": ["{id}"]},
                    "RouteTables[0].Associations[?!Main].RouteTableAssociationId",
                ),
            ),
        ),
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/route:Route",
        source="internal/service/ec2/vpc_route.go",
        replaces="routeTableId destinationCidrBlock destinationIpv6CidrBlock destinationPrefixListId",
        create=Call("ec2.create_route", ROUTE),
        read=Call(
            "ec2.describe_route_tables",
            {"RouteTableIds": ["{routeTableId}"]},
            "RouteTables[0].Routes[?DestinationCidrBlock=='{destinationCidrBlock}'] | [0]",
        ),
        delete=(
            Call(
                "ec2.delete_route",
                {"RouteTableId": "{routeTableId}", "DestinationCidrBlock": "{destinationCidrBlock}"},
            ),
        ),
        identity=_route_id,
        settings={"gatewayId": REPLACE_ROUTE, "natGatewayId": REPLACE_ROUTE},
    ),
    Row(
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        source="internal/service/ec2/vpc_route_table_association.go",
        replaces="subnetId gatewayId",
        create=Call("ec2.associate_route_table", takes="routeTableId subnetId", answer="AssociationId"),
        read=filtered(
            "ec2.describe_route_tables",
            "association.route-table-association-id",
            "RouteTables[0].Associations[?RouteTableAssociationId=='{id}'] | [0]",
        ),
        delete=(Call("ec2.disassociate_route_table", {"AssociationId": "{id}"}),),
    ),
    Row(
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        source="internal/service/ec2/vpc_default_security_group.go",
        replaces="vpcId",
        # It comes with the VPC and goes with it: "created" means found, and "deleted" forgotten.
        create=filtered(
            "ec2.describe_security_groups",
            "vpc-id",
            "SecurityGroups[?GroupName=='default'].GroupId | [0]",
            "{vpcId}",
        ),
        read=Call("ec2.describe_security_groups", {"GroupIds": ["{id}"]}, "SecurityGroups[0]"),
        arn=arn("security-group"),
        after=(_clean_default_group,),
        outputs={"name": "GroupName"},
        tagging=EC2_TAGS,
    ),
)
