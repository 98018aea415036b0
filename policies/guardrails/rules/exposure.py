"""Who reaches the model and the node: load balancers, privileges, network policies."""

import json
from collections.abc import Iterator, Mapping

from guardrails.containers import Container
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.releases import ADDON_TYPES
from guardrails.values import flag, get, items, listed, mapping, mappings, text, texts
from guardrails.world import World

LB_OPEN = Rule(
    id="load-balancer-open",
    severity=Severity.ERROR,
    sentence="An internet-facing load balancer has TLS, authentication or a list of networks.",
    why="Anyone on the internet can use the model, and read others' prompts on the way.",
    remedy="make it internal, or add a certificate and inbound-cidrs or authentication",
    source="AWS Load Balancer Controller annotations; OWASP LLM10",
    framework="AWS Well-Architected SEC09-BP02",
)
PRIVILEGED = Rule(
    id="privileged-engine",
    severity=Severity.ERROR,
    sentence="An engine's container is not privileged.",
    why="It then reaches every GPU, device and process of the node. The device plugin alone is enough for GPUs.",
    remedy="remove privileged; for EFA the resource vpc.amazonaws.com/efa is enough",
    source="Pod Security Standards, baseline",
    framework="CIS EKS 4.1.1 / NSA Kubernetes Hardening, privileged containers",
    reads=("pod:containers.*.securityContext",),
)
HOST_NAMESPACES = Rule(
    id="host-namespaces",
    severity=Severity.WARN,
    sentence="An engine's pod does not share the node's processes or network.",
    why="It sees and can signal everything on the node, and its ports are the node's.",
    remedy="remove hostPID and hostNetwork",
    source="Pod Security Standards, baseline",
    framework="CIS EKS 4.1.2-4.1.4",
)
CAPABILITIES = Rule(
    id="engine-capabilities",
    severity=Severity.WARN,
    sentence="An engine's container has no capability that lets it out.",
    why="SYS_ADMIN is nearly root on the node; SYS_PTRACE reads the memory of other processes.",
    remedy="remove it (only debuggers need SYS_PTRACE)",
    source="Pod Security Standards, baseline",
    framework="CIS EKS 4.1.8",
)
NETWORK_POLICY = Rule(
    id="network-policy-not-enforced",
    severity=Severity.ERROR,
    sentence="Where there are NetworkPolicies, the VPC CNI enforces them.",
    why="Without enableNetworkPolicy the VPC CNI ignores them: the namespace looks closed and is open.",
    remedy='set enableNetworkPolicy: "true" in the configuration of the vpc-cni add-on',
    source="AWS EKS user guide, network policies",
    framework="CIS EKS 4.3",
)

_ALB = "alb.ingress.kubernetes.io/"
_NLB = "service.beta.kubernetes.io/aws-load-balancer-"
_WORLD = ("0.0.0.0/0", "::/0")
_ESCAPES = frozenset({"SYS_ADMIN", "SYS_PTRACE", "SYS_MODULE", "SYS_RAWIO", "DAC_READ_SEARCH", "BPF", "ALL"})


def _marks(subject: Subject) -> dict[str, str]:
    return {key: text(value) or "" for key, value in mapping(subject.get("metadata", "annotations")).items()}


def limits_networks(cidrs: str | list[str]) -> bool:
    """Whether a list of networks keeps anyone out."""
    named = [item.strip() for item in cidrs.split(",")] if isinstance(cidrs, str) else cidrs
    return bool([item for item in named if item]) and not any(item in _WORLD for item in named)


def lb_open(world: World) -> Iterator[Hit]:
    """Load balancers that anyone can use."""
    for subject in world.kind("Ingress"):
        yield from _ingress(world, subject)
    for subject in world.services:
        yield from _service(world, subject, subject.body, (), _marks(subject))
    for subject in world.kind("RayService", group="ray.io"):
        service = mapping(subject.get("spec", "serveService"))
        marks = {
            key: text(value) or "" for key, value in mapping(get(service, "metadata", "annotations")).items()
        }
        yield from _service(world, subject, service, ("spec", "serveService"), marks)


