"""Addresses, NAT gateways and endpoints."""

from __future__ import annotations

from typing import Any

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call, Holder, Row, Values
from rehearsal.aws.rows_network import EC2_TAGS, arn


def _nat_gone(cloud: Cloud, values: Values) -> None:
    """EC2 gives back the address and takes the interface away; moto leaves both."""
    found = Call(
        "ec2.describe_addresses", {"AllocationIds": ["{allocationId}"]}, "Addresses[0].AssociationId"
    )
    association = cloud.call(found, values)
    if association:
        cloud.call(Call("ec2.disassociate_address", {"AssociationId": association}), values)
    interface = {"NetworkInterfaceId": "{networkInterfaceId}"}
    if cloud.exists(
        Call(
            "ec2.describe_network_interfaces",
            {"NetworkInterfaceIds": ["{networkInterfaceId}"]},
            "NetworkInterfaces",
        ),
        values,
    ):
        cloud.call(Call("ec2.delete_network_interface", interface), values)


def _change_endpoint(cloud: Cloud, values: Values) -> None:
    """EC2 takes what is added and what is removed, not the whole."""
    arguments: dict[str, Any] = {"VpcEndpointId": "{id}"}
    for name, field in (
        ("routeTableIds", "RouteTableIds"),
        ("subnetIds", "SubnetIds"),
        ("securityGroupIds", "SecurityGroupIds"),
    ):
        before, after = set(values["old"].get(name) or ()), set(values.get(name) or ())
        arguments |= {f"Add{field}": sorted(after - before)} if after - before else {}
        arguments |= {f"Remove{field}": sorted(before - after)} if before - after else {}
    cloud.call(Call("ec2.modify_vpc_endpoint", arguments), values)


ROWS = (
    Row(
        "aws:ec2/eip:Eip",
        source="internal/service/ec2/ec2_eip.go",
        replaces="address customerOwnedIpv4Pool domain networkBorderGroup publicIpv4Pool",
        create=Call("ec2.allocate_address", takes="domain", answer="AllocationId"),
        read=Call("ec2.describe_addresses", {"AllocationIds": ["{id}"]}, "Addresses[0]"),
        delete=(Call("ec2.release_address", {"AllocationId": "{id}"}),),
        arn=arn("elastic-ip"),
        holders=(
            Holder(
                "it is associated by",
                Call("ec2.describe_addresses", {"AllocationIds": ["{id}"]}, "Addresses[0].AssociationId"),
            ),
        ),
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/natGateway:NatGateway",
        source="internal/service/ec2/vpc_nat_gateway.go",
        replaces="allocationId connectivityType privateIp subnetId",
        create=Call(
            "ec2.create_nat_gateway",
            takes="allocationId subnetId connectivityType",
            answer="NatGateway.NatGatewayId",
        ),
        read=Call(
            "ec2.describe_nat_gateways", {"NatGatewayIds": ["{id}"]}, "NatGateways[?State!='deleted'] | [0]"
        ),
        delete=(Call("ec2.delete_nat_gateway", {"NatGatewayId": "{id}"}), _nat_gone),
        reads={"allocationId": "NatGatewayAddresses[0].AllocationId"},
        outputs={
            "publicIp": "NatGatewayAddresses[0].PublicIp",
            "networkInterfaceId": "NatGatewayAddresses[0].NetworkInterfaceId",
        },
        tagging=EC2_TAGS,
    ),
    Row(
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        source="internal/service/ec2/vpc_endpoint.go",
        replaces="serviceName serviceRegion vpcEndpointType vpcId resourceConfigurationArn serviceNetworkArn",
        create=Call(
            "ec2.create_vpc_endpoint",
            takes="vpcId serviceName vpcEndpointType routeTableIds subnetIds securityGroupIds privateDnsEnabled",
            answer="VpcEndpoint.VpcEndpointId",
        ),
        read=Call(
            "ec2.describe_vpc_endpoints",
            {"VpcEndpointIds": ["{id}"]},
            "VpcEndpoints[?State!='deleted'] | [0]",
        ),
        delete=(Call("ec2.delete_vpc_endpoints", {"VpcEndpointIds": ["{id}"]}),),
        arn=arn("vpc-endpoint"),
        settings={
            **dict.fromkeys(("routeTableIds", "subnetIds", "securityGroupIds"), _change_endpoint),
            "privateDnsEnabled": Call(
                "ec2.modify_vpc_endpoint",
                {"VpcEndpointId": "{id}", "PrivateDnsEnabled": "{privateDnsEnabled}"},
            ),
        },
        reads={"securityGroupIds": "Groups[].GroupId"},
        tagging=EC2_TAGS,
    ),
)
