"""Private ports of Ray that are published."""

from collections.abc import Iterator

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.rules.exposure import limits_networks
from guardrails.values import get, mapping, mappings, text, text_map, whole
from guardrails.world import World

DASHBOARD = Rule(
    id="ray-dashboard-exposed",
    severity=Severity.ERROR,
    sentence="Ray's dashboard, client and GCS ports are not published outside of the cluster.",
    why="They run any code for whoever reaches them.",
    remedy="publish port 8000 only; reach the dashboard by kubectl port-forward",
    source="Ray security guide; ShadowRay, CVE-2023-48022",
    framework="NSA Kubernetes Hardening, network separation",
)
_ALB = "alb.ingress.kubernetes.io/"
PRIVATE_PORTS = {8265: "dashboard", 10001: "client", 6379: "gcs", 52365: "dashboard agent"}
_PRIVATE_NAMES = frozenset({"dashboard", "client", "gcs", "gcs-server", "dash-agent", "dashboard-agent"})


# ---------------------------------------------------------------------- exposure


def dashboard(world: World) -> Iterator[Hit]:
    """Private ports behind load balancers and Ingresses."""
    for service in world.services:
        kind = text(service.get("spec", "type"))
        if kind in ("LoadBalancer", "NodePort") and _is_ray_service(world, service):
            for index, item in world.service_ports(service):
                found = _private(item)
                if found:
                    severity = Severity.WARN if kind == "NodePort" or _is_limited(service) else None
                    message = f"{service.label} of type {kind} publishes Ray's {found} port {text(item.get('port'))}"
                    yield Hit(service, ("spec", "ports", index), message, severity)
    for subject, path, cluster in world.ray_clusters:
        head = mapping(cluster.get("headGroupSpec"))
        if text(head.get("serviceType")) in ("LoadBalancer", "NodePort"):
            message = f"headGroupSpec.serviceType {head['serviceType']} publishes every port of the head, dashboard and GCS too"
            severity = Severity.WARN if head["serviceType"] == "NodePort" else None
            yield Hit(subject, (*path, "headGroupSpec", "serviceType"), message, severity)
        if head.get("enableIngress") is True:
            yield Hit(
                subject,
                (*path, "headGroupSpec", "enableIngress"),
                "enableIngress publishes Ray's dashboard by an Ingress",
            )
    yield from _ingresses(world)


def _private(item: dict[str, object]) -> str:
    """Name of the private port that a Service port leads to."""
    for value in (item.get("targetPort"), item.get("port")):
        found = PRIVATE_PORTS.get(whole(value) or 0)
        if found:
            return found
    for value in (item.get("targetPort"), item.get("name")):
        if text(value) in _PRIVATE_NAMES:
            return text(value) or ""
    return ""


def _is_ray_service(world: World, service: Subject) -> bool:
    selector = text_map(service.get("spec", "selector"))
    ports = {whole(item.get("port")) for _, item in world.service_ports(service)}
    named = any(key.startswith("ray.io/") for key in selector) or "ray" in service.name
    return named or any(pod.is_ray for pod in world.pods_of_service(service)) or 8265 in ports  # noqa: PLR2004


def _is_limited(service: Subject) -> bool:
    marks = text_map(service.get("metadata", "annotations"))
    internal = "internal" in (
        marks.get("service.beta.kubernetes.io/aws-load-balancer-scheme"),
        "internal" if marks.get("service.beta.kubernetes.io/aws-load-balancer-internal") == "true" else "",
    )
    return internal or bool(service.get("spec", "loadBalancerSourceRanges"))


def _ingresses(world: World) -> Iterator[Hit]:
    services = {(item.namespace, item.name): item for item in world.services}
    for subject in world.kind("Ingress"):
        for path, backend in _backends(subject):
            name, number_of = (
                text(get(backend, "service", "name")) or "",
                get(backend, "service", "port", "number"),
            )
            named = text(get(backend, "service", "port", "name"))
            port = whole(number_of)
            service = services.get((subject.namespace, name))
            looks_like_ray = (
                "ray" in name
                or name.endswith("-head-svc")
                or bool(service and _is_ray_service(world, service))
            )
            found = PRIVATE_PORTS.get(port or 0, "") or (named if named in _PRIVATE_NAMES else "")
            if found and (looks_like_ray or port in (8265, 10001)):
                severity = (
                    Severity.WARN if _is_kept(text_map(subject.get("metadata", "annotations"))) else None
                )
                yield Hit(subject, path, f"{subject.label} publishes Ray's {found} port of {name}", severity)


def _is_kept(marks: dict[str, str]) -> bool:
    """Whether an ALB stays inside the VPC, asks who is there, or knows its callers' networks."""
    return (
        marks.get(f"{_ALB}scheme") == "internal"
        or marks.get(f"{_ALB}auth-type", "none") != "none"
        or limits_networks(marks.get(f"{_ALB}inbound-cidrs", ""))
    )


def _backends(subject: Subject) -> Iterator[tuple[Path, object]]:
    yield ("spec", "defaultBackend"), subject.get("spec", "defaultBackend")
    for place, rule in mappings(subject.get("spec", "rules")):
        for index, item in mappings(get(rule, "http", "paths")):
            yield ("spec", "rules", place, "http", "paths", index, "backend"), item.get("backend")


RULES: Table = ((DASHBOARD, dashboard),)
