"""Versions of what is installed: Helm charts, the cluster itself, and what each needs of the other."""

import re
from collections.abc import Iterator, Mapping
from datetime import date

from guardrails.contract import Version, version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.values import Hidden, text
from guardrails.world import World

CHART_OLD = Rule(
    id="chart-version-old",
    severity=Severity.ERROR,
    sentence="A chart's version has the APIs and fields that the objects use.",
    why="The objects are refused, or their newer fields are dropped in silence.",
    remedy="use the version that the message names, or a newer one",
    source="Karpenter upgrade guide; KubeRay and KEDA release notes",
)
CHART_FLOATING = Rule(
    id="chart-version-floating",
    severity=Severity.WARN,
    sentence="A chart has an exact version.",
    why="The next update installs whatever is newest then.",
    remedy="write the version",
    source="Helm docs, dependencies",
)
EKS_UNPINNED = Rule(
    id="eks-version-unpinned",
    severity=Severity.ERROR,
    sentence="A cluster names its Kubernetes version.",
    why="A new stack gets the newest version there is, which add-ons and Karpenter may not know.",
    remedy="set version",
    source="pulumi-eks schema: the latest available version is used",
    reads=("aws:eks/cluster:Cluster:version", "eks:index:Cluster:version"),
)
EKS_UNSUPPORTED = Rule(
    id="eks-version-unsupported",
    severity=Severity.ERROR,
    sentence="The Kubernetes version is supported by EKS.",
    why="After extended support AWS upgrades the cluster by itself, and none can be created.",
    remedy="use a version in standard support",
    source="AWS EKS Kubernetes release calendar; endoflife.date/amazon-eks",
    reads=("aws:eks/cluster:Cluster:version", "eks:index:Cluster:version"),
)
CUDA = Rule(
    id="cuda-newer-than-driver",
    severity=Severity.ERROR,
    sentence="The image's CUDA is one that the node's driver runs.",
    why="The engine fails at start: driver version is insufficient for CUDA runtime version.",
    remedy="use an image with an older CUDA, or a node image with a newer driver",
    source="NVIDIA CUDA compatibility guide; Bottlerocket and AL2023 release notes",
)

# Chart -> the first version that serves the APIs in use today, and what that is.
OLDEST: Mapping[str, tuple[Version, str]] = {
    "karpenter": ((1, 0, 0), "karpenter.sh/v1 NodePool"),
    "karpenter-crd": ((1, 0, 0), "karpenter.sh/v1 NodePool"),
    "kuberay-operator": ((1, 0, 0), "ray.io/v1"),
    "keda": ((2, 0, 0), "keda.sh/v1alpha1"),
    "aws-load-balancer-controller": ((1, 4, 0), "networking.k8s.io/v1 Ingress"),
    "aws-mountpoint-s3-csi-driver": ((1, 4, 0), "tolerations of its node pods"),
}
# (charts, kind, path, value or None for any) -> the first version that knows it.
FEATURES: tuple[tuple[tuple[str, ...], str, Path, str | None, Version], ...] = (
    (("karpenter", "karpenter-crd"), "EC2NodeClass", ("spec", "networkInterfaces"), None, (1, 11, 0)),
    (("karpenter", "karpenter-crd"), "EC2NodeClass", ("spec", "placementGroupSelector"), None, (1, 11, 0)),
    (("karpenter", "karpenter-crd"), "EC2NodeClass", ("spec", "connectionTracking"), None, (1, 13, 0)),
    (("karpenter", "karpenter-crd"), "NodePool", ("spec", "replicas"), None, (1, 8, 0)),
    (("karpenter", "karpenter-crd"), "NodePool", ("spec", "disruption", "consolidationPolicy"), "Balanced", (1, 14, 0)),
    (("kuberay-operator",), "RayService", ("spec", "rayClusterConfig", "authOptions"), None, (1, 5, 1)),
    (("kuberay-operator",), "RayService", ("spec", "rayClusterConfig", "gcsFaultToleranceOptions"), None, (1, 3, 0)),
)  # fmt: skip
# Kubernetes version -> the oldest Karpenter that supports it (Karpenter compatibility matrix).
KARPENTER_FOR: Mapping[Version, Version] = {(1, 34): (1, 6, 0), (1, 35): (1, 9, 0), (1, 36): (1, 13, 0)}

