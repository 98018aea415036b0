"""NetworkPolicies: who reaches a model's pods and its helpers', and what they reach.

An open Ray dashboard or client port runs anybody's code, so the head's ports are for the cluster itself and for KubeRay
alone. Policies add up: one for all pods of the model, one for what only the head does, one for workers that read S3.
The kubelet's probes are always let through.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from components import conventions
from components.facts import address_plan
from components.manifests.serve import streams_from_bucket
from components.settings.extras import Scheme
from components.settings.models import Loader, Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

PRIVATE_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
"""Where the load balancer's nodes and Redis are, in a VPC whose network this stack does not know."""

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_HTTP, _HTTPS = 80, 443
_REDIS_PORT = 6379
_NODE_LOCAL_DNS = "169.254.20.10/32"
_POD_IDENTITY_AGENT = "169.254.170.23/32"  # on the node itself, link-local


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Namespaces and networks that take part in a model's traffic."""

    operator_namespace: str = conventions.KUBERAY_NAMESPACE
    monitoring_namespace: str = conventions.MONITORING_NAMESPACE
    balancer: tuple[str, ...] = PRIVATE_NETWORKS
    redis: tuple[str, ...] = PRIVATE_NETWORKS
    prometheus: str | None = None


def network_policies(model: Model, platform: PlatformSettings, around: Neighbours) -> list[Manifest]:
    """The policies of a model's pods."""
    head, worker = conventions.HEAD_COMPONENT, conventions.WORKER_COMPONENT
    specs = {
        "ray": _spec(model, None, _ingress_of_all(model, platform, around), _egress_of_all(model)),
        "head": _spec(model, head, _ingress_of_head(around), _egress_of_head(model, around)),
    }
    if egress := _egress_of_workers(model):
        specs["weights"] = _spec(model, worker, [], egress)
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {
                "name": f"{model.name}-{name}",
                "namespace": platform.namespace,
                "labels": conventions.labels("kuberay", "network-policy", model.name),
            },
            "spec": spec,
        }
        for name, spec in specs.items()
    ]


def around_stack(platform: PlatformSettings, **known: Any) -> Neighbours:
    """Neighbours in the network that the stack makes, as far as nothing else is known.

    A load balancer stands in the private subnets, or where the internet reaches it in the public ones, which hold no
    pods; Redis stands in the private ones.
    """
    if platform.network is None:
        return Neighbours(**known)
    zones = address_plan.plan(platform.network.cidr, platform.network.zones).values()
    private = tuple(zone.private for zone in zones)
    public = tuple(zone.public for zone in zones)
    outside = platform.endpoint is not None and platform.endpoint.scheme is Scheme.INTERNET_FACING
    return Neighbours(**{"balancer": public if outside else private, "redis": private, **known})


def closed(
    name: str, labels: Mapping[str, str], platform: PlatformSettings, egress: Sequence[Manifest] = ()
) -> Manifest:
    """Policy of pods that nobody calls, and that reach nothing but what ``egress`` says."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": platform.namespace, "labels": dict(labels)},
        "spec": {
            "podSelector": {"matchLabels": dict(labels)},
            "policyTypes": ["Ingress", "Egress"],
            **({"egress": list(egress)} if egress else {}),
        },
    }


def to_aws_and_hub() -> list[Manifest]:
    """Names, HTTPS (S3 and Hugging Face have too many addresses to name) and the agent that gives credentials."""
    return [
        _names(),
        {"to": [_network("0.0.0.0/0")], "ports": _tcp(_HTTPS)},
        {"to": [_network(_POD_IDENTITY_AGENT)], "ports": _tcp(_HTTP)},
    ]


def to_model(model: Model) -> list[Manifest]:
    """Names, and the model's API."""
    return [_names(), {"to": [_own_pods(model)], "ports": _tcp(conventions.SERVE_PORT)}]


def from_monitoring(port: int) -> Manifest:
    """Prometheus fetches metrics at a port."""
    return {"from": [_namespace(conventions.MONITORING_NAMESPACE)], "ports": _tcp(port)}


def _spec(model: Model, component: str | None, ingress: list[Manifest], egress: list[Manifest]) -> Manifest:
    labels = {
        conventions.INSTANCE_LABEL: model.name,
        **({conventions.COMPONENT_LABEL: component} if component else {}),
    }
    return {
        "podSelector": {"matchLabels": labels},
        "policyTypes": [*(["Ingress"] if ingress else []), "Egress"],
        **({"ingress": ingress} if ingress else {}),
        "egress": egress,
    }


def _ingress_of_all(model: Model, platform: PlatformSettings, around: Neighbours) -> list[Manifest]:
    callers: list[Manifest] = [{"podSelector": {}}]  # the stack's own namespace: benchmarks, other models
    if platform.endpoint:
        callers += [_network(cidr) for cidr in around.balancer]
    metrics = [conventions.PORTS[name] for name in ("metrics", "as-metrics", "dash-metrics")]
    return [
        {"from": [_own_pods(model)]},
        {"from": callers, "ports": _tcp(conventions.SERVE_PORT)},
        {"from": [_namespace(around.monitoring_namespace)], "ports": _tcp(*metrics)},
    ]


def _egress_of_all(model: Model) -> list[Manifest]:
    return [{"to": [_own_pods(model)]}, _names()]


def _names() -> Manifest:
    """The way to the resolvers."""
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [_namespace(conventions.SYSTEM_NAMESPACE), _network(_NODE_LOCAL_DNS)], "ports": dns}


def _ingress_of_head(around: Neighbours) -> list[Manifest]:
    """KubeRay puts the Serve document to the dashboard and asks the head's proxy for its health."""
    ports = _tcp(conventions.PORTS["dashboard"], conventions.SERVE_PORT)
    return [{"from": [_namespace(around.operator_namespace)], "ports": ports}]


def _egress_of_head(model: Model, around: Neighbours) -> list[Manifest]:
    """The Kubernetes API for the autoscaler, whose address EKS may change; Prometheus for the policy; Redis."""
    rules = [{"to": [_network("0.0.0.0/0")], "ports": _tcp(_HTTPS)}]
    if around.prometheus:
        port = urlsplit(around.prometheus).port or _HTTPS
        rules.append({"to": [_namespace(around.monitoring_namespace)], "ports": _tcp(port)})
    if model.redis is not None:
        port = (urlsplit(model.redis.address).port if model.redis.address else None) or _REDIS_PORT
        rules.append({"to": [_network(cidr) for cidr in around.redis], "ports": _tcp(port)})
    return rules


def _egress_of_workers(model: Model) -> list[Manifest]:
    """Mounted weights come through another pod and need none."""
    hub = model.source.kind == "huggingFace" and model.loader is Loader.LOCAL
    if not (streams_from_bucket(model) or model.engine.lora or hub):
        return []
    _, *outside = to_aws_and_hub()  # names are open to all pods of the model
    return outside


def _own_pods(model: Model) -> Manifest:
    return {"podSelector": {"matchLabels": {conventions.INSTANCE_LABEL: model.name}}}


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: name}}}


def _network(cidr: str) -> Manifest:
    return {"ipBlock": {"cidr": cidr}}


def _tcp(*ports: int) -> Sequence[Manifest]:
    return [{"protocol": "TCP", "port": port} for port in ports]
