"""EFA network interfaces: on types that have them, as many as they have, with the image and resource they need."""

from collections.abc import Iterator

from components.conventions import EFA_RESOURCE
from guardrails.containers import Container
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.hardware import Hardware, hardware_of
from guardrails.imageref import ImageRef
from guardrails.pods import Pod
from guardrails.values import flag, get, listed, mappings
from guardrails.world import World

UNSUPPORTED = Rule(
    id="efa-unsupported",
    severity=Severity.ERROR,
    sentence="EFA is asked of instance types that have it.",
    why="No node can ever offer vpc.amazonaws.com/efa; the pod stays pending.",
    remedy="use a type with EFA (p4d, p5, g5.8xlarge and larger), or remove the resource",
    source="Karpenter instance types reference; EC2 user guide, EFA",
    reads=("pod:containers.*.resources",),
)
COUNT = Rule(
    id="efa-count",
    severity=Severity.ERROR,
    sentence="A pod asks for at most as many EFA interfaces as the type has.",
    why="No node offers so many; the pod stays pending.",
    remedy="p4d.24xlarge has 4, p5.48xlarge 32, g5.12xlarge 1",
    source="Karpenter instance types reference; skypilot#5318",
    reads=("pod:containers.*.resources",),
)
ENV_ONLY = Rule(
    id="efa-env-without-resource",
    severity=Severity.WARN,
    sentence="A pod with EFA variables asks for vpc.amazonaws.com/efa.",
    why="The variables alone attach nothing: NCCL stays on TCP, or fails.",
    remedy="request vpc.amazonaws.com/efa, or remove the variables",
    source="karpenter-provider-aws#6296",
)
IMAGE = Rule(
    id="efa-image-without-libfabric",
    severity=Severity.WARN,
    sentence="A pod with EFA runs an image that has libfabric and aws-ofi-nccl.",
    why="NCCL then uses TCP over the same interface in silence.",
    remedy="use AWS's deep learning container for Ray or vLLM, or build an image with the EFA installer",
    source="AWS deep learning containers; upstream Dockerfiles of vLLM and Ray",
    reads=("pod:containers.*.image",),
)
OBSOLETE = Rule(
    id="efa-obsolete-variable",
    severity=Severity.ADVICE,
    sentence="EFA variables of old libfabric versions are not set.",
    why="libfabric 1.18 and newer find RDMA by themselves; the old switches only hide a wrong set-up.",
    remedy="remove it",
    source="awsome-distributed-training, EFA cheat sheet",
)

# Images of which it is known that they have no libfabric, by the end of their repository.
WITHOUT_LIBFABRIC = ("vllm/vllm-openai", "rayproject/ray-llm", "rayproject/ray")
OBSOLETE_VARIABLES = ("FI_EFA_USE_DEVICE_RDMA", "FI_EFA_FORK_SAFE")


def _types(world: World, pod: Pod) -> tuple[Hardware, ...]:
    """Types that a pod may land on, whatever their EFA."""
    found = world.hardware.get(pod, ())
    return found or hardware_of(world.named_types(pod))


def _container(pod: Pod) -> Container | None:
    return next((item for item in pod.containers if item.efa), None)


def _path(container: Container) -> Path:
    return (*container.path, "resources", "limits", EFA_RESOURCE)


def unsupported(world: World) -> Iterator[Hit]:
    """EFA on types without it."""
    for pod in world.pods:
        container, types = _container(pod), _types(world, pod)
        if container and types and not any(item.efa for item in types):
            names = listed([item.name for item in types[:3]])
            yield Hit(pod.owner, _path(container), f"{pod.label} asks for EFA; {names} {_has(types)} none")
    for stack in world.stacks:
        for pool in stack.pools:
            without = [item for item in hardware_of(pool.instance_types) if not item.efa] if pool.efa else []
            if without:
                subject = world.stack_subject(stack, pool.name, "pool")
                names = listed([item.name for item in without])
                yield Hit(
                    subject, (*pool.path, "efa"), f"the pool has EFA, and {names} {_has(tuple(without))} none"
                )


