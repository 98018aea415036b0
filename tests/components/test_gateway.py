"""The load balancer controller."""

from typing import Any

from components.cluster import cluster_for
from components.gateway import Gateway, GatewayArgs
from tests.components.infra import (
    EXISTING,
    STACK,
    Graph,
    existing,
    inside,
    once,
    registered,
    settings,
    unknown,
)

ENDPOINT = {"host": "llm.example.com"}


@once
def gateway(stack: Any = STACK, **changes: Any) -> Graph:
    """What the gateway registers, with some of the stack's settings changed."""
    wanted = settings(stack, **{"endpoint": ENDPOINT, **changes})

    def program() -> None:
        cluster = cluster_for(wanted)
        Gateway("gateway", GatewayArgs(settings=wanted, cluster=cluster), inside(cluster))

    return registered(program)


def test_controller_is_told_where_it_is() -> None:
    """Pods reach no instance metadata, so region, cluster and VPC are said."""
    chart = gateway().inputs("gateway-chart")
    values = chart["values"]

    assert (chart["chart"], chart["version"], chart["namespace"]) == (
        "aws-load-balancer-controller",
        "3.5.0",
        "kube-system",
    )
    assert (values["clusterName"], values["region"], unknown(values["vpcId"])) == ("demo", "us-west-2", True)
    assert values["serviceAccount"] == {"create": True, "name": "aws-load-balancer-controller"}


def test_services_do_not_depend_on_the_controller() -> None:
    """Its webhook on Services is off: without it every Service would fail while the controller is away."""
    assert gateway().inputs("gateway-chart")["values"]["enableServiceMutatorWebhook"] is False


def test_controller_has_its_role_first() -> None:
    """The policy is known at preview, and the controller starts with its role."""
    graph = gateway()
    trust = graph.document("gateway-controller", "assumeRolePolicy")["Statement"][0]["Condition"][
        "StringEquals"
    ]

    assert len(graph.document("gateway-policy")["Statement"]) == 16
    assert trust["aws:RequestTag/kubernetes-service-account"] == "aws-load-balancer-controller"
    assert {"gateway-identity", "gateway-controller-policy"} <= graph.dependencies("gateway-chart")


def test_controller_goes_before_nodes_and_permissions() -> None:
    """On destroy the controller still has nodes, permissions and a cluster."""
    assert {
        "gateway-policy", "gateway-controller", "gateway-identity", "cluster-system", "cluster-eks", "network-vpc",
    } <= gateway().outlived_by("gateway-chart")  # fmt: skip


def test_no_endpoint_no_controller() -> None:
    """A stack without an endpoint needs no load balancer."""
    assert gateway(endpoint=None).names(child_of="gateway") == []


def test_present_controller_is_left_alone() -> None:
    """Where the controller is, nothing is made."""
    assert gateway(EXISTING).names(child_of="gateway") == []


def test_existing_cluster_without_controller() -> None:
    """On a cluster that was there, the controller asks AWS for the VPC itself."""
    values = gateway(EXISTING, cluster=existing(loadBalancerController="install")).inputs("gateway-chart")[
        "values"
    ]

    assert values["clusterName"] == "theirs"
    assert "vpcId" not in values


def test_image_through_a_mirror() -> None:
    """With a mirror the controller's image comes from there."""
    values = gateway(images={"mirror": "mirror.example.com/all"}).inputs("gateway-chart")["values"]

    assert values["image"] == {"repository": "mirror.example.com/all/eks/aws-load-balancer-controller"}
