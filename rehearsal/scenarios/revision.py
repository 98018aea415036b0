"""Scenario 7: a newer revision of the model, under users' traffic."""

from __future__ import annotations

import time
from typing import Any

from components import conventions
from rehearsal import session_plan
from rehearsal.scenarios import looking
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome
from rehearsal.substitution import TIME_FACTOR, Substitution

STEADY_SECONDS = 12
DONE_SECONDS = 420  # two replicas, one after the other, on two cores
PAUSE_LIMIT = 5.0
NEWER = "f" * 40


def revision(stage: LiveStage, outcome: Outcome) -> None:
    """Only the Serve document and the code beside it may change, no pod may go, and users must not notice."""
    stage.ensure_up()
    model = next(row for row in stage.settings["models"] if row["name"] == stage.model)
    before = _names(stage)
    specs = _without_document(stage)
    stage.variables |= _weights(stage, NEWER)  # for the scenarios after this one too
    engine = stage.engine
    with stage.traffic("revision") as running:
        time.sleep(STEADY_SECONDS)
        outcome.at_least("requests finished before the change", running.so_far()["finished"], 4)
        model["source"]["revision"] = NEWER
        stage.write()
        planned = engine.preview()
        changes = sorted(
            row["urn"].rpartition("::")[2] for row in planned.steps if row["operation"] == "update"
        )
        outcome.equal("preview: updates", changes, [f"{stage.model}-configmap", f"{stage.model}-rayservice"])
        outcome.equal("preview: creations and deletions of models' objects", _others(planned), [])
        started = time.monotonic()
        engine.up()
        done = looking.wait(
            stage, "the new revision to serve", DONE_SECONDS, lambda: NEWER in _applied(stage)
        )
        outcome.equal("the new revision is what Serve has", bool(done), True)
        outcome.saw(f"The new revision served after {time.monotonic() - started:.0f} s.")
        time.sleep(STEADY_SECONDS)
    after = _names(stage)
    outcome.equal("pods replaced", sorted(before - after), [])
    if added := sorted(after - before):
        # Serve starts the new replica while the old one still drains and holds its GPU; Ray's autoscaler answers that
        # with a pod, where the model may have another replica, and removes it when it has idled long enough.
        outcome.saw(f"Added for the time of the change: {', '.join(added)}.")
    now = _without_document(stage)
    differ = sorted(field for field in {*specs, *now} if specs.get(field) != now.get(field))
    outcome.equal("fields of the RayService that differ beside its Serve document", differ, [])
    outcome.equal("requests cut", running.result["cut"], 0)
    outcome.equal("requests refused", running.result["refused"], 0)
    outcome.at_most("longest pause (s)", running.result["longest_pause"], PAUSE_LIMIT)
    outcome.add_requests(running.result)
    if running.result["why"]:
        outcome.saw(f"Why: {running.result['why'][:3]}")


def _weights(stage: LiveStage, revision_name: str) -> dict[str, str]:
    """The substitution with the tiny model in a folder that bears the revision's name, as the real weights' folder does.

    The link lies beside the model: a pod has a /tmp of its own, and a stage may lie below the machine's.
    """
    weights = session_plan.weights().resolve()
    link = weights.with_name(f"{weights.name}-{revision_name}")
    if not link.exists():
        link.symlink_to(weights, target_is_directory=True)
    return Substitution((stage.model,), str(link), TIME_FACTOR).environment()


def _names(stage: LiveStage) -> set[str]:
    return {pod["metadata"]["name"] for pod in looking.pods(stage, stage.model)}


def _without_document(stage: LiveStage) -> dict[str, Any]:
    spec = dict(looking.ray_service(stage, stage.model)["spec"])
    spec.pop("serveConfigV2")
    return spec


def _others(planned: Any) -> list[str]:
    """Steps beside updates; a download of the new weights into the bucket belongs to storage, not to the model."""
    return [
        f"{row['operation']} {row['urn'].rpartition('::')[2]}"
        for row in planned.steps
        if row["operation"] not in ("same", "update") and "::storage-" not in row["urn"]
    ]


def _applied(stage: LiveStage) -> str:
    """The document that KubeRay has sent and Serve reports as running everywhere."""
    service = looking.ray_service(stage, stage.model)
    active = service.get("status", {}).get("activeServiceStatus", {})
    states = [row.get("status") for row in active.get("applicationStatuses", {}).values()]
    deployments = [
        row.get("status")
        for application in active.get("applicationStatuses", {}).values()
        for row in application.get("serveDeploymentStatuses", {}).values()
    ]
    healthy = states and all(state == "RUNNING" for state in states)
    healthy = healthy and all(state == "HEALTHY" for state in deployments)
    healthy = healthy and service["status"].get("observedGeneration", 0) >= service["metadata"]["generation"]
    workers = looking.pods(stage, stage.model, conventions.WORKER_COMPONENT)
    return str(service["spec"]["serveConfigV2"]) if healthy and workers else ""
