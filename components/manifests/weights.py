"""Where a model's weights lie: in the bucket, on a node, in a pod. Names only.

A volume shows a model's folder, not one revision of it, so that another revision is a change of the Serve document
only: volumes are immutable, and a new one would replace every pod.
"""

from typing import Any

from components import conventions
from components.settings.models import HubSource, Loader, Model, S3Source

CACHE_MARKER = ".complete"
"""Last file written of a folder of weights, in the bucket and in the cache: what has it is whole."""


def needs_volume(model: Model) -> bool:
    """Whether the bucket is mounted for a model: by its own pods, or by the filler of the node's cache."""
    return model.source.kind != "path" and model.loader in (Loader.MOUNTPOINT, Loader.NVME_CACHE)


def weights_folder(model: Model) -> str:
    """Folder of a model in the bucket, without a revision, ending in "/" as Mountpoint wants a prefix."""
    source = remote_source(model)
    return f"{(source.prefix if isinstance(source, S3Source) else source.repository).strip('/')}/"


def weights_prefix(model: Model) -> str:
    """Folder of the model's revision in the bucket, ending in "/"."""
    return f"{weights_folder(model)}{remote_source(model).revision}/"


def local_path(model: Model) -> str | None:
    """Where the engine finds the weights in a worker pod, or None when they are streamed from S3.

    Workers mount the claim at `MODEL_MOUNT`, or the node's cache folder of the model at `NVME_MOUNT`.
    """
    if model.source.kind == "path":
        return model.source.path
    mounts = {Loader.MOUNTPOINT: conventions.MODEL_MOUNT, Loader.NVME_CACHE: conventions.NVME_MOUNT}
    mount = mounts.get(model.loader)
    return f"{mount}/{remote_source(model).revision}" if mount else None


def cache_host_path(model: Model) -> str:
    """Folder of a model in a node's cache; the revisions lie below it."""
    return f"{conventions.NVME_HOST_PATH}/{model.name}"


def claim_name(model: Model) -> str:
    """Name of the claim of a model's volume, in the stack's namespace."""
    return f"{model.name}-weights"


def remote_source(model: Model) -> S3Source | HubSource:
    """The model's source, of a kind that lies outside of the node.

    Raises:
        ValueError: the source is a path, which has no folder in a bucket.
    """
    if model.source.kind == "path":
        raise ValueError(f"{model.name}: a source of kind path has no folder in a bucket")
    return model.source


def hub_source(model: Model) -> HubSource | None:
    """Where the download job takes the model from, or None when its weights are there already."""
    if model.source.kind == "s3":
        return model.source.download_from
    return model.source if model.source.kind == "huggingFace" else None


def bucket_of(model: Model, bucket: Any) -> Any:
    """A bucket of the model's own, or the stack's."""
    return model.source.bucket if model.source.kind == "s3" and model.source.bucket else bucket
