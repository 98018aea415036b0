"""AMIs of nodes: alive, pinned, and for the right hardware."""

from collections.abc import Iterator
from datetime import date

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.hardware import hardware_of
from guardrails.objects import Subject
from guardrails.pools import GROUP_TYPES, NodeClass
from guardrails.values import is_hidden, listed, mapping, mappings, text, texts
from guardrails.world import World

AL2_END = date(2025, 11, 26)  # end of support of EKS's AL2 AMIs; none exist for Kubernetes 1.33 and newer

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
    (EOL, eol), (FLOATING, floating), (NOT_GPU, not_gpu),
    (ARCHITECTURE, architecture), (OWN_BOOTSTRAP, own_bootstrap), (IMDS, imds),
)  # fmt: skip
