"""What operators and cloud controllers would report about their kinds, one row each, where none of them runs.

Only what an engine waits for: the provider waits until an Ingress has an address and until a RayService that carries
a wait annotation says so. Where the real KubeRay and Karpenter run, their rows are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rehearsal.api import Api, Manifest

KUBERAY, KARPENTER = "KubeRay", "Karpenter"  # those that a rehearsal can run for real
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


def _serve_service(manifest: Manifest) -> dict[str, Any]:
    """The Service for HTTP of a RayService, to which the Ingress of a model points; no endpoint is behind it."""
    metadata = manifest["metadata"]
    name = metadata["name"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": name, "uid": metadata["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"{name}-serve-svc",
            "namespace": metadata["namespace"],
            "labels": {"ray.io/serve": f"{name}-serve"},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "selector": {"ray.io/serve": "true", "ray.io/cluster": f"{name}-simulated"},
            "ports": [{"name": "serve", "port": 8000}],
        },
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
    # An object that it would make too, and that others look for.
    makes: Callable[[Manifest], Manifest] | None = None


OPERATORS: tuple[Operator, ...] = (
    Operator(KUBERAY, "ray.io/v1", "RayService", _ray_service, "serviceStatus", _serve_service),
    Operator(
        "AWS load balancer controller", "networking.k8s.io/v1", "Ingress", _load_balancer, "loadBalancer"
    ),
    Operator(KARPENTER, "karpenter.sh/v1", "NodePool", _ready, "conditions"),
    Operator(KARPENTER, "karpenter.k8s.aws/v1", "EC2NodeClass", _ready, "conditions"),
    Operator("KEDA", "keda.sh/v1alpha1", "ScaledObject", _ready, "conditions"),
)


def play_operators(api: Api, real: Collection[str] = ()) -> None:
    """Write the status of every object of the table's kinds that has none, or an older generation's.

    Kinds of the operators that run for `real` are theirs.
    """
    for row in OPERATORS:
        resource = None if row.plays in real else api.resource(row.api_version, row.kind)
        if resource is None:
            continue
        for item in api.items(resource.path()):
            if _outdated(item, row):
                metadata = item["metadata"]
                if row.makes and not metadata.get("deletionTimestamp"):
                    api.apply(row.makes(item))
                path = resource.path(metadata.get("namespace"), metadata["name"])
                api.patch_status(path, row.status(item))


def _outdated(item: Manifest, row: Operator) -> bool:
    status = item.get("status", {})
    if not status.get(row.field):
        return True
    seen = status.get("observedGeneration")
    return seen is not None and seen != item["metadata"].get("generation")


def simulated_names(real: Collection[str] = ()) -> list[str]:
    """Whose work this module plays where some run for real, each once."""
    return list(dict.fromkeys(row.plays for row in OPERATORS if row.plays not in real))
