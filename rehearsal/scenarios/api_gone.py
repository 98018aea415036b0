"""Scenario 11: the API server dies in the middle of `up`."""

from __future__ import annotations

from rehearsal.errors import EngineError
from rehearsal.scenarios import orphans, watching
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

API_SERVER = "kube-apiserver"
AFTER = 5  # Kubernetes objects begun before it dies
# How a client puts it: nobody listens, or the connection ended in the middle of a request.
GONE = ("refused", "unreachable", ": EOF", "reset by peer", "connection lost")


def api_gone(stage: Stage, outcome: Outcome) -> None:
    """The error names what is gone; when it is back, the next `up` makes the rest."""
    stage.ensure_down()
    marker = str(stage.folder)
    with watching.struck(
        stage.engine_log,
        lambda steps: sum(kind.startswith("kubernetes:") for _, kind, _ in steps.begun) >= AFTER,
        lambda: watching.kill(marker, API_SERVER),
    ) as hit:
        words = stage.failure(stage.engine.up)
    outcome.equal("API server killed in the middle", bool(hit), True)
    told = [line for line in words.splitlines() if any(word in line for word in GONE) and "https://" in line]
    outcome.at_least("lines of the error that say that it is not reachable", len(told), 1)
    outcome.equal("the error is a traceback", "Traceback" in words, False)
    outcome.saw(f"The error: {(told or [words or '(none)'])[0][:300]}")

    stage.plane.stop()
    stage.plane.start()
    stage.forget()
    stage.engine.refresh()
    found = orphans.delete(stage)
    if found:
        outcome.saw(f"Found by list and deleted: {orphans.described(found)}.")
    try:
        stage.up()
    except EngineError as error:
        outcome.equal("the next up", str(error)[:600], "converges")
        return
    outcome.equal("changes of one more up", stage.up().changed, 0)
    outcome.equal("outside the state", orphans.names(stage), [])
