"""Disks of nodes: on the right device, and large enough for an engine."""

from collections.abc import Iterator

from components.quantities import format_bytes
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.engines import Engine
from guardrails.pods import Pod
from guardrails.pools import NodeClass, Pool
from guardrails.shapes import weight_bytes
from guardrails.values import get, is_hidden, mappings, number, text
from guardrails.world import World

GIB = 2.0**30
IMAGE_SIZE = 30 * GIB  # an engine's image unpacked (10 GB compressed), beside the system
SMALL_DISK = 50 * GIB
DEFAULT_DISK = "20 GiB"
BOTTLEROCKET_OS_DISK = 8 * GIB  # above it somebody meant to make room for data
WRONG_DEVICE = Rule(
    id="bottlerocket-wrong-device",
    severity=Severity.ERROR,
    sentence="A Bottlerocket node class sizes /dev/xvdb, where images and pods lie.",
    why="/dev/xvda holds the system only; the data volume stays at 20 GiB and pulling the image fills it.",
    remedy="add /dev/xvdb with the size, and leave /dev/xvda at its default",
    source="bottlerocket#4663; karpenter-provider-aws pkg/providers/amifamily/bottlerocket.go",
    reads=("EC2NodeClass:spec.blockDeviceMappings",),
)
DISK = Rule(
    id="node-disk-small",
    severity=Severity.ERROR,
    sentence="The disk of a GPU node holds an engine's image and the weights that are put there.",
    why="The default is 20 GiB: no space left on device while the image is unpacked.",
    remedy="set a volume of 200Gi or more, or instanceStorePolicy: RAID0",
    source="karpenter-provider-aws#4149, bottlerocket#4542",
    reads=("EC2NodeClass:spec.blockDeviceMappings",),
)


# ---------------------------------------------------------------------- disks


def _mappings(node_class: NodeClass) -> list[tuple[int, str, dict[str, object]]]:
    listed_devices = mappings(node_class.spec.get("blockDeviceMappings"))
    return [(index, text(item.get("deviceName")) or "", item) for index, item in listed_devices]


def _size(item: dict[str, object]) -> float | None:
    return number(get(item, "ebs", "volumeSize"))


def wrong_device(world: World) -> Iterator[Hit]:
    """Bottlerocket with a large system disk and a default data disk."""
    for node_class in world.node_classes.values():
        if node_class.family != "bottlerocket" or node_class.raid0:
            continue
        devices = {name: (index, item) for index, name, item in _mappings(node_class)}
        index, item = devices.get("/dev/xvda", (0, {}))
        size = _size(item)
        if size is not None and size > BOTTLEROCKET_OS_DISK and "/dev/xvdb" not in devices:
            message = f"only /dev/xvda is sized ({format_bytes(size)}); images and pods lie on /dev/xvdb, which stays at {DEFAULT_DISK}"
            yield Hit(node_class.subject, ("spec", "blockDeviceMappings", index, "deviceName"), message)


def _data_disk(node_class: NodeClass) -> tuple[Path, float | None, bool]:
    """Path, size and whether it is given, of the disk that holds images and pods."""
    path: Path = ("spec", "blockDeviceMappings")
    if node_class.subject.kind == "NodeClass":  # Auto Mode: 80 GiB unless told otherwise
        size = number(get(node_class.spec, "ephemeralStorage", "size"))
        return ("spec", "ephemeralStorage", "size"), size or 80 * GIB, True
    wanted = (
        ("/dev/xvdb",) if node_class.family == "bottlerocket" else ("/dev/xvda", "/dev/sda1", "/dev/nvme0n1")
    )
    for index, name, item in _mappings(node_class):
        if name in wanted or (item.get("rootVolume") is True and node_class.family != "bottlerocket"):
            known = (
                _size(item) is not None
                or bool(get(item, "ebs", "snapshotID"))
                or is_hidden(get(item, "ebs", "volumeSize"))
            )
            return (*path, index, "ebs", "volumeSize"), _size(item), known
    return path, None, False


