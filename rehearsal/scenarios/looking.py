"""What live scenarios look at in the cluster: the models' pods, the nodes below them, and what Karpenter says."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from components import conventions
from rehearsal.api import Api
from rehearsal.doorway import ready_addresses
from rehearsal.scenarios.stage import Stage

PROGRESS_SECONDS = 5.0
POLL_SECONDS = 0.5


def wait(stage: Stage, what: str, seconds: float, condition: Callable[[], Any]) -> Any:
    """What a condition gives once it gives something true, else its last answer; says what it waits for."""
    started = told = time.monotonic()
    while True:
        found = condition()
        now = time.monotonic()
        if found or now - started > seconds:
            return found
        if now - told > PROGRESS_SECONDS:
            told = now
            stage.say(f"waiting for {what}, {now - started:.0f} s")
        time.sleep(POLL_SECONDS)


def pods(stage: Stage, model: str = "", component: str = "") -> list[dict[str, Any]]:
    """The Ray pods of a model, or of all, without those that are being deleted."""
    wanted = {conventions.INSTANCE_LABEL: model, conventions.COMPONENT_LABEL: component}
    selector = ",".join(f"{key}={value}" if value else key for key, value in wanted.items())
    found = stage.api.items(f"/api/v1/namespaces/{stage.namespace}/pods", labelSelector=selector)
    return [item for item in found if not item["metadata"].get("deletionTimestamp")]


def ready(pod: dict[str, Any]) -> bool:
    """Whether a pod says that it is ready."""
    rows = pod.get("status", {}).get("conditions", [])
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)


def running(pod: dict[str, Any]) -> bool:
    """Whether a pod runs."""
    return bool(pod.get("status", {}).get("phase") == "Running")


def node(api: Api, name: str) -> dict[str, Any]:
    """A node; empty when there is none."""
    return api.get(f"/api/v1/nodes/{name}") or {"metadata": {"labels": {}}, "spec": {}}


def label_of(item: dict[str, Any], key: str) -> str:
    """A label, or nothing."""
    return str((item["metadata"].get("labels") or {}).get(key, ""))


def seconds_to_run(pod: dict[str, Any]) -> float:
    """From the pod's creation to the start of its first container."""
    starts = [
        row["state"]["running"]["startedAt"]
        for row in pod["status"].get("containerStatuses", [])
        if "running" in row.get("state", {})
    ]
    return (_time(min(starts)) - _time(pod["metadata"]["creationTimestamp"])) if starts else float("inf")


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def node_claims(api: Api) -> list[dict[str, Any]]:
    """Karpenter's NodeClaims."""
    return api.items("/apis/karpenter.sh/v1/nodeclaims")


def events(api: Api, namespace: str, name: str) -> list[str]:
    """What was reported about an object, newest last, as `reporter: message`."""
    found = api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector=f"involvedObject.name={name}")
    rows = [
        (
            item.get("lastTimestamp") or item.get("eventTime") or "",
            item.get("reportingComponent") or item.get("source", {}).get("component", ""),
            item.get("message", ""),
        )
        for item in found
    ]
    return [f"{reporter}: {message}" for _, reporter, message in sorted(rows)]


def ray_clusters(stage: Stage, model: str) -> list[str]:
    """The RayClusters of a model that are not being deleted."""
    found = stage.api.items(f"/apis/ray.io/v1/namespaces/{stage.namespace}/rayclusters")
    return sorted(
        item["metadata"]["name"]
        for item in found
        if not item["metadata"].get("deletionTimestamp")
        and any(row.get("name") == model for row in item["metadata"].get("ownerReferences", []))
    )


def ray_service(stage: Stage, model: str) -> dict[str, Any]:
    """The RayService of a model."""
    return stage.api.get(f"/apis/ray.io/v1/namespaces/{stage.namespace}/rayservices/{model}") or {}


def serving(stage: Stage, model: str) -> list[str]:
    """Addresses of the ready endpoints of a model's serve Service."""
    slices = stage.api.items(
        f"/apis/discovery.k8s.io/v1/namespaces/{stage.namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={model}-serve-svc",
    )
    return ready_addresses(slices)
