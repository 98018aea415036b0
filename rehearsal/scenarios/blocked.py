"""Scenario 14, its other half: `destroy` while a disruption budget of somebody else's blocks the drain of a GPU node."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import yaml

from components.quantities import seconds
from rehearsal.api import Api
from rehearsal.errors import RehearsalError
from rehearsal.processes import beside
from rehearsal.scenarios import looking
from rehearsal.scenarios.destroyed import nothing_left
from rehearsal.scenarios.limits import NAME_LABEL, NAMESPACE, gpu_pod, path_of
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import PLATFORM

NAME = "rehearsed-blocker"
RUNNING_SECONDS = 90
DRAIN = "2m"
# What destroy takes beside the drain: pods, controllers, cluster and network go in about a minute here.
REST_SECONDS = 120
POLL_SECONDS = 2.0


def blocked(stage: LiveStage, outcome: Outcome) -> None:
    """Karpenter drains for as long as the pool says, tells meanwhile what it waits for, and then goes on without it."""
    stage.start()
    pool = _drained_soon(stage)
    stage.ensure_up()
    stage.api.apply(gpu_pod(NAME, pool, 1))
    stage.api.apply(budget())
    pod = looking.wait(stage, "the blocker to run", RUNNING_SECONDS, lambda: _running(stage))
    if not outcome.equal("a pod of somebody else's on a GPU node", bool(pod), True):
        return
    grace = seconds(DRAIN)
    with _told(stage, pod["spec"]["nodeName"]) as words:
        result = stage.engine.destroy()
    stage.is_up = False
    said = "\n".join(sorted(words))
    outcome.contains("Karpenter says of the node that it waits", said, "1 pods are waiting to be evicted")
    outcome.contains("Karpenter says of the pod what it went against", said, "bypasses the PDB of the pod")
    outcome.at_least("destroy waited for the drain (s)", result.seconds, grace)
    outcome.at_most("destroy ended (s)", result.seconds, grace + REST_SECONDS)
    outcome.equal("the pod went with its node", stage.api.get(path_of(NAME)), None)
    stage.api.delete(f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/{NAME}")
    nothing_left(stage, outcome)
    outcome.saw(f"The pool lets a node drain for {grace:.0f} s; destroy took {result.seconds:.0f} s.")


def _drained_soon(stage: LiveStage) -> str:
    """The first GPU pool, whose nodes may drain for as long as the models' pods need, by the stack's own setting."""
    path = stage.program.stack_file(stage.stack)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    pool: dict[str, Any] = content["config"][PLATFORM]["gpuPools"][0]
    pool["terminationGracePeriod"] = DRAIN
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return str(pool["name"])


def budget() -> dict[str, Any]:
    """A budget that never allows an eviction."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {NAME_LABEL: NAME}}},
    }


def _running(stage: LiveStage) -> dict[str, Any] | None:
    pod = stage.api.get(path_of(NAME))
    return pod if pod and looking.running(pod) else None


@contextlib.contextmanager
def _told(stage: LiveStage, node: str) -> Iterator[set[str]]:
    """What Karpenter reports about a node and the blocking pod while the block runs."""
    words: set[str] = set()

    def follow(done: threading.Event) -> None:
        with Api.from_kubeconfig(stage.plane.kubeconfig) as api:
            while not done.wait(POLL_SECONDS):
                with contextlib.suppress(RehearsalError):
                    found = [*looking.events(api, NAMESPACE, node), *looking.events(api, NAMESPACE, NAME)]
                    words.update(row for row in found if row.startswith("karpenter"))

    with beside(follow):
        yield words
