"""The network of a cluster that this stack makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components import conventions
from components.facts import address_plan
from components.settings.network import NatGateways, NetworkSettings

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """What a network is made of.

    Attributes:
        settings: range, zones, NAT gateways and interface endpoints.
        region: region of the zones.
        cluster_name: cluster whose Karpenter finds the private subnets and the node security group by tag.
        protect: refuse to delete the VPC until this is turned off.
    """

    settings: NetworkSettings
    region: str
    cluster_name: str
    protect: bool = True


class Network(pulumi.ComponentResource):
    """A VPC for an EKS cluster with GPU nodes.

    Makes:
    * the VPC, and its default security group without any rule, so that nothing uses it by accident;
    * per zone a private /19 (nodes and pods) and a public /24 (load balancers, NAT), at addresses that never move;
    * an internet gateway, one NAT gateway or one per zone, a public route table and a private one per zone;
    * a free gateway endpoint for S3 on every route table (weights and image layers), and interface endpoints;
    * the one security group of all nodes: everything between its members in both directions (EFA needs it written as
      group to group), everything out, nothing else in.

    Subnets are tagged for Karpenter and the load balancer controller.
    """

    vpc_id: pulumi.Output[str]
    private_subnets: Mapping[str, pulumi.Output[str]]
    """Id of the private subnet by zone."""
    public_subnets: Mapping[str, pulumi.Output[str]]
    """Id of the public subnet by zone."""
    node_security_group_id: pulumi.Output[str]
    discovery_tags: Mapping[str, str]
    """Tags by which Karpenter finds the private subnets and the node security group."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Network", name, None, opts)
        self._name, self._args = name, args
        self._zones = args.settings.zones
        self.discovery_tags = {conventions.DISCOVERY_TAG: args.cluster_name}
        self._vpc = self._make_vpc()
        self.vpc_id = self._vpc.id
        private, public = self._make_subnets()
        tables = self._make_routes(private, public)
        self._make_endpoints(private, tables)
        self.node_security_group_id = self._make_node_group().id
        self.private_subnets = {zone: subnet.id for zone, subnet in private.items()}
        self.public_subnets = {zone: subnet.id for zone, subnet in public.items()}
        self.register_outputs(
            {
                "vpcId": self.vpc_id,
                "privateSubnets": self.private_subnets,
                "publicSubnets": self.public_subnets,
                "nodeSecurityGroupId": self.node_security_group_id,
            }
        )

    @property
    def private_subnet_ids(self) -> tuple[pulumi.Output[str], ...]:
        """Ids of the private subnets, in the order of the zones."""
        return tuple(self.private_subnets.values())

    def _child(self, *depends_on: pulumi.Resource, protect: bool | None = None) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on), protect=protect)

    def _tags(self, what: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """The name that the AWS console shows, and further tags."""
        return {"Name": f"{self._args.cluster_name}-{what}", **(extra or {})}

    def _make_vpc(self) -> aws.ec2.Vpc:
        vpc = aws.ec2.Vpc(
            f"{self._name}-vpc",
            cidr_block=self._args.settings.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # interface endpoints answer under the services' own names only with both
            tags=self._tags("vpc"),
            opts=self._child(protect=self._args.protect),
        )
        aws.ec2.DefaultSecurityGroup(
            f"{self._name}-default-security-group",
            vpc_id=vpc.id,
            tags=self._tags("unused"),
            opts=self._child(),
        )
        return vpc

    def _make_subnets(self) -> tuple[dict[str, aws.ec2.Subnet], dict[str, aws.ec2.Subnet]]:
        addresses = address_plan.plan(self._args.settings.cidr, self._zones)
        private_tags = {"kubernetes.io/role/internal-elb": "1", **self.discovery_tags}

        def subnet(tier: str, zone: str, cidr: str, tags: Mapping[str, str]) -> aws.ec2.Subnet:
            return aws.ec2.Subnet(
                f"{self._name}-{tier}-{zone}",
                vpc_id=self._vpc.id,
                availability_zone=zone,
                cidr_block=cidr,
                map_public_ip_on_launch=False,
                tags=self._tags(f"{tier}-{zone}", tags),
                opts=self._child(),
            )

        private = {zone: subnet("private", zone, a.private, private_tags) for zone, a in addresses.items()}
        public = {
            zone: subnet("public", zone, a.public, {"kubernetes.io/role/elb": "1"})
            for zone, a in addresses.items()
        }
        return private, public

    def _make_routes(
        self, private: Mapping[str, aws.ec2.Subnet], public: Mapping[str, aws.ec2.Subnet]
    ) -> list[aws.ec2.RouteTable]:
        gateway = aws.ec2.InternetGateway(
            f"{self._name}-internet", vpc_id=self._vpc.id, tags=self._tags("internet"), opts=self._child()
        )
        public_table = self._make_table("public")
        out = aws.ec2.Route(
            f"{self._name}-public-out",
            route_table_id=public_table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.id,
            opts=self._child(),
        )
        for zone, subnet in public.items():
            self._associate("public", zone, subnet, public_table)
        single = self._args.settings.nat_gateways is NatGateways.SINGLE
        nat_zones = self._zones[:1] if single else self._zones
        gateways = {zone: self._make_nat(zone, public[zone], out) for zone in nat_zones}
        tables = [public_table]
        for zone, subnet in private.items():
            table = self._make_table("private", zone)
            aws.ec2.Route(
                f"{self._name}-private-out-{zone}",
                route_table_id=table.id,
                destination_cidr_block=ANYWHERE,
                nat_gateway_id=gateways.get(zone, gateways[nat_zones[0]]).id,
                opts=self._child(),
            )
            self._associate("private", zone, subnet, table)
            tables.append(table)
        return tables

    def _make_table(self, tier: str, zone: str | None = None) -> aws.ec2.RouteTable:
        what = f"{tier}-{zone}" if zone else tier
        return aws.ec2.RouteTable(
            f"{self._name}-routes-{what}", vpc_id=self._vpc.id, tags=self._tags(what), opts=self._child()
        )

    def _associate(self, tier: str, zone: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> None:
        aws.ec2.RouteTableAssociation(
            f"{self._name}-routes-of-{tier}-{zone}",
            subnet_id=subnet.id,
            route_table_id=table.id,
            opts=self._child(),
        )

    def _make_nat(self, zone: str, subnet: aws.ec2.Subnet, out: aws.ec2.Route) -> aws.ec2.NatGateway:
        address = aws.ec2.Eip(
            f"{self._name}-nat-address-{zone}",
            domain="vpc",
            tags=self._tags(f"nat-{zone}"),
            opts=self._child(),
        )
        return aws.ec2.NatGateway(
            f"{self._name}-nat-{zone}",
            allocation_id=address.id,
            subnet_id=subnet.id,
            tags=self._tags(f"nat-{zone}"),
            opts=self._child(out),  # a NAT gateway without a way to the internet is created broken
        )

    def _make_endpoints(
        self, private: Mapping[str, aws.ec2.Subnet], tables: Sequence[aws.ec2.RouteTable]
    ) -> None:
        region, services = self._args.region, self._args.settings.interface_endpoints
        aws.ec2.VpcEndpoint(
            f"{self._name}-s3-gateway",
            vpc_id=self._vpc.id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{region}.s3",
            route_table_ids=[table.id for table in tables],
            tags=self._tags("s3"),
            opts=self._child(),
        )
        if not services:
            return
        group = self._make_endpoint_group()
        for service in services:
            aws.ec2.VpcEndpoint(
                f"{self._name}-endpoint-{service}",
                vpc_id=self._vpc.id,
                vpc_endpoint_type="Interface",
                service_name=f"com.amazonaws.{region}.{service}",
                subnet_ids=[subnet.id for subnet in private.values()],
                security_group_ids=[group.id],
                private_dns_enabled=True,
                tags=self._tags(service),
                opts=self._child(),
            )

    def _make_endpoint_group(self) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            f"{self._name}-endpoints",
            vpc_id=self._vpc.id,
            description="AWS services reached from inside the VPC",
            tags=self._tags("endpoints"),
            opts=self._child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-endpoints-in",
            security_group_id=group.id,
            description="TLS from the VPC",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            cidr_ipv4=self._args.settings.cidr,
            opts=self._child(),
        )
        return group

    def _make_node_group(self) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            f"{self._name}-nodes",
            vpc_id=self._vpc.id,
            description="Nodes of the cluster and the pods on them",
            revoke_rules_on_delete=True,  # the cluster's own group and the load balancers' refer to it
            tags=self._tags("nodes", self.discovery_tags),
            opts=self._child(),
        )
        # EFA traffic bypasses the operating system and passes only rules that name the group itself, in both
        # directions (EC2 user guide, "prepare an EFA-enabled security group").
        aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-nodes-in-self",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="Between nodes and pods",
            ip_protocol="-1",
            opts=self._child(),
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{self._name}-nodes-out-self",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            description="Between nodes and pods, also EFA",
            ip_protocol="-1",
            opts=self._child(),
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{self._name}-nodes-out",
            security_group_id=group.id,
            description="To images, weights and AWS",
            ip_protocol="-1",
            cidr_ipv4=ANYWHERE,
            opts=self._child(),
        )
        return group
