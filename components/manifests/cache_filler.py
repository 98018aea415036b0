"""DaemonSet that keeps a pool's cached models on the NVMe disks of its nodes."""

import json
from collections.abc import Iterable
from typing import Any

from components import conventions
from components.manifests.code import CODE_HASH, code_config_map, hash_of
from components.manifests.images import serving_image
from components.manifests.network_policies import closed
from components.manifests.placement import gpu_tolerations, pool_selector
from components.manifests.pods import confined
from components.manifests.weights import claim_name, hub_source, remote_source
from components.settings.models import Loader, Model
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

Manifest = dict[str, Any]

FILLER_CONTAINER = "cache-filler"

_TIMEOUT = 3600  # seconds that Pulumi waits for all running nodes to be filled


def cache_filler(pool: GpuPool, models: Iterable[Model], platform: PlatformSettings) -> list[Manifest]:
    """DaemonSet that copies the models cached on a pool's nodes, its code and its policy; nothing where no model is cached.

    It is ready on a node when all of the node's models are there. All nodes fill at once after a change, and Pulumi
    waits for them, so the Serve document names a revision only after it is on every running node.
    """
    cached = [model for model in models if model.loader is Loader.NVME_CACHE and model.pool == pool.name]
    if not cached:
        return []
    name, labels = f"cache-filler-{pool.name}", conventions.labels("weights", "cache-filler", pool.name)
    code = code_config_map(("cache_filler.py",), name, platform.namespace, labels)
    return [
        code,
        closed(name, labels, platform),
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": name,
                "namespace": platform.namespace,
                "labels": labels,
                "annotations": {"pulumi.com/timeoutSeconds": str(_TIMEOUT)},
            },
            "spec": {
                "selector": {"matchLabels": labels},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}},
                "template": {
                    "metadata": {"labels": labels, "annotations": {CODE_HASH: hash_of(code)}},
                    "spec": _filler_pod(pool, cached, platform, name),
                },
            },
        },
    ]


def _filler_pod(pool: GpuPool, models: list[Model], platform: PlatformSettings, code: str) -> Manifest:
    wanted = [
        {
            "model": model.name,
            "revision": remote_source(model).revision,
            "marked": hub_source(model) is not None,
        }
        for model in models
    ]
    mounts = [
        {
            "name": f"model-{model.name}",
            "mountPath": f"{conventions.MODEL_MOUNT}/{model.name}",
            "readOnly": True,
        }
        for model in models
    ]
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": pool_selector(pool),
        "tolerations": gpu_tolerations(),
        "priorityClassName": conventions.SERVING_PRIORITY_CLASS,
        "terminationGracePeriodSeconds": 30,  # a copy goes on where it stopped
        # Root, without any capability: the folder on the node is made by the kubelet and belongs to root.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": FILLER_CONTAINER,
                "image": serving_image(models[0], pool, platform.images),  # on the node anyway
                "command": ["python3", f"{conventions.POLICY_MOUNT}/cache_filler.py"],
                "env": [
                    {"name": "WANTED", "value": json.dumps(wanted)},
                    {"name": "SOURCE", "value": conventions.MODEL_MOUNT},
                    {"name": "CACHE", "value": conventions.NVME_MOUNT},
                    {"name": "READY_FILE", "value": "/tmp/ready"},  # noqa: S108 - the pod's own emptyDir
                    {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                ],
                "readinessProbe": {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 5},  # noqa: S108
                # Little is asked for: it must fit into what workers leave of a node. The page cache counts as memory,
                # but is given back.
                "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
                "securityContext": confined(),
                "volumeMounts": [
                    {"name": "code", "mountPath": conventions.POLICY_MOUNT, "readOnly": True},
                    {"name": "cache", "mountPath": conventions.NVME_MOUNT},
                    {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                    *mounts,
                ],
            }
        ],
        "volumes": [
            {"name": "code", "configMap": {"name": code}},
            {"name": "cache", "hostPath": {"path": conventions.NVME_HOST_PATH, "type": "DirectoryOrCreate"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}},
            *(
                {
                    "name": f"model-{model.name}",
                    "persistentVolumeClaim": {"claimName": claim_name(model), "readOnly": True},
                }
                for model in models
            ),
        ],
    }
