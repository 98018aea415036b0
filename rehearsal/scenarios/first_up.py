"""Scenarios 1 and 2: the first `up` with the policy pack, and a second one without a change."""

from __future__ import annotations

from typing import Any

from rehearsal.api import Api
from rehearsal.errors import ApiError
from rehearsal.scenarios import orphans
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

KUBERNETES = "kubernetes:"
LEAST_LOOKED_UP = 50


def first_up(stage: Stage, outcome: Outcome) -> None:
    """From nothing to everything, with the rules asked on the way."""
    stage.ensure_down()
    result = stage.up()
    kinds = {name for name, number in result.changes.items() if number}
    outcome.equal("operations of the first up", sorted(kinds), ["create"])
    mandatory = [row["message"] for row in result.violations if row["level"] == "mandatory"]
    outcome.equal("mandatory violations", mandatory, [])
    missing, counted = not_there(stage)
    outcome.equal("resources in the state that do not exist", missing, [])
    outcome.at_least("resources of the state looked up one by one", counted, LEAST_LOOKED_UP)
    made = sum(result.changes.values())
    outcome.saw(f"{made} resources made in {result.seconds:.0f} s; {counted} looked up one by one.")
    for model in stage.live_models:
        status = stage.ask_model(model)
        outcome.equal(f"{model}: HTTP status of a chat completion", status, 200)
    simulated = [name for name in stage.models if name not in stage.live_models]
    if simulated:
        outcome.saw(f"Simulated pods, so nothing was asked: {', '.join(simulated)}.")
        for name in simulated:
            found = stage.api.get(f"/apis/ray.io/v1/namespaces/{stage.namespace}/rayservices/{name}")
            outcome.equal(f"{name}: RayService exists", found is not None, True)


def second_up(stage: Stage, outcome: Outcome) -> None:
    """Nothing changes."""
    stage.ensure_up()
    result = stage.up()
    outcome.equal("changes", result.changed, 0)
    outcome.saw(f"{result.changes.get('same', 0)} resources left as they are, in {result.seconds:.0f} s.")


def not_there(stage: Stage) -> tuple[list[str], int]:
    """What the engine's state holds and neither the API server nor the account has; and how many were looked up."""
    account = orphans.there(stage)
    missing, counted = [], 0
    for row in stage.recorded():
        there = (
            _in_cluster(stage.api, row) if row["type"].startswith(KUBERNETES) else _in_account(row, account)
        )
        if there is not None:
            counted += 1
            if not there:
                missing.append(f"{row['urn'].rpartition('::')[2]} ({row['id']})")
    return missing, counted


def _in_cluster(api: Api, row: dict[str, Any]) -> bool | None:
    manifest = row.get("outputs") or {}
    if "apiVersion" not in manifest or not row.get("custom"):
        return None
    try:
        return api.get(api.locate(manifest)) is not None
    except ApiError:
        return False


def _in_account(row: dict[str, Any], account: set[tuple[str, str]]) -> bool | None:
    """Whether a resource is in the account; None for one that the account has no list of (attachments, settings)."""
    token = row["type"]
    if not token.startswith("aws:") or not row.get("custom"):
        return None
    kind = token if token in orphans.LISTED_TYPES else token.rpartition(":")[2]
    listed = kind in orphans.LISTED_TYPES or any(name == kind for name, _ in account)
    return (kind, str(row["id"])) in account if listed else None
