"""Who reaches a model's pods, and what they reach."""

from typing import Any

import pytest

from components.manifests.network_policies import Neighbours, around_stack, network_policies
from components.settings.cluster import ClusterSettings, CreateCluster
from components.settings.extras import Scheme
from components.settings.models import Loader, Model, Redis
from components.settings.network import NetworkSettings
from components.settings.platform import PlatformSettings
from tests.unit.manifests.serving_samples import endpoint, hub_model, model, platform

VPC = Neighbours(
    balancer=("10.0.1.0/24",), redis=("10.0.2.0/24",), prometheus="http://prometheus.monitoring.svc:9090"
)


def _policies(
    served: Model | None = None, stack: PlatformSettings | None = None, around: Neighbours = VPC
) -> dict[str, Any]:
    return {
        policy["metadata"]["name"]: policy["spec"]
        for policy in network_policies(served or model(), stack or platform(endpoint=endpoint()), around)
    }


def _opened(rules: list[dict[str, Any]]) -> set[int]:
    return {port["port"] for rule in rules for port in rule.get("ports", [])}


def _sources(rules: list[dict[str, Any]], port: int, side: str = "from") -> list[Any]:
    return [
        peer
        for rule in rules
        if port in {item["port"] for item in rule.get("ports", [])}
        for peer in rule[side]
    ]


def test_both_directions_are_closed_for_all_pods() -> None:
    """What is not named is refused, in and out."""
    spec = _policies()["chat-ray"]

    assert spec["podSelector"] == {"matchLabels": {"app.kubernetes.io/instance": "chat"}}
    assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_pods_of_the_model_talk_freely() -> None:
    """Ray uses many ports among its own."""
    own = {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "chat"}}}
    spec = _policies()["chat-ray"]

    assert {"from": [own]} in spec["ingress"]
    assert {"to": [own]} in spec["egress"]


def test_http_from_the_load_balancer_and_the_namespace() -> None:
    """Port 8000 for the balancer's networks and for neighbours such as a benchmark."""
    assert _sources(_policies()["chat-ray"]["ingress"], 8000) == [
        {"podSelector": {}},
        {"ipBlock": {"cidr": "10.0.1.0/24"}},
    ]


def test_without_an_endpoint_no_network_gets_in() -> None:
    """Then there is no balancer."""
    assert _sources(_policies(stack=platform())["chat-ray"]["ingress"], 8000) == [{"podSelector": {}}]


def test_metrics_for_monitoring_only() -> None:
    """Three ports, one namespace."""
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}

    for port in (8080, 44217, 44227):
        assert _sources(_policies()["chat-ray"]["ingress"], port) == [monitoring]


def test_head_ports_are_closed_to_the_outside() -> None:
    """State, client and dashboard run anybody's code: 6379 and 10001 for nobody, 8265 for KubeRay."""
    policies = _policies()
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kuberay-system"}}}

    assert _opened(policies["chat-ray"]["ingress"]) == {8000, 8080, 44217, 44227}
    assert _opened(policies["chat-head"]["ingress"]) == {8265, 8000}
    assert _sources(policies["chat-head"]["ingress"], 8265) == [operator]


def test_operator_elsewhere() -> None:
    """An existing cluster may run KubeRay in another namespace."""
    around = Neighbours(operator_namespace="ray")
    (rule,) = _policies(around=around)["chat-head"]["ingress"]

    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray"}}}]


def test_names_are_resolved() -> None:
    """DNS over both protocols."""
    rule = next(rule for rule in _policies()["chat-ray"]["egress"] if "ports" in rule)

    assert rule["ports"] == [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


def test_only_the_head_reaches_the_api() -> None:
    """Its autoscaler does; workers with mounted weights reach nothing outside."""
    policies = _policies()

    assert _opened(policies["chat-head"]["egress"]) == {443, 9090}
    assert _opened(policies["chat-ray"]["egress"]) == {53}
    assert "chat-weights" not in policies


@pytest.mark.parametrize("served", [model(loader=Loader.STREAMER), hub_model()])
def test_workers_that_read_weights_themselves_reach_https(served: Model) -> None:
    """S3 or the hub, and the agent that gives them credentials."""
    spec = _policies(served)["chat-weights"]

    assert spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "ray-worker"
    assert spec["policyTypes"] == ["Egress"]
    assert _sources(spec["egress"], 443, "to") == [{"ipBlock": {"cidr": "0.0.0.0/0"}}]
    assert _sources(spec["egress"], 80, "to") == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]


def test_redis_for_the_head() -> None:
    """By its port, in its networks."""
    served = model(redis=Redis(address="rediss://redis:6380"))

    assert _sources(_policies(served)["chat-head"]["egress"], 6380, "to") == [
        {"ipBlock": {"cidr": "10.0.2.0/24"}}
    ]


def test_no_prometheus_no_way_to_it() -> None:
    """A stack without monitoring opens nothing for it."""
    assert _opened(_policies(around=Neighbours())["chat-head"]["egress"]) == {443}


@pytest.mark.parametrize(
    ("scheme", "balancer"),
    [
        (Scheme.INTERNAL, ("10.0.0.0/19", "10.0.32.0/19")),
        (Scheme.INTERNET_FACING, ("10.0.192.0/24", "10.0.193.0/24")),
    ],
)
def test_the_balancer_is_in_known_subnets(scheme: Scheme, balancer: tuple[str, ...]) -> None:
    """Public subnets hold balancers and NAT gateways only, so no pod of another namespace is let in by them."""
    made = {
        "account_id": "111122223333",
        "cluster": ClusterSettings(create=CreateCluster(name="c")),
        "network": NetworkSettings(zones=("us-west-2a", "us-west-2b")),
    }
    around = around_stack(platform(endpoint=endpoint(scheme=scheme), **made))

    assert around.balancer == balancer
    assert around.redis == ("10.0.0.0/19", "10.0.32.0/19")


def test_a_network_of_others_is_not_known() -> None:
    """On an existing cluster all private ranges remain, unless the caller knows better."""
    assert around_stack(platform(endpoint=endpoint())) == Neighbours()
    assert around_stack(platform(), balancer=("10.9.0.0/24",)) == Neighbours(balancer=("10.9.0.0/24",))
