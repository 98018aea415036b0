"""Looks from outside the engine for what a stack left in a cluster: by label in every kind served, and by namespace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.conventions import MANAGED_BY_LABEL, PROJECT
from rehearsal.api import Api, label
from rehearsal.aws import inventory
from rehearsal.aws.cloud import Cloud
from rehearsal.errors import ApiError

# What an API server and its controllers make by themselves.
SYSTEM_NAMESPACES = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})
# Views of other kinds, or nothing that a stack could leave.
NOT_LISTED = frozenset({"componentstatuses", "events", "leases"})


def managed(api: Api) -> Iterator[dict[str, Any]]:
    """Every object with the label of this program, in whatever kind the server serves."""
    for resource in api.all_resources():
        if resource.plural in NOT_LISTED:
            continue
        try:
            found = api.items(resource.path(), labelSelector=f"{MANAGED_BY_LABEL}={PROJECT}")
        except ApiError:
            continue  # a kind that went away between discovery and now
        yield from ({**item, "kind": resource.kind} for item in found)


def namespaces(api: Api, expected: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """Namespaces that are neither the system's nor expected."""
    known = SYSTEM_NAMESPACES | expected
    return [item for item in api.items("/api/v1/namespaces") if item["metadata"]["name"] not in known]


@dataclass(frozen=True, order=True)
class Leftover:
    """An object that is left: its name, whether it is being deleted, and the finalizers that hold it."""

    name: str
    going: bool
    finalizers: tuple[str, ...]

    def __str__(self) -> str:
        """The name, and what holds the object if something does."""
        if self.going and self.finalizers:
            return f"{self.name} (being deleted, held by {', '.join(self.finalizers)})"
        return self.name


def launched(api: Api) -> Iterator[dict[str, Any]]:
    """What Karpenter has launched: its claims, and the nodes that came of them."""
    claims = api.resource("karpenter.sh/v1", "NodeClaim")
    if claims is not None:
        yield from api.items(claims.path())
    yield from api.items("/api/v1/nodes", labelSelector="karpenter.sh/nodepool")


def find(api: Api, expected: frozenset[str] = frozenset()) -> list[Leftover]:
    """Everything that is left, each once, by name."""
    return sorted({_leftover(item) for item in (*managed(api), *launched(api), *namespaces(api, expected))})


def in_aws(cloud: Cloud) -> list[Leftover]:
    """Everything that is left in an AWS account."""
    return sorted(Leftover(f"{kind} {name} in AWS", False, ()) for kind, name in inventory.existing(cloud))


def _leftover(item: Mapping[str, Any]) -> Leftover:
    metadata = item["metadata"]
    # A namespace keeps its finalizer in the spec.
    finalizers = [*(metadata.get("finalizers") or []), *(item.get("spec", {}).get("finalizers") or [])]
    return Leftover(label(item), bool(metadata.get("deletionTimestamp")), tuple(finalizers))