def _ingress(world: World, subject: Subject) -> Iterator[Hit]:
    marks = _marks(subject)
    scheme = marks.get(f"{_ALB}scheme") or _class_scheme(world, subject)
    if scheme != "internet-facing":
        return
    path: Path = ("metadata", "annotations", f"{_ALB}scheme")
    guarded = (
        limits_networks(marks.get(f"{_ALB}inbound-cidrs", ""))
        or marks.get(f"{_ALB}auth-type", "none") != "none"
        or any(
            f"{_ALB}{key}" in marks
            for key in (
                "wafv2-acl-arn",
                "wafv2-acl-name",
                "security-groups",
                "mutual-authentication",
                "jwt-validation",
            )
        )
    )
    if guarded:
        return
    tls = _has_tls(subject, marks)
    key_checked = _checks_keys(world, subject)
    if not tls and not key_checked:
        message = "the load balancer is internet-facing, on plain HTTP, with no authentication and no list of networks"
        yield Hit(subject, path, message)
    elif not tls:
        yield Hit(
            subject,
            path,
            "the load balancer is internet-facing on plain HTTP: keys and prompts travel in clear text",
            Severity.WARN,
        )
    elif not key_checked:
        yield Hit(
            subject,
            path,
            "the load balancer is internet-facing with no authentication and no list of networks",
            Severity.ADVICE,
        )


def _class_scheme(world: World, subject: Subject) -> str:
    """Scheme that the IngressClassParams of an Ingress's class give."""
    wanted = text(subject.get("spec", "ingressClassName"))
    for entry in world.kind("IngressClass"):
        if entry.name == wanted:
            params = text(entry.get("spec", "parameters", "name"))
            for item in world.kind("IngressClassParams"):
                if item.name == params:
                    return text(item.get("spec", "scheme")) or ""
    return ""


def _has_tls(subject: Subject, marks: Mapping[str, str]) -> bool:
    ports = marks.get(f"{_ALB}listen-ports", "")
    certificate = f"{_ALB}certificate-arn" in marks or bool(items(subject.get("spec", "tls")))
    https = "HTTPS" in ports.upper() or (certificate and not ports)
    only_http = bool(ports) and not https
    redirected = f"{_ALB}ssl-redirect" in marks
    return (https or redirected) and not (only_http and not redirected)


def _checks_keys(world: World, subject: Subject) -> bool:
    """Whether an engine behind it asks for a key."""
    names = {text(get(backend, "service", "name")) for _, rule in mappings(subject.get("spec", "rules"))
             for _, item in mappings(get(rule, "http", "paths")) for backend in (item.get("backend"),)}  # fmt: skip
    names.add(text(subject.get("spec", "defaultBackend", "service", "name")))
    services = [
        service
        for service in world.services
        if service.namespace == subject.namespace and service.name in names
    ]
    return any(_asks_key(pod) for service in services for pod in world.pods_of_service(service))


def _asks_key(pod: Pod) -> bool:
    return any(
        "VLLM_API_KEY" in container.env
        or (container.engine is not None and "api_key" in container.engine.flags)
        for container in pod.containers
    )


def _service(
    world: World, subject: Subject, body: dict[str, object], prefix: Path, marks: Mapping[str, str]
) -> Iterator[Hit]:
    if text(get(body, "spec", "type")) != "LoadBalancer":
        return
    explicit = marks.get(f"{_NLB}scheme")
    if (
        explicit == "internal"
        or marks.get(f"{_NLB}internal", "").lower() == "true"
        or explicit not in (None, "internet-facing")
    ):
        return
    by_controller = (
        marks.get(f"{_NLB}type") in ("external", "nlb-ip")
        or text(get(body, "spec", "loadBalancerClass")) == "service.k8s.aws/nlb"
    )
    if explicit is None and by_controller:
        return  # the controller's own default is internal
    ranges = [
        *texts(get(body, "spec", "loadBalancerSourceRanges")),
        *marks.get(f"{_NLB}source-ranges", "").split(","),
    ]
    if limits_networks(ranges) or f"{_NLB}security-groups" in marks or f"{_NLB}ssl-cert" in marks:
        return
    pods = world.pods_of_service(subject) if not prefix else world.pods_by_owner.get(subject, [])
    serves = bool(prefix) or any(pod.is_ray or pod.gpus or pod in world.engine_pods for pod in pods)
    if serves and any(_asks_key(pod) for pod in pods):
        message = "the load balancer is internet-facing on plain TCP: keys and prompts travel in clear text"
        yield Hit(subject, (*prefix, "spec", "type"), message, Severity.WARN)
        return
    how = "internet-facing" if explicit else "internet-facing by default"
    message = f"the Service of type LoadBalancer is {how}, without TLS, authentication or a list of networks"
    severity = None if explicit or serves else Severity.WARN
    yield Hit(subject, (*prefix, "spec", "type"), message, severity)