# Minor version -> end of standard support, end of extended support (AWS EKS Kubernetes release calendar).
EKS_SUPPORT: Mapping[str, tuple[date, date]] = {
    "1.21": (date(2023, 2, 16), date(2024, 7, 15)), "1.22": (date(2023, 6, 4), date(2024, 9, 1)),
    "1.23": (date(2023, 10, 11), date(2024, 10, 11)), "1.24": (date(2024, 1, 31), date(2025, 1, 31)),
    "1.25": (date(2024, 5, 1), date(2025, 5, 1)), "1.26": (date(2024, 6, 11), date(2025, 6, 11)),
    "1.27": (date(2024, 7, 24), date(2025, 7, 24)), "1.28": (date(2024, 11, 26), date(2025, 11, 26)),
    "1.29": (date(2025, 3, 23), date(2026, 3, 23)), "1.30": (date(2025, 7, 23), date(2026, 7, 23)),
    "1.31": (date(2025, 11, 26), date(2026, 11, 26)), "1.32": (date(2026, 3, 23), date(2027, 3, 23)),
    "1.33": (date(2026, 7, 29), date(2027, 7, 29)), "1.34": (date(2026, 12, 2), date(2027, 12, 2)),
    "1.35": (date(2027, 3, 27), date(2028, 3, 27)),
}  # fmt: skip
OLDEST_LISTED = (1, 21)


def chart_old(world: World) -> Iterator[Hit]:
    """Charts from before what is used."""
    for release in world.releases:
        version = version_of(release.version)
        if version is None or release.is_addon:
            continue
        if release.chart in OLDEST and version < OLDEST[release.chart][0]:
            oldest, what = OLDEST[release.chart]
            message = f"{release.label} {release.version} is from before {what} (from {_dots(oldest)} on)"
            yield Hit(release.subject, release.version_path, message)
            continue
        for charts, kind, path, value, since in FEATURES:
            if release.chart in charts and version < since:
                using = [item for item in world.kind(kind) if _uses(item, path, value)]
                if using:
                    field = ".".join(str(step) for step in path) + (f": {value}" if value else "")
                    message = f"{release.label} {release.version} does not know {field} of {using[0].label} (from {_dots(since)} on)"
                    yield Hit(release.subject, release.version_path, message)
        yield from _matrix(world, release.chart, release.subject, release.version_path, version)


def _uses(subject: Subject, path: Path, value: str | None) -> bool:
    found = subject.get(*path)
    return found is not None if value is None else found == value


def _dots(version: Version) -> str:
    return ".".join(str(part) for part in version)


def _matrix(world: World, chart: str, subject: Subject, path: Path, version: Version) -> Iterator[Hit]:
    for _, cluster_version in _cluster_versions(world):
        found = version_of(cluster_version)
        needed = KARPENTER_FOR.get(found[:2]) if found else None
        if chart == "karpenter" and needed and version < needed:
            message = f"Karpenter {_dots(version)} does not support Kubernetes {cluster_version} (from {_dots(needed)} on)"
            yield Hit(subject, path, message)


def chart_floating(world: World) -> Iterator[Hit]:
    """Charts without an exact version."""
    for release in world.releases:
        if release.is_addon or release.version_hidden or not release.chart or release.chart.startswith("."):
            continue
        written = release.version
        if written is None:
            severity = Severity.ERROR if world.house else None
            yield Hit(release.subject, release.version_path, f"{release.label} has no version", severity)
        elif re.search(r"[*^~><|]|\bx\b|latest", written):
            severity = Severity.ERROR if world.house else None
            yield Hit(
                release.subject,
                release.version_path,
                f"{release.label}: version {written} is a range",
                severity,
            )


