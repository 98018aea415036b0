"""Caches of model hubs, and folders of the node."""

from collections.abc import Iterator

from components.conventions import NVME_HOST_PATH
from guardrails.containers import Container
from guardrails.core import Hit, Rule, Severity, Table
from guardrails.pods import Pod
from guardrails.rules.storage import Use, modes_of, options_of, uses_of
from guardrails.values import get, is_hidden, text
from guardrails.world import World

HF_CACHE = Rule(
    id="hub-cache-read-only",
    severity=Severity.ERROR,
    sentence="The cache of a hub that is downloaded from can be written.",
    why="The download fails: read-only file system. S3 volumes fail too, since the cache renames and links files.",
    remedy="point HF_HOME at an emptyDir, or name the model by the path of the mounted weights",
    source="huggingface_hub cache layout; Mountpoint for S3 semantics",
)
HOST_PATH = Rule(
    id="host-path",
    severity=Severity.WARN,
    sentence="Pods do not mount folders of the node.",
    why="They reach other pods' data and tie the pod to one AMI's paths.",
    remedy="use an emptyDir (on NVMe with instanceStorePolicy RAID0) or a PersistentVolume",
    source="Pod Security Standards, baseline",
    framework="NSA Kubernetes Hardening, hostPath; CIS EKS 4.2",
    reads=("pod:volumes",),
)
_HUB_VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "TRANSFORMERS_CACHE")
_DEFAULT_CACHES = (
    "/root/.cache/huggingface",
    "/home/ray/.cache/huggingface",
    "/root/.cache",
    "/home/ray/.cache",
)


# ---------------------------------------------------------------------- hub caches and host paths


def hub_cache(world: World) -> Iterator[Hit]:
    """Downloads into a place that cannot be written."""
    uses = {(use.pod, use.name): use for use in uses_of(world)}
    for engine in world.engines:
        pods = (
            [engine.pod]
            if engine.pod
            else [pod for pod in world.pods_by_owner.get(engine.subject, []) if pod.gpus]
        )
        if not engine.from_hub or engine.model is not None:
            continue
        for pod in pods:
            for container in pod.containers if engine.container is None else (engine.container,):
                if container.env_values.get("HF_HUB_OFFLINE", "").lower() in ("1", "true"):
                    continue
                yield from _cache_hits(pod, container, uses)


def _cache_hits(pod: Pod, container: Container, uses: dict[tuple[Pod, str], Use]) -> Iterator[Hit]:
    named = [(name, container.env_values[name]) for name in _HUB_VARIABLES if container.env_values.get(name)]
    places = named[:1] or [("the default cache", path) for path in _DEFAULT_CACHES]
    for variable, place in places:
        mount = _mount_of(container, place)
        if mount is None:
            continue
        index, path, body = mount
        volume = text(body.get("name")) or ""
        use = uses.get((pod, volume))
        reason = _unwritable(pod, volume, body, use)
        if reason:
            message = f"container {container.name} downloads from the hub into {variable} {place}, which is {reason} (mounted at {path})"
            yield Hit(pod.owner, (*container.path, "volumeMounts", index), message)
            return


def _mount_of(container: Container, place: str) -> tuple[int, str, dict[str, object]] | None:
    """The mount that a path lies on: the longest prefix."""
    found = [
        mount
        for mount in container.mounts
        if place == mount[1] or place.startswith(f"{mount[1].rstrip('/')}/")
    ]
    return max(found, key=lambda mount: len(mount[1]), default=None)


def _unwritable(pod: Pod, volume: str, mount: dict[str, object], use: Use | None) -> str:
    _, body = pod.volumes.get(volume, (0, {}))
    if mount.get("readOnly") is True or get(body, "persistentVolumeClaim", "readOnly") is True:
        return "read-only"
    if any(key in body for key in ("configMap", "secret", "projected", "downwardAPI")):
        return "read-only"
    if use is not None:
        read_only = (
            use.read_only
            or set(modes_of(use.volume)) == {"ReadOnlyMany"}
            or "read-only" in options_of(use.volume)
        )
        return "read-only" if read_only else "an S3 volume, where files cannot be renamed or linked"
    return ""


def host_path(world: World) -> Iterator[Hit]:
    """Folders of the node in pods."""
    for pod in world.pods:
        for name, (index, body) in pod.volumes.items():
            host = body.get("hostPath")
            path = text(get(host, "path")) or ""
            if not isinstance(host, dict) or is_hidden(host):
                continue
            if world.house and path.startswith(NVME_HOST_PATH):
                continue  # the stack's own admission policy lets in this folder and no other
            # DaemonSets are agents of the node; the NVMe cache is this program's one documented exception.
            known = pod.owner.kind == "DaemonSet" or path.startswith(NVME_HOST_PATH)
            severity = Severity.ADVICE if known else None
            yield Hit(
                pod.owner,
                (*pod.spec_path, "volumes", index, "hostPath"),
                f"volume {name} is the node's {path}",
                severity,
            )


RULES: Table = (
    (HF_CACHE, hub_cache),
    (HOST_PATH, host_path),
)