# ---------------------------------------------------------------------- privileges


def _engine_containers(world: World) -> Iterator[tuple[Pod, Container]]:
    """Containers of pods that serve: with GPUs, with an engine, or of Ray. Agents of the node are none."""
    for pod in world.pods:
        if pod.owner.kind != "DaemonSet" and (pod.gpus or pod.is_ray or pod in world.engine_pods):
            for container in pod.all_containers:
                yield pod, container


def privileged(world: World) -> Iterator[Hit]:
    """Engines that own the node."""
    for pod, container in _engine_containers(world):
        if flag(get(container.body, "securityContext", "privileged")) is True:
            path: Path = (*container.path, "securityContext", "privileged")
            severity = Severity.WARN if container.is_init else None
            yield Hit(
                pod.owner, path, f"container {container.name} is privileged, which GPUs do not need", severity
            )


def host_namespaces(world: World) -> Iterator[Hit]:
    """Pods that share the node's namespaces."""
    for pod in world.pods:
        if pod.owner.kind == "DaemonSet" or not (pod.gpus or pod.is_ray or pod in world.engine_pods):
            continue
        shared = [key for key in ("hostPID", "hostNetwork") if pod.spec.get(key) is True]
        if shared:
            yield Hit(pod.owner, (*pod.spec_path, shared[0]), f"{pod.label} sets {listed(shared)}")


def capabilities(world: World) -> Iterator[Hit]:
    """Capabilities that let a container out."""
    for pod, container in _engine_containers(world):
        for index, name in enumerate(texts(get(container.body, "securityContext", "capabilities", "add"))):
            if name.upper().removeprefix("CAP_") in _ESCAPES:
                path: Path = (*container.path, "securityContext", "capabilities", "add", index)
                yield Hit(pod.owner, path, f"container {container.name} has the capability {name}")


# ---------------------------------------------------------------------- network policies


def network_policy(world: World) -> Iterator[Hit]:
    """Policies that nothing enforces."""
    if not world.kind("NetworkPolicy"):
        return
    other_cni = any(release.chart in ("cilium", "tigera-operator", "calico") for release in world.releases)
    for subject in world.typed(*ADDON_TYPES):
        if text(subject.get("addonName")) != "vpc-cni" or other_cni:
            continue
        written = subject.get("configurationValues")
        values = _json(written) if isinstance(written, str) else mapping(written)
        if (written is None or isinstance(written, (str, dict))) and flag(
            values.get("enableNetworkPolicy")
        ) is not True:
            count = len(world.kind("NetworkPolicy"))
            message = (
                f"the vpc-cni add-on does not set enableNetworkPolicy; {count} NetworkPolicies are ignored"
            )
            yield Hit(
                subject,
                ("configurationValues",),
                message.replace("1 NetworkPolicies are", "1 NetworkPolicy is"),
            )


def _json(written: str) -> dict[str, object]:
    try:
        return mapping(json.loads(written))
    except (ValueError, RecursionError):
        return {}


RULES: Table = (
    (LB_OPEN, lb_open), (PRIVILEGED, privileged), (HOST_NAMESPACES, host_namespaces), (CAPABILITIES, capabilities),
    (NETWORK_POLICY, network_policy),
)  # fmt: skip