CLUSTERS = ("aws:eks/cluster:Cluster", "eks:index:Cluster", "eks:index/cluster:Cluster")


def eks_unpinned(world: World) -> Iterator[Hit]:
    """Clusters of whatever version."""
    for subject in world.typed(*CLUSTERS):
        version = subject.get("version")
        if version is None and not isinstance(version, Hidden):
            yield Hit(subject, ("version",), f"cluster {subject.name} sets no Kubernetes version")


Versioned = tuple[tuple[Subject, Path], str]


def _cluster_versions(world: World) -> list[Versioned]:
    """Kubernetes versions with where they stand."""
    resources = world.typed(*CLUSTERS, "aws:eks/nodeGroup:NodeGroup", "eks:index:ManagedNodeGroup")
    eksctl = world.kind("ClusterConfig", group="eksctl.io")
    places: list[tuple[Subject, Path]] = [(subject, ("version",)) for subject in resources]
    places += [(subject, ("metadata", "version")) for subject in eksctl]
    found = [((subject, path), version) for subject, path in places if (version := text(subject.get(*path)))]
    found += [
        ((world.stack_subject(stack, "cluster", "stack"), stack.kubernetes_path), stack.kubernetes)
        for stack in world.stacks
        if stack.kubernetes
    ]
    return found


def eks_unsupported(world: World) -> Iterator[Hit]:
    """Versions that EKS no longer runs, or only for more money."""
    for (subject, path), written in _cluster_versions(world):
        version = version_of(written)
        if version is None:
            continue
        minor = f"{version[0]}.{version[1]}"
        if version[:2] < OLDEST_LISTED:
            yield Hit(subject, path, f"Kubernetes {minor} is no longer supported by EKS")
            continue
        if minor not in EKS_SUPPORT:
            continue
        standard, extended = EKS_SUPPORT[minor]
        if world.today > extended:
            yield Hit(subject, path, f"Kubernetes {minor} left EKS's extended support on {extended}")
        elif world.today > standard:
            message = f"Kubernetes {minor} left standard support on {standard}; extended support costs six times as much and ends on {extended}"
            yield Hit(subject, path, message, Severity.WARN)


_CUDA_TAG = re.compile(r"cu(?:da)?-?(\d{2})[.]?(\d)")
# Bottlerocket release -> driver branch -> the newest major CUDA it runs (minor versions are compatible within one).
_DRIVERS: tuple[tuple[Version, int, int], ...] = (((1, 57, 0), 580, 13), ((1, 0, 0), 535, 12))


def cuda(world: World) -> Iterator[Hit]:
    """CUDA that the driver of the node does not run."""
    for pod in world.pods:
        image = pod.main.image if pod.gpus and pod.main else None
        found = _CUDA_TAG.search(image.tag) if image and image.tag else None
        if found is None or pod.main is None or image is None:
            continue
        for pool, _ in world.reachable(pod):
            driver = _driver(pool.ami_alias)
            if driver and int(found[1]) > driver[1]:
                message = f"image {image.text} has CUDA {found[1]}.{found[2]}; {pool.ami_alias} of pool {pool.name} has driver {driver[0]}, which runs up to CUDA {driver[1]}"
                yield Hit(pod.owner, (*pod.main.path, "image"), message)


def _driver(alias: str | None) -> tuple[int, int] | None:
    family, _, written = (alias or "").partition("@")
    version = version_of(written)
    if family != "bottlerocket" or version is None:
        return None
    return next(((branch, newest) for since, branch, newest in _DRIVERS if version >= since), None)


RULES: Table = (
    (CHART_OLD, chart_old), (CHART_FLOATING, chart_floating), (EKS_UNPINNED, eks_unpinned),
    (EKS_UNSUPPORTED, eks_unsupported), (CUDA, cuda),
)  # fmt: skip
