"""A model's host name on the stack's load balancer."""

from typing import Any

from components.manifests.ingress import ingress_group, model_ingress
from components.settings.extras import EndpointSettings, Scheme
from components.settings.models import ServingMode
from components.settings.pools import Capacity
from tests.unit.manifests.serving_samples import endpoint, model, platform, pool

PREFIX = "alb.ingress.kubernetes.io/"


def _ingress(given: EndpointSettings | None = None, **changes: Any) -> dict[str, Any]:
    ingress = model_ingress(model(), platform(endpoint=given or endpoint()), **changes)
    assert ingress
    return ingress


def _annotation(name: str, given: EndpointSettings | None = None) -> str | None:
    value: str | None = _ingress(given)["metadata"]["annotations"].get(f"{PREFIX}{name}")
    return value


def test_host_and_backend() -> None:
    """The model's own name before the endpoint's, to the Service that follows the active cluster; the API alone."""
    assert _ingress()["spec"] == {
        "ingressClassName": "alb",
        "rules": [
            {
                "host": "chat.llm.example.com",
                "http": {
                    "paths": [
                        {
                            "path": "/v1",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": "chat-serve-svc", "port": {"number": 8000}}},
                        }
                    ]
                },
            }
        ],
    }


def test_no_endpoint_no_ingress() -> None:
    """A stack without an endpoint has no load balancer."""
    assert model_ingress(model(), platform()) is None


def test_one_group_for_the_stack() -> None:
    """All models share one load balancer."""
    assert _annotation("group.name") == "llm-platform-llm-serving"


def test_group_name_is_short_enough() -> None:
    """The controller takes 63 characters."""
    assert ingress_group(platform(namespace="n" * 63)) == "llm-platform-" + "n" * 50


def test_internal_by_default() -> None:
    """Nobody outside the network reaches it."""
    assert _annotation("scheme") == "internal"


def test_internet_facing() -> None:
    """Only where it is asked for, and for the networks that are named."""
    given = endpoint(scheme=Scheme.INTERNET_FACING, cidrs=("198.51.100.0/24", "203.0.113.0/24"))

    assert _annotation("scheme", given) == "internet-facing"
    assert _annotation("inbound-cidrs", given) == "198.51.100.0/24,203.0.113.0/24"


def test_tls() -> None:
    """With a certificate plain HTTP is only sent on."""
    assert _annotation("listen-ports") == '[{"HTTP": 80}, {"HTTPS": 443}]'
    assert _annotation("ssl-redirect") == "443"
    assert _annotation("ssl-policy") == "ELBSecurityPolicy-TLS13-1-2-2021-06"


def test_without_a_certificate() -> None:
    """Plain HTTP, inside."""
    given = endpoint(certificate_arn=None)

    assert _annotation("listen-ports", given) == '[{"HTTP": 80}]'
    assert _annotation("ssl-redirect", given) is None


def test_streams_may_pause() -> None:
    """The balancer's own 60 s would cut them."""
    attributes = _annotation("load-balancer-attributes", endpoint(idle_timeout=400))

    assert (
        attributes == "idle_timeout.timeout_seconds=400,routing.http.drop_invalid_header_fields.enabled=true"
    )


def test_health_is_the_proxys() -> None:
    """Of the pod that is asked, not of the model."""
    assert _annotation("healthcheck-path") == "/-/healthz"
    assert _annotation("target-type") == "ip"


def test_leaving_pods_end_their_streams() -> None:
    """As long as Ray drains: ingress pods are on-demand, engines of direct mode may be spot."""
    direct = model(serving=ServingMode.DIRECT)
    stack = platform(direct, endpoint=endpoint(), gpu_pools=(pool(capacity=(Capacity.SPOT,)),))
    ingress = model_ingress(direct, stack)
    assert ingress

    balanced = "load_balancing.algorithm.type=least_outstanding_requests"
    name = f"{PREFIX}target-group-attributes"
    assert _annotation("target-group-attributes") == f"deregistration_delay.timeout_seconds=560,{balanced}"
    assert ingress["metadata"]["annotations"][name] == f"deregistration_delay.timeout_seconds=95,{balanced}"


def test_pulumi_need_not_wait() -> None:
    """Where no controller runs no address ever comes."""
    assert _ingress(wait=False)["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert "pulumi.com/skipAwait" not in _ingress()["metadata"]["annotations"]
