"""How weights reach a pod: the bucket as a volume, a copy on the node's disks, and the job that fills the bucket.

The functions that a component places; `bucket` may be an Output, which stands at leaves only.
"""

import math
from collections.abc import Iterable
from typing import Any

from components import conventions
from components.facts.instance_types import INSTANCE_TYPES
from components.manifests.cache_filler import cache_filler
from components.manifests.download_job import download_job
from components.manifests.weights import (
    bucket_of,
    claim_name,
    local_path,
    needs_volume,
    weights_folder,
    weights_prefix,
)
from components.settings.models import Loader, Model
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

__all__ = [
    "cache_filler",
    "claim_name",
    "download_job",
    "local_path",
    "needs_volume",
    "volume",
    "weights_folder",
    "weights_prefix",
]

Manifest = dict[str, Any]

_DRIVER = "s3.csi.aws.com"
# Mountpoint takes 10 Gbit/s where it can ask neither EC2 nor an option (mountpoint-s3-csi-driver #561).
_DEFAULT_GBPS = 10
# Seconds in which Mountpoint may not see a revision that has just been added; files themselves never change.
_METADATA_TTL = 60


def volume(model: Model, platform: PlatformSettings, bucket: Any) -> list[Manifest]:
    """Volume and claim of a model's folder in the bucket; nothing for a model that mounts none."""
    if not needs_volume(model):
        return []
    name, labels = (
        f"{platform.namespace}-{claim_name(model)}",
        conventions.labels("weights", "volume", model.name),
    )
    pool = platform.pool_of(model)
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "capacity": {"storage": "1Ti"},  # required by Kubernetes, ignored by the driver
                "accessModes": ["ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": platform.namespace, "name": claim_name(model)},
                "mountOptions": _mount_options(model, pool, platform.region),
                "csi": {
                    "driver": _DRIVER,
                    "volumeHandle": name,  # two volumes of one handle break each other without a word
                    "volumeAttributes": {
                        "bucketName": bucket_of(model, bucket),
                        "authenticationSource": "driver",
                        **_mountpoint_cache(model, pool, platform.models),
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim_name(model), "namespace": platform.namespace, "labels": labels},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "",
                "volumeName": name,
                "resources": {"requests": {"storage": "1Ti"}},
            },
        },
    ]


def _mount_options(model: Model, pool: GpuPool | None, region: str) -> list[str]:
    """Options of Mountpoint. Region and speed are always told: pods reach no instance metadata to ask."""
    return [
        "read-only",
        "allow-other",  # the serving image runs as a user other than root
        f"region {region}",
        f"prefix {weights_folder(model)}",
        f"maximum-throughput-gbps {_line_gbps(pool)}",
        f"metadata-ttl {_METADATA_TTL}",
    ]


def _line_gbps(pool: GpuPool | None) -> int:
    """Network of the pool's fastest type, a whole number. It is a target, so it does not hurt the slower ones."""
    if pool is None:
        return _DEFAULT_GBPS
    return math.ceil(max(INSTANCE_TYPES[name].network_gbps for name in pool.instance_types))


def _mountpoint_cache(model: Model, pool: GpuPool | None, models: Iterable[Model]) -> dict[str, str]:
    """Mountpoint's own cache on the NVMe disks, so that a second pod on the node need not read S3 again.

    Half of the disks, shared by the pool's models: without a limit it fills the disk that also holds images, and the
    kubelet evicts pods. None where there are no disks, or where the node's cache holds the model already.
    """
    if pool is None or not pool.local_nvme or model.loader is not Loader.MOUNTPOINT:
        return {}
    disk = min(INSTANCE_TYPES[name].nvme_gb for name in pool.instance_types) * 10**9 / 2**30
    sharing = sum(other.pool == pool.name and other.loader is Loader.MOUNTPOINT for other in models)
    size = int(disk / 2 / max(1, sharing))
    return {"cache": "emptyDir", "cacheEmptyDirSizeLimit": f"{size}Gi"} if size else {}
