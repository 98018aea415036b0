"""Values of the operators' Helm charts that need AWS or GPU nodes: Karpenter, load balancer controller, DCGM, EFA."""

from collections.abc import Sequence
from typing import Any, Final

from components import conventions, pins
from components.manifests import images, placement
from components.settings.cluster import ImageSettings
from components.settings.pools import GpuPool

GPU_COUNT_LABEL: Final = "karpenter.k8s.aws/instance-gpu-count"


def karpenter(cluster: str, region: str, queue: str, source: ImageSettings) -> dict[str, Any]:
    """Values of Karpenter's controller; its two replicas stand on system nodes of two zones.

    Args:
        cluster: name of the cluster.
        region: its region; said aloud, since pods reach no instance metadata to learn it from.
        queue: name of the queue with interruptions.
        source: where images are pulled from.
    """
    return {
        "serviceAccount": {"name": conventions.KARPENTER_SERVICE_ACCOUNT},
        "settings": {
            "clusterName": cluster,
            "interruptionQueue": queue,
            # A node whose GPU has fallen off the bus is replaced after ten minutes, at most a fifth of a pool at once.
            "featureGates": {"nodeRepair": True},
        },
        "controller": {
            **_image("public.ecr.aws/karpenter/controller", source),
            "env": [{"name": "AWS_REGION", "value": region}],
            "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        },
    }


def load_balancer_controller(cluster: str, region: str, vpc_id: Any, source: ImageSettings) -> dict[str, Any]:
    """Values of the AWS load balancer controller.

    Args:
        cluster: name of the cluster.
        region: its region.
        vpc_id: its VPC, maybe an Output; None leaves it to the controller to ask AWS.
        source: where images are pulled from.
    """
    return {
        **_image("public.ecr.aws/eks/aws-load-balancer-controller", source),
        "clusterName": cluster,
        "region": region,
        **({"vpcId": vpc_id} if vpc_id is not None else {}),
        "serviceAccount": {"create": True, "name": conventions.LOAD_BALANCER_SERVICE_ACCOUNT},
        "replicaCount": 2,
        "podDisruptionBudget": {"maxUnavailable": 1},
        # Its webhook on Services would make every Service of the cluster fail while the controller is away.
        "enableServiceMutatorWebhook": False,
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
    }


def dcgm_exporter(source: ImageSettings) -> dict[str, Any]:
    """Values of the GPU metrics exporter. The scrape is Observability's own: the chart's would need its CRDs first."""
    on_gpu_nodes = {"matchExpressions": [{"key": GPU_COUNT_LABEL, "operator": "Exists"}]}
    return {
        **_image("nvcr.io/nvidia/k8s/dcgm-exporter", source),
        "tolerations": placement.gpu_tolerations(),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_gpu_nodes]}
            }
        },
        "serviceMonitor": {"enabled": False},
        # The chart's 512Mi are too few beside eight GPUs.
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    }


def efa_plugin(pools: Sequence[GpuPool]) -> dict[str, Any]:
    """Values of the EFA device plugin: on the instance types of the pools that have EFA, tolerating their taint."""
    types = sorted({instance_type for pool in pools if pool.efa for instance_type in pool.instance_types})
    return {
        "tolerations": placement.gpu_tolerations(),
        "supportedInstanceLabels": {"keys": [conventions.INSTANCE_TYPE_LABEL], "values": types},
    }


def default_storage_class() -> dict[str, Any]:
    """The class of volumes that name none: EKS makes no default since Kubernetes 1.30."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": "gp3",
            "labels": conventions.labels("gp3", "storage-class"),
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3", "encrypted": "true"},
        "volumeBindingMode": "WaitForFirstConsumer",  # in the zone of the pod
        "allowVolumeExpansion": True,
        "reclaimPolicy": "Delete",
    }


def _image(repository: str, source: ImageSettings) -> dict[str, Any]:
    """Where a chart pulls its own image from, when not from where it says itself; the chart keeps tag and digest."""
    reference = images.reference(pins.Image(repository, "chart"), source).rpartition(":")[0]
    return {} if reference == repository else {"image": {"repository": reference}}
