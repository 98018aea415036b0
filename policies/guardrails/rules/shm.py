"""Shared memory of engine pods: /dev/shm by kind and size, against the parallel size and the memory limit."""

from collections.abc import Iterator
from dataclasses import dataclass

from components.conventions import SHM_PATH
from components.quantities import format_bytes
from guardrails.containers import Container
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.pods import Pod
from guardrails.values import Hidden, is_hidden, mapping, number, text
from guardrails.world import World

MIB, GIB = 2.0**20, 2.0**30
# vLLM: a ring buffer of 10 x 16 MiB for each group of workers (shm_broadcast.py, envs.py), and NCCL's own segments.
BASE_MIB, PER_GPU_MIB = 512, 64
HOUSE_SIZE = 16 * GIB
# A volume of this size without a limit can take the node down; below it people run 20 and 80 GiB without trouble.
VERY_LARGE = 100 * GIB

_READS = ("pod:volumes", "pod:containers.*.volumeMounts", "pod:containers.*.resources.limits.memory")

MISSING = Rule(
    id="shm-missing",
    severity=Severity.ERROR,
    sentence="A pod whose engine uses several GPUs has a memory volume at /dev/shm.",
    why="The default is 64 MiB: NCCL and vLLM's workers fail with No space left on device.",
    remedy="mount an emptyDir of medium Memory at /dev/shm, with a sizeLimit below the memory limit",
    source="vllm#7466, vllm#37982, production-stack#899, nccl#525",
    reads=_READS,
)
NOT_MEMORY = Rule(
    id="shm-not-memory",
    severity=Severity.ERROR,
    sentence="The volume at /dev/shm is in memory.",
    why="Without medium Memory it is a folder on the node's disk.",
    remedy="set medium: Memory",
    source="Kubernetes docs, emptyDir",
    reads=_READS,
)
TOO_SMALL = Rule(
    id="shm-too-small",
    severity=Severity.ERROR,
    sentence="The volume at /dev/shm holds the buffers that the engine's workers and NCCL allocate.",
    why="Allocation fails at start, or later under load.",
    remedy="give it 16Gi, below the memory limit",
    source="vLLM shm_broadcast.py (10 x 16 MiB a worker group); vllm#37982",
    reads=_READS,
)
EXCEEDS_MEMORY = Rule(
    id="shm-exceeds-memory",
    severity=Severity.ERROR,
    sentence="The size of /dev/shm is at most the container's memory limit.",
    why="What is written there counts as the container's memory: it is killed before the volume is full.",
    remedy="lower sizeLimit, or raise the memory limit",
    source="Kubernetes docs, emptyDir (memory-backed volumes count against the limit)",
    reads=_READS,
)
NO_MEMORY_LIMIT = Rule(
    id="shm-no-memory-limit",
    severity=Severity.ERROR,
    sentence="A container with a very large memory volume has a memory limit.",
    why="Nothing stops it from filling the node's memory, and the kernel then kills other pods.",
    remedy="set a memory limit above sizeLimit, or lower sizeLimit",
    source="Kubernetes docs, emptyDir",
    reads=_READS,
)
NO_SIZE = Rule(
    id="shm-no-size",
    severity=Severity.WARN,
    sentence="A memory volume has a sizeLimit.",
    why="Without one it may grow to the memory of the container or the node.",
    remedy="set sizeLimit, for example 16Gi",
    source="Kubernetes docs, emptyDir",
    reads=_READS,
)
IMPLICIT = Rule(
    id="shm-implicit",
    severity=Severity.ADVICE,
    sentence="A GPU Ray pod mounts /dev/shm itself, with room for 16Gi.",
    why="KubeRay adds a volume of the memory limit's size where none is mounted, which hides how much memory is left.",
    remedy="mount an emptyDir of medium Memory and sizeLimit 16Gi at /dev/shm",
    source="KubeRay 1.7 common/pod.go; vllm#1710",
    reads=_READS,
)


@dataclass(frozen=True, slots=True)
class Shm:
    """What is mounted at /dev/shm of one container."""

    container: Container
    volume: dict[str, object]
    path: Path  # of the volume in the owner

    @property
    def empty_dir(self) -> dict[str, object] | None:
        """The emptyDir, if it is one."""
        found = self.volume.get("emptyDir")
        if found is None and "emptyDir" in self.volume:
            return {}
        return found if isinstance(found, dict) else None

    @property
    def in_memory(self) -> bool:
        """Whether it is a memory volume (or may be, where that is not known)."""
        medium = mapping(self.empty_dir).get("medium")
        return medium == "Memory" or is_hidden(medium)

    @property
    def size(self) -> float | None:
        """Its size limit in bytes."""
        return number(mapping(self.empty_dir).get("sizeLimit"))


def shm_of(pod: Pod, container: Container) -> Shm | None:
    """The volume at /dev/shm, where one is mounted and defined."""
    mount = container.shm_mount
    if mount is None:
        return None
    index, volume = pod.volumes.get(text(mount.get("name")) or "", (0, {}))
    return Shm(container, volume, (*pod.spec_path, "volumes", index)) if volume else None


def _relevant(world: World) -> Iterator[tuple[Pod, Shm]]:
    """Volumes at /dev/shm of pods with GPUs or engines."""
    for pod in world.pods:
        if not (pod.gpus or pod.is_ray or pod in world.engine_pods):
            continue
        for container in pod.containers:
            found = shm_of(pod, container)
            if found is not None:
                yield pod, found


def _ranks(world: World, pod: Pod) -> int:
    """GPUs of one engine in the pod: from its own engine, else from the Serve document of its cluster."""
    own = world.engine_pods.get(pod)
    if own is not None:
        return own.tp * own.pp
    if pod.is_ray and pod.gpus:
        return max((engine.tp for engine in world.engines if engine.subject is pod.owner), default=1)
    return 1


