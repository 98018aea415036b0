"""Volumes of Mountpoint for S3: how they are claimed, mounted and read."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from guardrails.containers import Container
from guardrails.core import Hit, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.values import get, mapping, text, texts, whole
from guardrails.world import World

DRIVER = "s3.csi.aws.com"

ACCESS_MODE = Rule(
    id="s3-access-mode",
    severity=Severity.ERROR,
    sentence="An S3 volume is ReadOnlyMany or ReadWriteMany.",
    why="The driver refuses the others: Volume capability not supported.",
    remedy="use ReadOnlyMany for weights",
    source="mountpoint-s3-csi-driver docs/CONFIGURATION.md; pkg/driver/node/node.go",
)
DUPLICATE_HANDLE = Rule(
    id="s3-duplicate-handle",
    severity=Severity.ERROR,
    sentence="Every S3 volume has a volumeHandle of its own.",
    why="Kubernetes takes two with one handle for the same volume: pods hang in ContainerCreating, without an error.",
    remedy="give each PersistentVolume its own volumeHandle",
    source="mountpoint-s3-csi-driver#159, #114; docs/TROUBLESHOOTING.md",
)
WRITE_OPTION = Rule(
    id="s3-write-option",
    severity=Severity.WARN,
    sentence="A volume of weights has no mount option that allows deleting or overwriting.",
    why="A fault in one pod could destroy the weights of all.",
    remedy="remove allow-delete and allow-overwrite",
    source="Mountpoint for S3 docs/CONFIGURATION.md",
)
NOT_READ_ONLY = Rule(
    id="s3-not-read-only",
    severity=Severity.WARN,
    sentence="A volume of weights cannot be written.",
    why="A fault in one pod could change the weights of all.",
    remedy="use ReadOnlyMany, the mount option read-only, or readOnly: true on the pod's volume",
    source="mountpoint-s3-csi-driver pkg/driver/node/node.go (ReadOnlyMany adds read-only)",
)
NON_ROOT = Rule(
    id="s3-non-root",
    severity=Severity.ERROR,
    sentence="A pod that does not run as root can read its S3 volume.",
    why="Mountpoint gives files to root only: permission denied.",
    remedy="add the mount option allow-other (or uid), or set fsGroup",
    source="mountpoint-s3-csi-driver docs/CONFIGURATION.md, non-root pods",
)
NO_REGION = Rule(
    id="s3-without-region",
    severity=Severity.ADVICE,
    sentence="An S3 volume names the bucket's region.",
    why="Where pods cannot ask the instance, Mountpoint guesses us-east-1 first and assumes 10 Gbit/s.",
    remedy="add the mount options region and maximum-throughput-gbps",
    source="mountpoint-s3-csi-driver#561",
)

_WEIGHTS = re.compile(r"model|weight|checkpoint|llm|safetensor|(?:^|[-_/])hf(?:$|[-_/])", re.IGNORECASE)
_SCRATCH = re.compile(r"scratch|output|result|log|tmp|temp|cache|upload|dataset|train", re.IGNORECASE)
# Images whose user is not root (ray-project/ray docker files).
_NON_ROOT_IMAGES = ("rayproject/ray", "rayproject/ray-llm", "rayproject/ray-ml")


def _volumes(world: World) -> list[Subject]:
    """PersistentVolumes of the S3 driver."""
    return [
        item for item in world.kind("PersistentVolume") if text(item.get("spec", "csi", "driver")) == DRIVER
    ]


def modes_of(volume: Subject) -> list[str]:
    """Access modes."""
    return texts(volume.get("spec", "accessModes"))


def options_of(volume: Subject) -> dict[str, str]:
    """Mount options by name; `region us-west-2` and `region=us-west-2` are the same."""
    found = {}
    for written in texts(volume.get("spec", "mountOptions")):
        name, _, value = re.sub(r"[=\s]+", " ", written.strip().lstrip("-")).partition(" ")
        found[name] = value
    return found


def access_mode(world: World) -> Iterator[Hit]:
    """Modes that the driver refuses."""
    for volume in _volumes(world):
        for index, mode in enumerate(modes_of(volume)):
            if mode in ("ReadWriteOnce", "ReadWriteOncePod"):
                yield Hit(volume, ("spec", "accessModes", index), f"{mode} is not supported by {DRIVER}")


def duplicate_handle(world: World) -> Iterator[Hit]:
    """Handles that two volumes share."""
    seen: dict[str, list[Subject]] = defaultdict(list)
    for volume in _volumes(world):
        handle = text(volume.get("spec", "csi", "volumeHandle"))
        if handle:
            seen[handle].append(volume)
    for handle, volumes in seen.items():
        first, *others = {volume.name: volume for volume in volumes}.values()
        for other in others:
            message = f"PersistentVolumes {first.name} and {other.name} share the volumeHandle {handle}"
            yield Hit(other, ("spec", "csi", "volumeHandle"), message)


def _is_weights(world: World, volume: Subject) -> bool:
    """Whether a volume holds weights: it is read-only by its mode, an engine reads it, or its names say so."""
    if set(modes_of(volume)) == {"ReadOnlyMany"}:
        return True
    if any(use.volume is volume and use.pod in world.engine_pods for use in uses_of(world)):
        return True
    labels = " ".join(text(value) or "" for value in mapping(volume.get("metadata", "labels")).values())
    words = " ".join(
        [
            volume.name,
            labels,
            options_of(volume).get("prefix", ""),
            text(volume.get("spec", "csi", "volumeAttributes", "bucketName")) or "",
        ]
    )
    return bool(_WEIGHTS.search(words)) and not _SCRATCH.search(
        " ".join([volume.name, labels, options_of(volume).get("prefix", "")])
    )


def write_option(world: World) -> Iterator[Hit]:
    """Options that let pods destroy weights."""
    for volume in _volumes(world):
        options = options_of(volume)
        for index, written in enumerate(texts(volume.get("spec", "mountOptions"))):
            name = written.strip().lstrip("-").split(" ")[0]
            if (
                name in ("allow-delete", "allow-overwrite")
                and "read-only" not in options
                and _is_weights(world, volume)
            ):
                yield Hit(
                    volume, ("spec", "mountOptions", index), f"mount option {name} on a volume of weights"
                )


def not_read_only(world: World) -> Iterator[Hit]:
    """Weights that can be written."""
    for volume in _volumes(world):
        if (
            set(modes_of(volume)) == {"ReadOnlyMany"}
            or "read-only" in options_of(volume)
            or not _is_weights(world, volume)
        ):
            continue
        uses = [use for use in uses_of(world) if use.volume is volume]
        if set(modes_of(volume)) & {"ReadWriteOnce", "ReadWriteOncePod"} and not uses:
            continue  # the driver refuses it anyway, and s3-access-mode says so
        if not uses or any(not use.read_only for use in uses):
            message = f"volume {volume.name} of weights can be written (mode {', '.join(modes_of(volume)) or 'unset'})"
            yield Hit(volume, ("spec", "accessModes"), message)


@dataclass(frozen=True, slots=True)
class Use:
    """A PersistentVolume that a pod mounts."""

    pod: Pod
    volume: Subject
    name: str  # of the pod's volume
    index: int
    read_only: bool


def uses_of(world: World) -> list[Use]:
    """S3 volumes with the pods that mount them."""
    return world.once("s3-uses", _find_uses)


def _find_uses(world: World) -> list[Use]:
    """S3 volumes with the pods that mount them, found through their claims."""
    claims = _claims(world)
    found = []
    for pod in world.pods:
        for name, (index, body) in pod.volumes.items():
            claim = text(get(body, "persistentVolumeClaim", "claimName"))
            volume = claims.get((pod.owner.namespace, claim or ""))
            if volume is not None:
                mounts = [
                    mount
                    for item in pod.all_containers
                    for _, _, mount in item.mounts
                    if text(mount.get("name")) == name
                ]
                whole_volume = get(body, "persistentVolumeClaim", "readOnly") is True
                each = bool(mounts) and all(mount.get("readOnly") is True for mount in mounts)
                found.append(Use(pod, volume, name, index, whole_volume or each))
    return found


def _claims(world: World) -> dict[tuple[str, str], Subject]:
    """S3 volumes by namespace and name of their claim."""
    found: dict[tuple[str, str], Subject] = {}
    by_name = {volume.name: volume for volume in _volumes(world)}
    for volume in by_name.values():
        claim = mapping(volume.get("spec", "claimRef"))
        if text(claim.get("name")):
            found[(text(claim.get("namespace")) or "default", text(claim["name"]) or "")] = volume
    for claim_object in world.kind("PersistentVolumeClaim"):
        named = by_name.get(text(claim_object.get("spec", "volumeName")) or "")
        if named is not None:
            found[(claim_object.namespace, claim_object.name)] = named
    return found


def non_root(world: World) -> Iterator[Hit]:
    """Pods without root that cannot read the volume."""
    for use in uses_of(world):
        options, pod = options_of(use.volume), use.pod
        if (
            "allow-other" in options
            or "uid" in options
            or get(pod.spec, "securityContext", "fsGroup") is not None
        ):
            continue
        for container in pod.containers:
            if not any(text(mount.get("name")) == use.name for _, _, mount in container.mounts):
                continue
            who, certain = _user(pod, container)
            if who:
                message = f"container {container.name} runs {who}, and volume {use.volume.name} has neither allow-other nor uid"
                yield Hit(
                    pod.owner,
                    (*pod.spec_path, "volumes", use.index),
                    message,
                    None if certain else Severity.WARN,
                )


def _user(pod: Pod, container: Container) -> tuple[str, bool]:
    """Under which user a container runs when that is not root, and whether the manifest says so."""
    contexts = (mapping(container.body.get("securityContext")), mapping(pod.spec.get("securityContext")))
    for context in contexts:
        user = context.get("runAsUser")
        if user is not None:
            number_of = whole(user)
            return (f"as user {number_of}", True) if number_of else ("", True)
    if any(context.get("runAsNonRoot") is True for context in contexts):
        return "as a user that is not root", True
    image = container.image
    if image and image.repository.endswith(_NON_ROOT_IMAGES):
        return f"as the user of {image.name}, which is not root", False
    return "", True


def no_region(world: World) -> Iterator[Hit]:
    """Volumes that leave the region to be found."""
    for volume in _volumes(world):
        if "region" not in options_of(volume):
            yield Hit(volume, ("spec", "mountOptions"), "the mount option region is missing")


RULES: Table = (
    (ACCESS_MODE, access_mode), (DUPLICATE_HANDLE, duplicate_handle), (WRITE_OPTION, write_option),
    (NOT_READ_ONLY, not_read_only), (NON_ROOT, non_root), (NO_REGION, no_region) )  # fmt: skip