def _has(types: tuple[Hardware, ...]) -> str:
    return "has" if len(types) == 1 else "have"


def count(world: World) -> Iterator[Hit]:
    """More interfaces than there are."""
    for pod in world.pods:
        container, types = _container(pod), _types(world, pod)
        most = max((item.efa for item in types), default=0)
        if container and most and pod.efa > most:
            best = next(item for item in types if item.efa == most)
            message = f"{pod.label} asks for {pod.efa} EFA interfaces; {best.name} has {most}"
            yield Hit(pod.owner, _path(container), message)
    for stack in world.stacks:
        for pool in stack.pools:
            few = [item for item in hardware_of(pool.instance_types) if 0 < item.efa < (pool.efa or 0)]
            if few:
                subject = world.stack_subject(stack, pool.name, "pool")
                have = listed([f"{item.name} has {item.efa}" for item in few])
                message = f"the pool wants {pool.efa} EFA interfaces a node; {have}"
                yield Hit(subject, (*pool.path, "efa", "interfaces"), message)
    yield from _node_classes(world)


def _node_classes(world: World) -> Iterator[Hit]:
    """Node classes that want more EFA interfaces than any type of their pools has."""
    for name, node_class in world.node_classes.items():
        listed_interfaces = mappings(node_class.spec.get("networkInterfaces"))
        wanted = sum(item.get("interfaceType") == "efa-only" for _, item in listed_interfaces)
        types = [
            item
            for pool in world.pools
            if pool.node_class is node_class and pool.restricted
            for item in pool.types
        ]
        if wanted and types and max(item.efa for item in types) < wanted:
            best = max(types, key=lambda item: item.efa)
            message = f"EC2NodeClass {name} has {wanted} efa-only interfaces; {best.name} takes {best.efa}"
            yield Hit(node_class.subject, ("spec", "networkInterfaces"), message)


def _is_efa_variable(name: str, value: str) -> bool:
    return name.startswith("FI_EFA_") or (name == "FI_PROVIDER" and value.lower() == "efa")


def env_only(world: World) -> Iterator[Hit]:
    """EFA variables in pods that get no EFA."""
    for pod in world.pods:
        if pod.efa:
            continue
        for container in pod.containers:
            found = [name for name, value in container.env_values.items() if _is_efa_variable(name, value)]
            privileged = flag(get(container.body, "securityContext", "privileged")) is True
            if found and not privileged:
                index, _ = container.env[found[0]]
                message = f"container {container.name} sets {listed(found)} and asks for no {EFA_RESOURCE}"
                yield Hit(pod.owner, (*container.path, "env", index), message)


def _lacks_libfabric(image: ImageRef) -> bool:
    return image.repository.endswith(WITHOUT_LIBFABRIC)


def image(world: World) -> Iterator[Hit]:
    """EFA with an image that cannot use it."""
    severity = Severity.ERROR if world.house else None
    for pod in world.pods:
        container = _container(pod)
        if container and container.image and _lacks_libfabric(container.image):
            message = f"{pod.label} asks for EFA; image {container.image.text} has no libfabric"
            yield Hit(pod.owner, (*container.path, "image"), message, severity)


def obsolete(world: World) -> Iterator[Hit]:
    """Variables of old libfabric versions."""
    for pod in world.pods:
        for container in pod.containers if pod.efa else ():
            for name in OBSOLETE_VARIABLES:
                if name in container.env:
                    index, _ = container.env[name]
                    yield Hit(
                        pod.owner, (*container.path, "env", index), f"container {container.name} sets {name}"
                    )


RULES: Table = (
    (UNSUPPORTED, unsupported), (COUNT, count), (ENV_ONLY, env_only), (IMAGE, image), (OBSOLETE, obsolete),
)  # fmt: skip
