"""Job that brings a model from Hugging Face into the bucket."""

import hashlib
from typing import Any

from components import conventions
from components.manifests.code import code_config_map
from components.manifests.images import serving_image
from components.manifests.network_policies import closed, to_aws_and_hub
from components.manifests.placement import cpu_selector
from components.manifests.pods import confined
from components.manifests.weights import bucket_of, hub_source, weights_prefix
from components.settings.models import HubSource, Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

DOWNLOAD_CONTAINER = "download"

_TIMEOUT = 4 * 3600  # seconds; 405B in FP8 at 100 MB/s takes a little more than an hour


def download_job(model: Model, platform: PlatformSettings, bucket: Any) -> list[Manifest]:
    """Job that brings a model from Hugging Face into the bucket, its code and its policy; nothing where the bucket has it already.

    Its name holds the commit, for a Job cannot be changed; it does nothing where the revision is whole.
    """
    hub = hub_source(model)
    if hub is None:
        return []
    # Not the model's own instance label: its network policies would keep the job from the internet.
    labels = conventions.labels("weights", "download", f"{model.name}-download")
    code = code_config_map(
        ("download_model.py", "s3.py", "to_safetensors.py"),
        f"{model.name}-download",
        platform.namespace,
        labels,
    )
    digest = hashlib.sha256(f"{hub.repository}@{hub.revision}>{weights_prefix(model)}".encode()).hexdigest()
    return [
        code,
        closed(f"{model.name}-download", labels, platform, to_aws_and_hub()),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": f"{model.name}-download-{digest[:6]}",
                "namespace": platform.namespace,
                "labels": labels,
                "annotations": {"pulumi.com/timeoutSeconds": str(_TIMEOUT)},
            },
            "spec": {
                "backoffLimit": 6,
                "activeDeadlineSeconds": _TIMEOUT,
                # What trying again cannot help (no access, weights that run code) ends the job at once.
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {
                                "containerName": DOWNLOAD_CONTAINER,
                                "operator": "In",
                                "values": [2],
                            },
                        },
                        {
                            "action": "Ignore",
                            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                        },
                    ]
                },
                "template": {
                    # Karpenter must not move it away by itself in the middle of 140 GB.
                    "metadata": {"labels": labels, "annotations": {conventions.DO_NOT_DISRUPT: "true"}},
                    "spec": _download_pod(model, hub, platform, bucket),
                },
            },
        },
    ]


def _download_pod(model: Model, hub: HubSource, platform: PlatformSettings, bucket: Any) -> Manifest:
    secret, key = conventions.SECRETS["huggingFaceToken"]
    token = (
        [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]
        if hub.gated
        else []
    )
    return {
        "restartPolicy": "Never",  # what podFailurePolicy needs
        "serviceAccountName": conventions.DOWNLOAD_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,  # EKS Pod Identity mounts a token of its own
        "enableServiceLinks": False,
        "nodeSelector": cpu_selector(platform.cpu_pool),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": DOWNLOAD_CONTAINER,
                "image": serving_image(model, None, platform.images),
                "command": ["python3", f"{conventions.POLICY_MOUNT}/download_model.py"],
                "env": [
                    {"name": "REPOSITORY", "value": hub.repository},
                    {"name": "REVISION", "value": hub.revision},
                    {"name": "BUCKET", "value": bucket_of(model, bucket)},
                    {"name": "PREFIX", "value": weights_prefix(model)},
                    {"name": "AWS_REGION", "value": platform.region},
                    {"name": "ALLOW_CODE", "value": "1" if model.engine.trust_remote_code else "0"},
                    {"name": "SCRATCH", "value": "/scratch"},
                    {"name": "TMPDIR", "value": "/scratch"},
                    {"name": "HOME", "value": "/scratch"},
                    {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"},
                    *token,
                ],
                "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "8Gi"}},
                "securityContext": confined(),
                "volumeMounts": [
                    {"name": "code", "mountPath": conventions.POLICY_MOUNT, "readOnly": True},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }
        ],
        "volumes": [
            {"name": "code", "configMap": {"name": f"{model.name}-download"}},
            {"name": "scratch", "emptyDir": {}},  # one .bin file at a time, where a model has those
        ],
    }
