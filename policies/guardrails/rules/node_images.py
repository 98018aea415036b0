"""AMIs and disks of nodes: alive, pinned, for the right hardware, and large enough for an engine's image."""

from collections.abc import Iterator
from datetime import date

from components.quantities import format_bytes
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.engines import Engine
from guardrails.hardware import hardware_of
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.pools import GROUP_TYPES, NodeClass, Pool
from guardrails.shapes import weight_bytes
from guardrails.values import get, is_hidden, listed, mapping, mappings, number, text, texts
from guardrails.world import World

GIB = 2.0**30
AL2_END = date(2025, 11, 26)  # end of support of EKS's AL2 AMIs; none exist for Kubernetes 1.33 and newer
IMAGE_SIZE = 30 * GIB  # an engine's image unpacked (10 GB compressed), beside the system
SMALL_DISK = 50 * GIB
DEFAULT_DISK = "20 GiB"
BOTTLEROCKET_OS_DISK = 8 * GIB  # above it somebody meant to make room for data

EOL = Rule(
    id="ami-end-of-life",
    severity=Severity.ERROR,
    sentence="Nodes do not run Amazon Linux 2.",
    why="Its EKS images ended on 2025-11-26 and do not exist for Kubernetes 1.33 and newer.",
    remedy="use bottlerocket or al2023",
    source="AWS EKS user guide, AL2 AMI deprecation",
    framework="CIS EKS 3.1",
)
FLOATING = Rule(
    id="ami-floating",
    severity=Severity.WARN,
    sentence="The AMI alias names a version.",
    why="With @latest every release of the image replaces the GPU nodes, one after the other, when AWS chooses.",
    remedy="pin it, for example bottlerocket@v1.64.0",
    source="Karpenter docs, AMI selection and drift",
)
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
NOT_GPU = Rule(
    id="ami-without-gpu-driver",
    severity=Severity.ERROR,
    sentence="A managed node group of GPU types has an AMI type with the NVIDIA driver.",
    why="Nodes join without nvidia.com/gpu, and pods wait for ever.",
    remedy="use AL2023_x86_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA (in pulumi-eks: gpu: true)",
    source="pulumi-eks#1526, pulumi-eks#738",
    reads=tuple(f"{token}:amiType" for token in GROUP_TYPES),
)
ARCHITECTURE = Rule(
    id="ami-architecture",
    severity=Severity.ERROR,
    sentence="The AMI type has the CPU architecture of the instance types.",
    why="EC2 refuses the launch: the architecture of the image does not match.",
    remedy="use the AMI type of the same architecture",
    source="pulumi-eks#1578, karpenter-provider-aws#4883",
    reads=tuple(f"{token}:amiType" for token in GROUP_TYPES),
)
OWN_BOOTSTRAP = Rule(
    id="raid0-own-bootstrap",
    severity=Severity.ERROR,
    sentence="With instanceStorePolicy RAID0 the user data has no ephemeral-storage commands of its own.",
    why="Karpenter adds them itself; run twice, the node fails to start.",
    remedy="remove the bootstrap command",
    source="karpenter-provider-aws#8562",
)
IMDS = Rule(
    id="imds-v1-allowed",
    severity=Severity.WARN,
    sentence="Nodes ask for IMDSv2 tokens.",
    why="With IMDSv1 a pod that can be made to send requests gives away the node's credentials.",
    remedy="set metadataOptions.httpTokens: required",
    source="AWS EKS best practices, identity",
    framework="CIS EKS 5.4 / AWS FSBP EC2.8",
)


def eol(world: World) -> Iterator[Hit]:
    """Amazon Linux 2."""
    severity = None if world.today >= AL2_END else Severity.WARN
    for subject, path, written in _ami_families(world):
        if (
            written.lower().partition("@")[0] == "al2"
            or written.startswith("AL2_")
            or "/amazon-linux-2/" in written
        ):
            yield Hit(subject, path, f"{written} is Amazon Linux 2, which ended on {AL2_END}", severity)


Family = tuple[Subject, Path, str]


def _ami_families(world: World) -> Iterator[Family]:
    """Everything that names a family of AMIs."""
    for node_class in world.node_classes.values():
        yield from _of_node_class(node_class)
    for subject in world.typed(*GROUP_TYPES):
        for key in ("amiType", "operatingSystem"):
            if found := text(subject.get(key)):
                yield subject, (key,), found
    for stack in world.stacks:
        for pool in stack.pools:
            if pool.ami_alias:
                yield world.stack_subject(stack, pool.name, "pool"), (*pool.path, "ami_alias"), pool.ami_alias