def disk(world: World) -> Iterator[Hit]:
    """GPU nodes whose disk does not hold what is put there."""
    for name, node_class in world.node_classes.items():
        pools = [pool for pool in world.pools if pool.node_class is node_class and pool.is_gpu]
        if not pools or node_class.raid0 or _has_wrong_device(node_class):
            continue
        path, size, given = _data_disk(node_class)
        engines = [engine for pool in pools for engine in _engines_on(world, pool)]
        if not given:
            streamed = bool(engines) and all(_needs_no_disk(engine) for engine in engines)
            severity = None if engines and not streamed else Severity.WARN
            message = f"{node_class.subject.kind} {name} of a GPU pool sets no data volume, which is then {DEFAULT_DISK}"
            yield Hit(node_class.subject, path, message, severity)
        elif size is not None:
            yield from _too_small(node_class, path, size, engines)
    yield from _group_disks(world)
    for stack in world.stacks:
        for facts in stack.pools:
            if facts.disk is not None and facts.disk < SMALL_DISK and not facts.local_nvme:
                message = f"pool {facts.name} has a data volume of {format_bytes(facts.disk)}; an engine's image alone takes about 30Gi"
                yield Hit(
                    world.stack_subject(stack, facts.name, "pool"),
                    (*facts.path, "dataVolume", "size"),
                    message,
                )


def _has_wrong_device(node_class: NodeClass) -> bool:
    names = [name for _, name, _ in _mappings(node_class)]
    return node_class.family == "bottlerocket" and "/dev/xvda" in names and "/dev/xvdb" not in names and any(
        (_size(item) or 0) > BOTTLEROCKET_OS_DISK for _, name, item in _mappings(node_class) if name == "/dev/xvda"
    )  # fmt: skip


def _too_small(node_class: NodeClass, path: Path, size: float, engines: list[Engine]) -> Iterator[Hit]:
    needed = [(engine, IMAGE_SIZE + found) for engine in engines if (found := _weights_on_disk(engine))]
    largest = max(needed, key=lambda pair: pair[1], default=None)
    if size < SMALL_DISK:
        message = f"the data volume has {format_bytes(size)}; an engine's image alone takes about {format_bytes(IMAGE_SIZE)} unpacked"
        yield Hit(node_class.subject, path, message, None if engines else Severity.WARN)
    elif largest and size < largest[1]:
        engine, need = largest
        message = f"the data volume has {format_bytes(size)}; the image and the weights of {engine.name} need about {format_bytes(need)}"
        yield Hit(node_class.subject, path, message)


def _engines_on(world: World, pool: Pool) -> list[Engine]:
    """Engines whose pods may run on a pool."""
    there = world.pods_on(pool)
    owners = {pod.owner for pod in there if pod.gpus}
    return [
        engine
        for engine in world.engines
        if (engine.pod in there if engine.pod else engine.subject in owners)
    ]


def _needs_no_disk(engine: Engine) -> bool:
    """Whether the weights are streamed or mounted, so that only the image lies on the disk."""
    return "streamer" in (engine.text("load_format") or "") or _is_mounted(engine)


def _is_mounted(engine: Engine) -> bool:
    return (engine.source or "").startswith("/") and not engine.from_hub


def _weights_on_disk(engine: Engine) -> float | None:
    """Bytes of weights that the pod downloads to the node's disk."""
    if not engine.from_hub or engine.shape is None or _has_own_cache(engine):
        return None
    return weight_bytes(engine.shape, engine.precision)


def _has_own_cache(engine: Engine) -> bool:
    """Whether a volume other than an emptyDir may hold the download."""
    pod: Pod | None = engine.pod
    if pod is None:
        return True  # a Ray group: which volume holds the cache is not told
    return any(
        "persistentVolumeClaim" in body or "hostPath" in body or "csi" in body
        for _, body in pod.volumes.values()
    )


def _group_disks(world: World) -> Iterator[Hit]:
    for pool in world.pools:
        body = pool.subject.body
        if pool.kind != "NodeGroup" or not pool.is_gpu or body.get("launchTemplate") is not None:
            continue
        size = number(body.get("diskSize"))
        if size is None and not is_hidden(body.get("diskSize")):
            message = f"node group {pool.name} of GPU types sets no diskSize, which is then {DEFAULT_DISK}"
            yield Hit(pool.subject, ("diskSize",), message, Severity.WARN)
        elif size is not None and size * GIB < SMALL_DISK:
            message = f"node group {pool.name} of GPU types has {size:g} GiB; an engine's image alone takes about 30 GiB"
            yield Hit(pool.subject, ("diskSize",), message, Severity.WARN)


RULES: Table = (
    (WRONG_DEVICE, wrong_device),
    (DISK, disk),
)
