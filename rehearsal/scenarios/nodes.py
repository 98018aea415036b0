"""Scenario 4: the pods of every model get the nodes that they were meant for."""

from __future__ import annotations

from typing import Any

from components import conventions
from components.settings.models import ServingMode
from rehearsal.scenarios import looking
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome

RUNNING_SECONDS = 240
PENDING_LIMIT = 180
ON_DEMAND = "on-demand"


def nodes(stage: LiveStage, outcome: Outcome) -> None:
    """Look at each pod of each model, and at the node below it."""
    stage.ensure_up()
    looking.wait(stage, "all pods of all models", RUNNING_SECONDS, lambda: _all_running(stage))
    for model in stage.settings["models"]:
        _model(stage, outcome, model)


def _all_running(stage: LiveStage) -> bool:
    return all(
        (found := looking.pods(stage, name)) and all(looking.running(pod) for pod in found)
        for name in stage.models
    )


def _model(stage: LiveStage, outcome: Outcome, model: dict[str, Any]) -> None:
    name = model["name"]
    found = looking.pods(stage, name)
    waiting = [pod["metadata"]["name"] for pod in found if not looking.running(pod)]
    outcome.equal(f"{name}: pods that do not run", waiting, [])
    running = [pod for pod in found if looking.running(pod)]
    parts = [looking.label_of(pod, conventions.COMPONENT_LABEL) for pod in running]
    wanted = {
        conventions.HEAD_COMPONENT: 1,
        conventions.WORKER_COMPONENT: model["scaling"]["minReplicas"] * model.get("pipelineParallel", 1),
    }
    if model.get("serving") == ServingMode.ROUTED:
        wanted[conventions.INGRESS_COMPONENT] = 1
    for component, least in wanted.items():
        outcome.at_least(f"{name}: running {component} pods", parts.count(component), least)
    wrong = [text for pod in running if (text := _wrong_node(stage, model, pod))]
    outcome.equal(f"{name}: pods on other nodes than meant", wrong, [])
    times = [looking.seconds_to_run(pod) for pod in running]
    if times:
        outcome.at_most(f"{name}: longest time from creation to running (s)", max(times), PENDING_LIMIT)
        outcome.saw(f"{name}: {len(times)} pods running after {min(times):.0f} to {max(times):.0f} s.")


def _wrong_node(stage: LiveStage, model: dict[str, Any], pod: dict[str, Any]) -> str:
    """What is wrong with the node below a pod, or nothing."""
    found = looking.node(stage.api, pod["spec"]["nodeName"])
    kind = looking.label_of(found, conventions.INSTANCE_TYPE_LABEL)
    capacity = looking.label_of(found, conventions.CAPACITY_TYPE_LABEL)
    place = f"{pod['metadata']['name']} on {kind or 'a node without type'} ({capacity or 'no capacity type'})"
    if looking.label_of(pod, conventions.COMPONENT_LABEL) != conventions.WORKER_COMPONENT:
        cpu = looking.label_of(found, conventions.WORKLOAD_LABEL) == conventions.CPU_WORKLOAD
        return "" if cpu and capacity == ON_DEMAND else place
    pool = next(row for row in stage.settings["gpuPools"] if row["name"] == model["pool"])
    good = kind in pool["instanceTypes"] and capacity in pool["capacity"]
    return "" if good else place
