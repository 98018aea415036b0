"""Ingress of a model: its host name on the stack's one load balancer.

All models of a stack share a group, which the AWS load balancer controller turns into one ALB; what belongs to the
balancer itself (scheme, attributes, networks) must then be the same in each of them. Only the OpenAI API is reachable
from outside: Ray's and vLLM's other paths (metrics, documentation, tokenizing) stay inside.
"""

import json
from typing import Any

from components import conventions
from components.manifests.drain import ON_DEMAND, drain_of
from components.manifests.ray_service import service_name
from components.settings.extras import EndpointSettings, Scheme
from components.settings.models import Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

INGRESS_CLASS = "alb"
API_PATH = "/v1"

_PREFIX = "alb.ingress.kubernetes.io/"
_TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
_MOST_DEREGISTRATION = 3600


def ingress_group(platform: PlatformSettings) -> str:
    """Name of the group, and so of the load balancer, of a stack's models. It is one per cluster and namespace."""
    return f"{conventions.PROJECT}-{platform.namespace}"[:63].rstrip("-")


def model_ingress(model: Model, platform: PlatformSettings, *, wait: bool = True) -> Manifest | None:
    """The Ingress of a model, or None where the stack has no endpoint."""
    endpoint, host = platform.endpoint, platform.host_of(model)
    if endpoint is None or host is None:
        return None
    backend = {"service": {"name": service_name(model), "port": {"number": conventions.SERVE_PORT}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": model.name,
            "namespace": platform.namespace,
            "labels": conventions.labels("kuberay", "ingress", model.name),
            "annotations": {
                **_balancer(endpoint, platform),
                **_targets(model, platform),
                **({} if wait else {"pulumi.com/skipAwait": "true"}),
            },
        },
        "spec": {
            "ingressClassName": INGRESS_CLASS,
            "rules": [
                {
                    "host": host,
                    "http": {"paths": [{"path": API_PATH, "pathType": "Prefix", "backend": backend}]},
                }
            ],
        },
    }


def _balancer(endpoint: EndpointSettings, platform: PlatformSettings) -> dict[str, str]:
    """What is the same in every Ingress of the group."""
    internal = endpoint.scheme is Scheme.INTERNAL
    attributes = {
        "idle_timeout.timeout_seconds": str(endpoint.idle_timeout),
        "routing.http.drop_invalid_header_fields.enabled": "true",
    }
    return {
        f"{_PREFIX}group.name": ingress_group(platform),
        f"{_PREFIX}scheme": "internal" if internal else "internet-facing",
        f"{_PREFIX}target-type": "ip",
        f"{_PREFIX}load-balancer-attributes": _pairs(attributes),
        f"{_PREFIX}listen-ports": json.dumps(
            [{"HTTP": 80}, *([{"HTTPS": 443}] if endpoint.certificate_arn else [])]
        ),
        **(
            {
                f"{_PREFIX}certificate-arn": endpoint.certificate_arn,
                f"{_PREFIX}ssl-policy": _TLS_POLICY,
                f"{_PREFIX}ssl-redirect": "443",
            }
            if endpoint.certificate_arn
            else {}
        ),
        **({f"{_PREFIX}inbound-cidrs": ",".join(endpoint.cidrs)} if endpoint.cidrs else {}),
    }


def _targets(model: Model, platform: PlatformSettings) -> dict[str, str]:
    """The model's own target group: streams of a leaving pod may end, and a busy pod gets less."""
    drain = ON_DEMAND if model.has_ingress_group else drain_of(model, platform.pool_of(model))
    attributes = {
        "deregistration_delay.timeout_seconds": str(min(drain.ray_drain, _MOST_DEREGISTRATION)),
        "load_balancing.algorithm.type": "least_outstanding_requests",
    }
    return {
        f"{_PREFIX}backend-protocol": "HTTP",
        f"{_PREFIX}target-group-attributes": _pairs(attributes),
        f"{_PREFIX}healthcheck-path": conventions.SERVE_HEALTH_PATH,
        f"{_PREFIX}healthcheck-port": "traffic-port",
        f"{_PREFIX}healthcheck-protocol": "HTTP",
        f"{_PREFIX}healthcheck-interval-seconds": "10",
        f"{_PREFIX}healthcheck-timeout-seconds": "5",
        f"{_PREFIX}healthy-threshold-count": "2",
        f"{_PREFIX}unhealthy-threshold-count": "2",
        f"{_PREFIX}success-codes": "200",
    }


def _pairs(attributes: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in attributes.items())
