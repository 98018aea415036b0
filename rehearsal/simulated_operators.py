"""What operators and cloud controllers would report about their kinds, one row each, where none of them runs.

Only what an engine waits for: the provider waits until an Ingress has an address and until a RayService that carries
a wait annotation says so. The real KubeRay takes its place in the full rehearsal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rehearsal.api import Api, Manifest

LOAD_BALANCER = "simulated.invalid"  # a name that can never resolve (RFC 6761)


def _condition(kind: str, manifest: Manifest) -> dict[str, Any]:
    return {
        "type": kind,
        "status": "True",
        "reason": "Simulated",
        "message": "simulated",
        "observedGeneration": manifest["metadata"].get("generation", 1),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _ray_service(manifest: Manifest) -> dict[str, Any]:
    return {
        "serviceStatus": "Running",
        "numServeEndpoints": 1,
        "observedGeneration": manifest["metadata"].get("generation", 1),
        "conditions": [_condition("Ready", manifest)],
    }


def _load_balancer(_manifest: Manifest) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [{"hostname": LOAD_BALANCER}]}}


def _ready(manifest: Manifest) -> dict[str, Any]:
    return {"conditions": [_condition("Ready", manifest)]}


@dataclass(frozen=True)
class Operator:
    """Whose work is simulated, for which kind, and the status it would write."""

    plays: str
    api_version: str
    kind: str
    status: Callable[[Manifest], Mapping[str, Any]]
    # The status field that shows that it was written already.
    field: str


OPERATORS: tuple[Operator, ...] = (
    Operator("KubeRay", "ray.io/v1", "RayService", _ray_service, "serviceStatus"),
    Operator(
        "AWS load balancer controller", "networking.k8s.io/v1", "Ingress", _load_balancer, "loadBalancer"
    ),
    Operator("Karpenter", "karpenter.sh/v1", "NodePool", _ready, "conditions"),
    Operator("Karpenter", "karpenter.k8s.aws/v1", "EC2NodeClass", _ready, "conditions"),
    Operator("KEDA", "keda.sh/v1alpha1", "ScaledObject", _ready, "conditions"),
)


def play_operators(api: Api) -> None:
    """Write the status of every object of the table's kinds that has none, or an older generation's."""
    for row in OPERATORS:
        resource = api.resource(row.api_version, row.kind)
        if resource is None:
            continue
        for item in api.items(resource.path()):
            if _outdated(item, row):
                metadata = item["metadata"]
                path = resource.path(metadata.get("namespace"), metadata["name"])
                api.patch_status(path, row.status(item))


def _outdated(item: Manifest, row: Operator) -> bool:
    status = item.get("status", {})
    if not status.get(row.field):
        return True
    seen = status.get("observedGeneration")
    return seen is not None and seen != item["metadata"].get("generation")


def simulated_names() -> list[str]:
    """Whose work this module plays, each once."""
    return list(dict.fromkeys(row.plays for row in OPERATORS))
