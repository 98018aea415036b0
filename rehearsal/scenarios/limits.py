"""Scenario 6: a pool's limit is reached, and a pod asks for what no type has."""

from __future__ import annotations

from typing import Any

from components import conventions
from components.manifests.placement import gpu_tolerations
from rehearsal.kubelet.images import SIMULATED_ANNOTATION
from rehearsal.scenarios import looking
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome

NAMESPACE = "default"
EVENT_SECONDS = 60
GONE_SECONDS = 60
NAME_LABEL = "app.kubernetes.io/name"
TOO_MANY = 64  # GPUs of one pod; no instance has as many
REASONS = {"pool limit": "exceed limits for nodepool", "no type that fits": "no instance type"}


def limits(stage: LiveStage, outcome: Outcome) -> None:
    """Pods of our own beside the models; both kinds stay Pending, and an event says why."""
    stage.ensure_up()
    pool = stage.settings["gpuPools"][-1]
    full = [
        gpu_pod(f"rehearsed-full-{number}", pool["name"], 1) for number in range(pool["limits"]["gpus"] + 1)
    ]
    large = gpu_pod("rehearsed-large", pool["name"], TOO_MANY)
    names = [pod["metadata"]["name"] for pod in (*full, large)]
    try:
        # The large one first: with a full pool Karpenter would name the limit for it too.
        stage.api.apply(large)
        _explained(stage, outcome, "no type that fits", names[-1:])
        for pod in full:
            stage.api.apply(pod)
        _explained(stage, outcome, "pool limit", names[:-1])
    finally:
        for name in names:
            stage.api.delete(path_of(name), grace_seconds=0)
    gone = looking.wait(
        stage, "the pods to go", GONE_SECONDS, lambda: not any(stage.api.get(path_of(name)) for name in names)
    )
    outcome.equal("pods of this scenario are gone", bool(gone), True)


def _explained(stage: LiveStage, outcome: Outcome, name: str, pods: list[str]) -> None:
    """One of the pods is Pending, and Karpenter's event about it names the reason."""

    def said() -> list[str]:
        return [
            words
            for pod in pods
            if (stage.api.get(path_of(pod)) or {}).get("status", {}).get("phase") == "Pending"
            for words in looking.events(stage.api, NAMESPACE, pod)
            if words.startswith("karpenter") and REASONS[name] in words
        ]

    found = looking.wait(stage, f"Karpenter's word about {name}", EVENT_SECONDS, said)
    clauses = (found or ["no such event"])[-1].split("; ")  # one for each pool
    words = next((clause for clause in clauses if REASONS[name] in clause), "; ".join(clauses))
    outcome.contains(f"{name}: event of a pod that is Pending", words, REASONS[name])
    outcome.saw(f"{name}: {words[:400]}")


def path_of(name: str) -> str:
    """Where a pod of a scenario is in the API."""
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"


def gpu_pod(name: str, pool: str, gpus: int) -> dict[str, Any]:
    """A pod of nobody's stack that wants GPUs of a pool, and is simulated."""
    container = {
        "name": "wait",
        "image": "registry.k8s.io/pause:3.10.1",
        "resources": {"limits": {conventions.GPU_RESOURCE: str(gpus)}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {NAME_LABEL: name},
            "annotations": {SIMULATED_ANNOTATION: "true"},
        },
        "spec": {
            "containers": [container],
            "nodeSelector": {conventions.POOL_LABEL: pool},
            "tolerations": gpu_tolerations(),
            "terminationGracePeriodSeconds": 0,
        },
    }