def missing(world: World) -> Iterator[Hit]:
    """Several GPUs and nothing at /dev/shm."""
    for pod, engine in world.engine_pods.items():
        container = engine.container
        if pod.is_ray or container is None or pod.spec.get("hostIPC") is True:
            continue
        hidden = isinstance(container.body.get("volumeMounts"), Hidden)
        if engine.tp * engine.pp > 1 and pod.gpus and container.shm_mount is None and not hidden:
            size = (
                f"tensor parallel size {engine.tp}"
                if engine.tp > 1
                else f"pipeline parallel size {engine.pp}"
            )
            message = f"container {container.name} has {size} and nothing at {SHM_PATH}, which is then 64 MiB"
            yield Hit(pod.owner, (*container.path, "volumeMounts"), message)


def not_memory(world: World) -> Iterator[Hit]:
    """A disk at /dev/shm."""
    for pod, shm in _relevant(world):
        host = text(mapping(shm.volume.get("hostPath")).get("path")) or ""
        if (
            host.rstrip("/") == SHM_PATH
            or shm.in_memory
            or any(is_hidden(value) for value in shm.volume.values())
        ):
            continue
        what = "an emptyDir without medium Memory" if shm.empty_dir is not None else "not a memory volume"
        yield Hit(pod.owner, shm.path, f"volume {text(shm.volume.get('name'))} at {SHM_PATH} is {what}")


def too_small(world: World) -> Iterator[Hit]:
    """Less than the engine allocates."""
    for pod, shm in _relevant(world):
        ranks = _ranks(world, pod)
        needed = (BASE_MIB + PER_GPU_MIB * ranks) * MIB
        if shm.in_memory and shm.size is not None and ranks > 1 and shm.size < needed:
            message = f"{SHM_PATH} has {format_bytes(shm.size)}; an engine over {ranks} GPUs needs about {format_bytes(needed)} at least"
            yield Hit(pod.owner, (*shm.path, "emptyDir", "sizeLimit"), message)


def exceeds_memory(world: World) -> Iterator[Hit]:
    """A volume larger than the memory of its container."""
    for pod, shm in _relevant(world):
        limit = shm.container.limit("memory")
        if shm.in_memory and shm.size is not None and limit is not None and shm.size > limit:
            message = (
                f"{SHM_PATH} may take {format_bytes(shm.size)}, more than the memory limit {format_bytes(limit)} "
                f"of container {shm.container.name}"
            )
            yield Hit(pod.owner, (*shm.path, "emptyDir", "sizeLimit"), message)
    for stack in world.stacks:
        for model in stack.models:
            if model.shm is not None and model.memory is not None and model.shm > model.memory:
                message = f"shm is {format_bytes(model.shm)}, and a worker of {model.name} has {format_bytes(model.memory)} of memory"
                remedy = "lower shm, or give the worker more memory: cpuWorker.memory, larger instance types, less reserveMemory"
                subject = world.stack_subject(stack, model.name, "model")
                yield Hit(subject, (*model.path, "shm"), message, remedy=remedy)


def no_memory_limit(world: World) -> Iterator[Hit]:
    """A very large volume and no limit."""
    for pod, shm in _relevant(world):
        if not shm.in_memory or shm.size is None or shm.container.limit("memory") is not None:
            continue
        nodes = [item.allocatable_mib() * MIB for item in world.hardware.get(pod, ())]
        bound = min(nodes) / 2 if nodes else VERY_LARGE
        if shm.size > bound:
            of_node = f", more than half of the smallest node's {format_bytes(min(nodes))}" if nodes else ""
            message = f"{SHM_PATH} may take {format_bytes(shm.size)}{of_node}, and container {shm.container.name} has no memory limit"
            yield Hit(pod.owner, (*shm.path, "emptyDir", "sizeLimit"), message)


def no_size(world: World) -> Iterator[Hit]:
    """A memory volume without a size."""
    for pod, shm in _relevant(world):
        if shm.in_memory and shm.empty_dir is not None and shm.empty_dir.get("sizeLimit") is None:
            severity = Severity.ERROR if world.house and world.prod else None
            message = f"memory volume {text(shm.volume.get('name'))} at {SHM_PATH} has no sizeLimit"
            yield Hit(pod.owner, (*shm.path, "emptyDir"), message, severity)


def implicit(world: World) -> Iterator[Hit]:
    """Ray GPU pods that leave /dev/shm to KubeRay, or give it less than 16Gi."""
    for pod in world.pods:
        container = pod.main
        if not (pod.is_ray and pod.gpus and container):
            continue
        severity = Severity.ERROR if world.house else None
        shm = shm_of(pod, container)
        if container.shm_mount is None:
            message = f"{_group(pod)}: nothing is mounted at {SHM_PATH}; KubeRay adds a volume as large as the memory limit"
            yield Hit(pod.owner, (*container.path, "volumeMounts"), message, severity)
        elif shm is not None and shm.in_memory and shm.size is not None and shm.size < HOUSE_SIZE:
            message = f"{_group(pod)}: {SHM_PATH} has {format_bytes(shm.size)}, less than 16Gi"
            yield Hit(pod.owner, (*shm.path, "emptyDir", "sizeLimit"), message, severity)


def _group(pod: Pod) -> str:
    return "head group" if pod.role == "head" else f"worker group {pod.group}"


RULES: Table = (
    (MISSING, missing), (NOT_MEMORY, not_memory), (TOO_SMALL, too_small), (EXCEEDS_MEMORY, exceeds_memory),
    (NO_MEMORY_LIMIT, no_memory_limit), (NO_SIZE, no_size), (IMPLICIT, implicit),
)  # fmt: skip
