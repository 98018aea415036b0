"""Container images: pinned, and one version of Ray in all of them."""

from collections.abc import Iterator

from guardrails.contract import version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.imageref import LAST_OPENAI_WITH_RAY, ImageRef, image_ref
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.releases import images_in
from guardrails.values import mappings, text
from guardrails.world import World

FLOATING = Rule(
    id="image-floating",
    severity=Severity.ERROR,
    sentence="An image names a version, a date or a content by its tag, or has a digest.",
    why="What runs changes without a change in this file: pods of one Deployment run different code, and no roll-back helps.",
    remedy="use a version tag or a digest (@sha256:…)",
    source="Kubernetes docs, images; CIS EKS 5.1",
    framework="NIST SP 800-190 4.1",
    reads=("pod:containers.*.image", "pod:initContainers.*.image"),
)
UNTAGGED = Rule(
    id="image-untagged",
    severity=Severity.ERROR,
    sentence="An image has a tag or a digest.",
    why="Without either it is `latest`, whatever that is on the day a node starts.",
    remedy="add a version tag or a digest (@sha256:…)",
    source="Kubernetes docs, images",
    framework="NIST SP 800-190 4.1",
)
RAY_MISMATCH = Rule(
    id="ray-version-mismatch",
    severity=Severity.ERROR,
    sentence="rayVersion is the version of Ray in the images.",
    why="KubeRay takes probes, autoscaler and features from it; the pods run another Ray.",
    remedy="write the version of the image tag into rayVersion",
    source="kuberay#154; KubeRay 1.7 rayVersion",
    reads=(
        "pod:containers.*.image",
        "RayService:spec.rayClusterConfig.rayVersion",
        "RayCluster:spec.rayVersion",
    ),
)
RAY_MIXED = Rule(
    id="ray-version-mixed",
    severity=Severity.ERROR,
    sentence="Head and workers run one version of Ray.",
    why="Processes of different versions refuse each other: Version mismatch.",
    remedy="use one image tag for head and workers",
    source="kuberay#154",
    reads=("pod:containers.*.image",),
)
RAY_MISSING = Rule(
    id="ray-version-missing",
    severity=Severity.WARN,
    sentence="rayVersion is set.",
    why="KubeRay then guesses probes and features from its own default version.",
    remedy="set rayVersion to the version in the image",
    source="KubeRay 1.7 docs; ray-operator/controllers/ray/common/pod.go",
    reads=("RayService:spec.rayClusterConfig.rayVersion", "RayCluster:spec.rayVersion"),
)
NO_RAY = Rule(
    id="ray-not-in-image",
    severity=Severity.ERROR,
    sentence="The image of a Ray pod has Ray.",
    why="vllm/vllm-openai lost Ray after v0.17.1: ray command not found.",
    remedy="use rayproject/ray-llm, or an image with Ray and vLLM of one pair",
    source="vllm-project/production-stack issue 995 and PR 1056",
    reads=("pod:containers.*.image",),
)


def _images(world: World) -> Iterator[tuple[Subject, Path, str, ImageRef]]:
    """Every image with what names it."""
    for pod in world.pods:
        for container in pod.all_containers:
            if container.image is not None:
                yield pod.owner, (*container.path, "image"), f"container {container.name}", container.image
    for release in world.releases:
        for path, written in images_in(release.values):
            yield release.subject, (*release.values_path, *path), f"chart {release.chart}", image_ref(written)


def _kustomized(world: World) -> set[str]:
    """Names of images that a Kustomization gives a tag or a digest."""
    return {
        text(entry.get("name")) or ""
        for subject in world.by_kind.get("Kustomization", [])
        for _, entry in mappings(subject.body.get("images"))
        if entry.get("newTag") is not None or entry.get("digest") is not None
    }


def floating(world: World) -> Iterator[Hit]:
    """Tags that move."""
    given = _kustomized(world)
    severity = None if world.prod else Severity.WARN
    for subject, path, name, image in _images(world):
        if image.floats and image.tag and image.repository not in given:
            message = f"{name}: tag {image.tag} of {image.repository} names no version, date or content"
            yield Hit(subject, path, message, severity)


def untagged(world: World) -> Iterator[Hit]:
    """No tag at all."""
    given = _kustomized(world)
    severity = None if world.prod else Severity.WARN
    for subject, path, name, image in _images(world):
        if image.floats and not image.tag and image.repository not in given:
            yield Hit(subject, path, f"{name}: {image.repository} has neither tag nor digest", severity)


def _ray_pods(world: World, subject: Subject) -> list[tuple[Pod, str]]:
    """Ray pods with the Ray version that their image tells."""
    pods = [pod for pod in world.pods_by_owner.get(subject, []) if pod.is_ray and pod.main and pod.main.image]
    return [
        (pod, version)
        for pod in pods
        if pod.main and pod.main.image and (version := pod.main.image.ray_version)
    ]


def _group(pod: Pod) -> str:
    return "head" if pod.role == "head" else f"worker group {pod.group}"


def _same(one: str, other: str) -> bool:
    """Whether two versions agree as far as both tell: 2.60 and 2.60.0 do."""
    first, second = version_of(one) or (), version_of(other) or ()
    shared = min(len(first), len(second))
    return first[:shared] == second[:shared]


def ray_mismatch(world: World) -> Iterator[Hit]:
    """RayVersion that no image has."""
    for subject, path, cluster in world.ray_clusters:
        declared = text(cluster.get("rayVersion"))
        if not declared or version_of(declared) is None:
            continue
        for pod, version in _ray_pods(world, subject):
            if not _same(declared, version) and pod.main:
                message = f"rayVersion is {declared}, the image of the {_group(pod)} has Ray {version}"
                yield Hit(subject, (*path, "rayVersion"), message)


def ray_mixed(world: World) -> Iterator[Hit]:
    """Groups of different Ray versions."""
    for subject, _, _ in world.ray_clusters:
        found = _ray_pods(world, subject)
        if not found:
            continue
        first, version = found[0]
        for pod, other in found[1:]:
            if not _same(version, other) and pod.main:
                message = f"the {_group(first)} runs Ray {version}, the {_group(pod)} runs Ray {other}"
                yield Hit(subject, (*pod.main.path, "image"), message)


def ray_missing(world: World) -> Iterator[Hit]:
    """No rayVersion."""
    for subject, path, cluster in world.ray_clusters:
        if cluster.get("rayVersion") in (None, "") and cluster.get("headGroupSpec") is not None:
            yield Hit(subject, (*path, "rayVersion"), "rayVersion is not set")


def no_ray(world: World) -> Iterator[Hit]:
    """VLLM's own server image as a Ray image."""
    for pod in world.pods:
        image = pod.main.image if pod.is_ray and pod.main else None
        if image is None or not image.is_openai_server or (image.digest and not image.tag):
            continue
        version = version_of(image.tag)
        if version is None and not image.floats:
            continue
        if version is None or version > LAST_OPENAI_WITH_RAY:
            message = f"{_group(pod)}: image {image.text} has no Ray (v0.17.1 is the last that ships it)"
            yield Hit(pod.owner, (*pod.main.path, "image"), message)  # type: ignore[union-attr]


RULES: Table = (
    (FLOATING, floating), (UNTAGGED, untagged), (RAY_MISMATCH, ray_mismatch), (RAY_MIXED, ray_mixed),
    (RAY_MISSING, ray_missing), (NO_RAY, no_ray) )  # fmt: skip
