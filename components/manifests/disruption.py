"""PodDisruptionBudgets of a model: how many pods may be evicted at once by whoever asks first.

`minAvailable` as a whole number. Ray pods belong to a RayCluster, which has no scale subresource, so with
`maxUnavailable` or a percentage the disruption controller cannot count them and allows no eviction at all. A budget that
would allow none is not made: it only delays a drain until the pool's grace ends it by force. None of this holds back a
spot reclaim.
"""

from typing import Any

from components import conventions
from components.settings.models import Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]


def disruption_budgets(model: Model, platform: PlatformSettings) -> list[Manifest]:
    """Budgets of workers and ingress pods, each where there is one pod to spare. The single head has none."""
    # Of a replica over several nodes only the first pod is ever Ready (kuberay #2552), and only Ready pods count.
    wanted = [
        (conventions.WORKER_COMPONENT, model.scaling.min_replicas),
        (conventions.INGRESS_COMPONENT, model.ingress.replicas if model.has_ingress_group else 0),
    ]
    return [_budget(model, platform, part, pods - 1) for part, pods in wanted if pods > 1]


def _budget(model: Model, platform: PlatformSettings, component: str, available: int) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": f"{model.name}-{component.removeprefix('ray-')}",
            "namespace": platform.namespace,
            "labels": conventions.labels("kuberay", component, model.name),
        },
        "spec": {
            "minAvailable": available,
            "selector": {
                "matchLabels": {
                    conventions.INSTANCE_LABEL: model.name,
                    conventions.COMPONENT_LABEL: component,
                }
            },
            # A pod that is not ready, such as one that still loads, may go at any time; but not the later stages of a
            # pipeline, which are never ready.
            "unhealthyPodEvictionPolicy": "AlwaysAllow" if model.nodes == 1 else "IfHealthyBudget",
        },
    }
