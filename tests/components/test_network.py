"""The network that a stack makes."""

from typing import Any

from components.network import Network, NetworkArgs
from tests.components.infra import REGION, Graph, once, registered, settings, unknown


@once
def network(*, protect: bool = True, **changes: Any) -> Graph:
    """What a network registers, with some of its settings changed."""
    stack = settings(network={"cidr": "10.40.0.0/16", "zones": ["us-west-2a", "us-west-2b"], **changes})
    assert stack.network
    args = NetworkArgs(settings=stack.network, region=REGION, cluster_name="demo", protect=protect)
    return registered(lambda: Network("network", args))


def test_subnets_have_their_addresses_and_tags() -> None:
    """Private subnets are found by Karpenter and internal load balancers, public ones by the others."""
    graph = network()

    assert {name: (graph.inputs(name)["cidrBlock"], graph.inputs(name)["availabilityZone"], graph.inputs(name)["tags"])
            for name in graph.names(":Subnet")} == {
        "network-private-us-west-2a": (
            "10.40.0.0/19",
            "us-west-2a",
            {"Name": "demo-private-us-west-2a", "kubernetes.io/role/internal-elb": "1", "karpenter.sh/discovery": "demo"},
        ),
        "network-private-us-west-2b": (
            "10.40.32.0/19",
            "us-west-2b",
            {"Name": "demo-private-us-west-2b", "kubernetes.io/role/internal-elb": "1", "karpenter.sh/discovery": "demo"},
        ),
        "network-public-us-west-2a": (
            "10.40.192.0/24", "us-west-2a", {"Name": "demo-public-us-west-2a", "kubernetes.io/role/elb": "1"},
        ),
        "network-public-us-west-2b": (
            "10.40.193.0/24", "us-west-2b", {"Name": "demo-public-us-west-2b", "kubernetes.io/role/elb": "1"},
        ),
    }  # fmt: skip


def test_another_zone_moves_nothing() -> None:
    """A zone more, wherever it is written, registers further resources and changes none but the shared endpoints."""
    before, after = network(), network(zones=["us-west-2c", "us-west-2a", "us-west-2b"])
    shared = {"network-s3-gateway", *(name for name in before.names(":VpcEndpoint") if "-endpoint-" in name)}
    same = [name for name in before.names() if name not in shared]

    assert [name for name in same if name not in after or before.inputs(name) != after.inputs(name)] == []
    assert len(after.names()) > len(before.names())


def test_one_security_group_is_for_nodes() -> None:
    """Exactly one security group has Karpenter's tag: two would confuse the load balancer controller."""
    graph = network()

    assert [
        name
        for name in graph.names(":SecurityGroup")
        if "karpenter.sh/discovery" in graph.inputs(name)["tags"]
    ] == ["network-nodes"]
    assert graph.inputs("network-nodes")["revokeRulesOnDelete"] is True


def test_nodes_talk_to_each_other_in_both_directions() -> None:
    """EFA passes only rules from the group to itself, all protocols, in and out."""
    graph = network()
    ingress, egress = graph.inputs("network-nodes-in-self"), graph.inputs("network-nodes-out-self")

    for rule in (ingress, egress):
        assert rule["ipProtocol"] == "-1"
        assert unknown(rule["referencedSecurityGroupId"])
    assert graph.dependencies("network-nodes-in-self") == {"network-nodes"}
    assert graph["network-nodes-in-self"].type == "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    assert graph["network-nodes-out-self"].type == "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"


def test_nobody_else_gets_in() -> None:
    """The only way in from outside the nodes' group is TLS to the interface endpoints, from inside the VPC."""
    graph = network()

    assert {
        name: graph.inputs(name)["cidrIpv4"]
        for name in graph.names("IngressRule")
        if "cidrIpv4" in graph.inputs(name)
    } == {"network-endpoints-in": "10.40.0.0/16"}
    assert "ingress" not in graph.inputs("network-default-security-group")


def test_s3_is_reached_from_every_route_table() -> None:
    """Weights and image layers never pass a NAT gateway."""
    graph = network()
    endpoint = graph.inputs("network-s3-gateway")

    assert (endpoint["vpcEndpointType"], endpoint["serviceName"]) == ("Gateway", "com.amazonaws.us-west-2.s3")
    assert graph.dependencies("network-s3-gateway") == {
        "network-vpc", "network-routes-public", "network-routes-private-us-west-2a", "network-routes-private-us-west-2b",
    }  # fmt: skip


def test_interface_endpoints_answer_under_their_own_names() -> None:
    """Each service has an endpoint in every private subnet."""
    graph = network(interfaceEndpoints=["ecr.api"])
    endpoint = graph.inputs("network-endpoint-ecr.api")

    assert (endpoint["vpcEndpointType"], endpoint["serviceName"], endpoint["privateDnsEnabled"]) == (
        "Interface", "com.amazonaws.us-west-2.ecr.api", True,
    )  # fmt: skip
    assert {
        "network-private-us-west-2a",
        "network-private-us-west-2b",
        "network-endpoints",
    } <= graph.dependencies("network-endpoint-ecr.api")


def test_no_endpoints_no_group() -> None:
    """Without interface endpoints there is no group for them."""
    graph = network(interfaceEndpoints=[])

    assert graph.names(":VpcEndpoint") == ["network-s3-gateway"]
    assert "network-endpoints" not in graph


def test_nat_gateway_per_zone() -> None:
    """Each private subnet leaves through the gateway of its own zone."""
    graph = network(natGateways="perZone")

    assert graph.names(":NatGateway") == ["network-nat-us-west-2a", "network-nat-us-west-2b"]
    for zone in ("us-west-2a", "us-west-2b"):
        assert graph.dependencies(f"network-private-out-{zone}") == {
            f"network-routes-private-{zone}", f"network-nat-{zone}",
        }  # fmt: skip


def test_single_nat_gateway() -> None:
    """All private subnets leave through the gateway of the first zone."""
    graph = network(natGateways="single")

    assert graph.names(":NatGateway") == ["network-nat-us-west-2a"]
    assert "network-nat-us-west-2a" in graph.dependencies("network-private-out-us-west-2b")


def test_nat_gateway_waits_for_its_way_out() -> None:
    """A NAT gateway made before the public route exists would be broken."""
    assert "network-public-out" in network().dependencies("network-nat-us-west-2a")


def test_vpc_is_protected() -> None:
    """The VPC is protected from a destroy unless the settings say otherwise."""
    assert network()["network-vpc"].request.protect
    assert not network(protect=False)["network-vpc"].request.protect


def test_children_are_the_components_own() -> None:
    """Everything is a direct child, so that who depends on the network waits for all of it."""
    graph = network()

    assert {graph.parent(name) for name in graph.names() if name != "network"} == {"network"}
