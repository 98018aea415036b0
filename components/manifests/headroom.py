"""Headroom: pause pods that keep GPU nodes warm for one model, and what decides how many.

KEDA scales the Deployment of pause pods and nothing of Ray: a RayCluster has no scale subresource. Units are pods: a
replica over several nodes has as many pause pods as it has worker pods.
"""

from typing import Any

from components import conventions, pins
from components.manifests.images import reference, registry_of
from components.manifests.monitoring import prometheus_address
from components.manifests.network_policies import closed
from components.manifests.placement import SYSTEM_NODES_PREFERRED, gpu_tolerations, pool_selector
from components.manifests.pods import confined
from components.manifests.worker_size import worker_resources
from components.settings.cluster import ImageSettings
from components.settings.extras import HeadroomSettings, OfficeHours
from components.settings.models import Model
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

Manifest = dict[str, Any]

_POLLING = 15  # seconds between two looks at the triggers
# A node is bought for minutes: what the queue asked for stays ten of them, as long as Karpenter keeps an empty node.
_COOLDOWN = 600


def chart_values(images: ImageSettings) -> Manifest:
    """Values of KEDA's chart."""
    registry = registry_of("ghcr.io", images)
    return {
        **({"global": {"image": {"registry": registry}}} if registry else {}),
        "affinity": SYSTEM_NODES_PREFERRED,
        "resources": {
            part: {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
            for part in ("operator", "metricServer", "webhooks")
        },
    }


def objects(platform: PlatformSettings) -> list[Manifest]:
    """The pause Deployment, what keeps its pods from the network, and its ScaledObject; nothing where the stack holds no headroom.

    Raises:
        KeyError: the model or its pool is not in the stack (guardrails refuse that first).
    """
    settings = platform.headroom
    if settings is None:
        return []
    model = {model.name: model for model in platform.models}[settings.model]
    pool = platform.pool_of(model)
    if pool is None:  # CPU nodes start in seconds and need no headroom
        return []
    name = _name(model)
    labels = conventions.labels("headroom", "pause", name)
    return [
        closed(name, labels, platform),
        pause_deployment(model, pool, platform),
        scaled_object(settings, model, platform),
    ]


def pause_deployment(model: Model, pool: GpuPool, platform: PlatformSettings) -> Manifest:
    """Pods that do nothing on exactly the nodes that the model's workers take, and go at once when one comes.

    Born with no pods; from then on the number is KEDA's, and the component leaves it alone.
    """
    name, labels = _name(model), conventions.labels("headroom", "pause", _name(model))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": platform.namespace, "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "Recreate"},  # a pod more during a rollout would buy a node
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "priorityClassName": conventions.HEADROOM_PRIORITY_CLASS,
                    "terminationGracePeriodSeconds": 0,
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "nodeSelector": pool_selector(pool),
                    "tolerations": gpu_tolerations(),
                    "securityContext": {
                        "runAsNonRoot": True,
                        "runAsUser": 65535,  # the pause image's own user
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [
                        {
                            "name": "pause",
                            "image": reference(pins.PAUSE_IMAGE, platform.images),
                            "resources": worker_resources(model, pool),
                            "securityContext": confined(),
                        }
                    ],
                },
            },
        },
    }


def scaled_object(settings: HeadroomSettings, model: Model, platform: PlatformSettings) -> Manifest:
    """When headroom is held: a floor in office hours, and a node more for every so many waiting requests."""
    triggers = [
        *([_office_hours(settings.office_hours, model)] if settings.office_hours else []),
        *([_queue(settings.waiting_requests, model, platform)] if settings.waiting_requests else []),
    ]
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {
            "name": _name(model),
            "namespace": platform.namespace,
            "labels": conventions.labels("headroom", "scaler", _name(model)),
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": _name(model)},
            "minReplicaCount": 0,
            "maxReplicaCount": settings.max_replicas * model.nodes,
            "pollingInterval": _POLLING,
            "cooldownPeriod": _COOLDOWN,
            "advanced": {
                "horizontalPodAutoscalerConfig": {
                    "behavior": {"scaleDown": {"stabilizationWindowSeconds": _COOLDOWN}}
                }
            },
            "triggers": triggers,
        },
    }


def _office_hours(hours: OfficeHours, model: Model) -> Manifest:
    metadata = {"timezone": hours.timezone, "start": hours.start, "end": hours.end}
    return {"type": "cron", "metadata": {**metadata, "desiredReplicas": str(hours.replicas * model.nodes)}}


def _queue(waiting: int, model: Model, platform: PlatformSettings) -> Manifest:
    """The sum over replicas is a total, so it is divided by the number of pods: AverageValue.

    The series end when the last replica goes, which must read as nobody waiting and not as an error.
    """
    query = f'sum(ray_vllm_num_requests_waiting{{model="{model.name}"}}) or vector(0)'
    if model.nodes > 1:
        query = f"({query}) * {model.nodes}"
    return {
        "type": "prometheus",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": prometheus_address(platform) or conventions.PROMETHEUS_ADDRESS,
            "query": query,
            "threshold": str(waiting),
        },
    }


def _name(model: Model) -> str:
    return f"headroom-{model.name}"