def _of_node_class(node_class: NodeClass) -> Iterator[Family]:
    named = text(node_class.spec.get("amiFamily"))
    if named:
        yield node_class.subject, ("spec", "amiFamily"), named
        return
    for index, term in mappings(node_class.spec.get("amiSelectorTerms")):
        for key in ("alias", "ssmParameter"):
            if found := text(term.get(key)):
                yield node_class.subject, ("spec", "amiSelectorTerms", index, key), found


def floating(world: World) -> Iterator[Hit]:
    """Aliases that move."""
    severity = Severity.ADVICE if not world.prod else Severity.ERROR if world.house else None
    for subject, path, written in _ami_families(world):
        if written.lower().endswith("@latest"):
            yield Hit(subject, path, f"AMI alias {written} moves with every release", severity)


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


# ---------------------------------------------------------------------- managed node groups


def _groups(world: World) -> Iterator[tuple[Subject, str, tuple[str, ...]]]:
    for subject in world.typed(*GROUP_TYPES):
        types = tuple(texts(subject.get("instanceTypes"))) or tuple(texts(subject.get("instanceType")))
        yield subject, text(subject.get("amiType")) or "", types


def not_gpu(world: World) -> Iterator[Hit]:
    """GPU types with an AMI without the driver."""
    for subject, ami, types in _groups(world):
        with_gpu = [item.name for item in hardware_of(types) if item.gpu]
        if (
            not with_gpu
            or is_hidden(subject.get("amiType"))
            or subject.get("launchTemplate", "imageId") is not None
        ):
            continue
        if ami and not any(word in ami.upper() for word in ("NVIDIA", "GPU", "CUSTOM")):
            message = f"node group {subject.name}: {listed(with_gpu)} needs an AMI with the NVIDIA driver, {ami} has none"
            yield Hit(subject, ("amiType",), message)
        elif (
            not ami
            and subject.api.startswith("eks:")
            and subject.get("gpu") is not True
            and not subject.get("amiId")
        ):
            message = f"node group {subject.name}: {listed(with_gpu)} needs gpu: true; the default AMI has no NVIDIA driver"
            yield Hit(subject, ("gpu",), message)
        elif not ami and subject.api.startswith("aws:") and subject.get("launchTemplate") is None:
            message = f"node group {subject.name}: {listed(with_gpu)} and no amiType; EKS then takes the one without a driver"
            yield Hit(subject, ("amiType",), message)


def architecture(world: World) -> Iterator[Hit]:
    """AMI and CPU of different architectures."""
    for subject, ami, types in _groups(world):
        if not ami or "CUSTOM" in ami.upper():
            continue
        arch = "arm64" if "ARM" in ami.upper() else "amd64"
        other = [item.name for item in hardware_of(types) if item.arch != arch]
        if other:
            message = f"node group {subject.name}: {ami} is {arch}, {listed(other)} is {'amd64' if arch == 'arm64' else 'arm64'}"
            yield Hit(subject, ("amiType",), message)


def own_bootstrap(world: World) -> Iterator[Hit]:
    """RAID0 set up twice."""
    for node_class in world.node_classes.values():
        data = text(node_class.spec.get("userData")) or ""
        if node_class.raid0 and "ephemeral-storage" in data and "apiclient" in data:
            message = "userData runs apiclient ephemeral-storage, and instanceStorePolicy RAID0 makes Karpenter do so too"
            yield Hit(node_class.subject, ("spec", "userData"), message)


def imds(world: World) -> Iterator[Hit]:
    """IMDSv1."""
    for node_class in world.node_classes.values():
        if mapping(node_class.spec.get("metadataOptions")).get("httpTokens") == "optional":
            message = f"EC2NodeClass {node_class.subject.name} allows IMDSv1 (httpTokens optional)"
            yield Hit(node_class.subject, ("spec", "metadataOptions", "httpTokens"), message)


RULES: Table = (
    (EOL, eol), (FLOATING, floating), (WRONG_DEVICE, wrong_device), (DISK, disk), (NOT_GPU, not_gpu),
    (ARCHITECTURE, architecture), (OWN_BOOTSTRAP, own_bootstrap), (IMDS, imds),
)  # fmt: skip
