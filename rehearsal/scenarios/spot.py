"""Scenario 5: EC2 announces that it takes a spot instance back, while users stream from it."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from components import conventions
from rehearsal.scenarios import looking
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome
from rehearsal.traffic import BURST

SPOT = "spot"
DISRUPTED = "karpenter.sh/disrupted"
POOL = "karpenter.sh/nodepool"
WHOLE_SECONDS = 300
STEADY_SECONDS = 12
TAINT_LIMIT = 15


@dataclass
class Seen:
    """Seconds after the warning at which something was seen first, and the fewest ready workers."""

    at: dict[str, float] = field(default_factory=dict)
    fewest: int = 99

    def note(self, name: str, now: float, *, there: bool) -> None:
        """Keep the first time."""
        if there and name not in self.at:
            self.at[name] = round(now, 1)


def spot(stage: LiveStage, outcome: Outcome) -> None:
    """A real warning into the queue; users' streams go on on the second replica."""
    stage.ensure_up()
    workers = looking.wait(stage, "two ready workers", WHOLE_SECONDS, lambda: _two_ready(stage))
    victim = next((pod for pod in workers or [] if _capacity(stage, pod) == SPOT), None)
    if not outcome.equal("a worker on a spot node", victim is not None, True) or victim is None:
        return
    name = victim["spec"]["nodeName"]
    pool = looking.label_of(looking.node(stage.api, name), POOL)
    before = {item["metadata"]["name"] for item in looking.node_claims(stage.api)}
    with stage.traffic("spot") as running:
        time.sleep(STEADY_SECONDS)
        outcome.at_least("requests finished before the warning", running.so_far()["finished"], 4)
        outcome.at_least("long streams under way at the warning", running.burst(), BURST // 2)
        stage.ask(
            "sqs.send_message",
            QueueUrl=stage.ask("sqs.list_queues", "QueueUrls[0]"),
            MessageBody=json.dumps(warning(stage, _instance(stage, name))),
        )
        seen = _follow(stage, name, victim["metadata"]["name"], lambda item: _is_new(item, pool, before))
        time.sleep(STEADY_SECONDS)
    _judge(outcome, seen, running.result)


def warning(stage: LiveStage, instance: str) -> dict[str, Any]:
    """The event as EventBridge hands it to the queue (EC2 user guide, "Spot Instance interruption notices")."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": str(stage.settings["accountId"]),
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": stage.region,
        "resources": [f"arn:aws:ec2:{stage.region}:instance/{instance}"],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    }


def _two_ready(stage: LiveStage) -> list[dict[str, Any]]:
    found = [
        pod for pod in looking.pods(stage, stage.model, conventions.WORKER_COMPONENT) if looking.ready(pod)
    ]
    return found if len(found) >= 2 else []  # noqa: PLR2004 - two, as the name says


def _capacity(stage: LiveStage, pod: dict[str, Any]) -> str:
    return looking.label_of(looking.node(stage.api, pod["spec"]["nodeName"]), conventions.CAPACITY_TYPE_LABEL)


def _instance(stage: LiveStage, node: str) -> str:
    return str(looking.node(stage.api, node)["spec"]["providerID"]).rpartition("/")[2]


def _is_new(claim: dict[str, Any], pool: str, before: set[str]) -> bool:
    """Whether a NodeClaim of the pool was launched that was not there before."""
    new = claim["metadata"]["name"] not in before and looking.label_of(claim, POOL) == pool
    return new and bool(claim.get("status", {}).get("providerID"))


def _follow(stage: LiveStage, node: str, pod: str, is_new: Callable[[dict[str, Any]], bool]) -> Seen:
    """Look twice a second until the node is gone and two workers are ready again."""
    seen, started, told = Seen(), time.monotonic(), 0.0
    pod_path = f"/api/v1/namespaces/{stage.namespace}/pods/{pod}"
    while (now := time.monotonic() - started) < WHOLE_SECONDS:
        there = stage.api.get(f"/api/v1/nodes/{node}")
        taints = [row["key"] for row in (there or {"spec": {}})["spec"].get("taints", [])]
        launched = any(is_new(item) for item in looking.node_claims(stage.api))
        ready = [
            item
            for item in looking.pods(stage, stage.model, conventions.WORKER_COMPONENT)
            if looking.ready(item)
        ]
        seen.fewest = min(seen.fewest, len(ready))
        seen.note("tainted", now, there=DISRUPTED in taints or there is None)
        seen.note("replacement launched", now, there=launched)
        seen.note("pod gone", now, there=stage.api.get(pod_path) is None)
        seen.note("node gone", now, there=there is None)
        seen.note("two ready again", now, there="pod gone" in seen.at and len(ready) >= 2)  # noqa: PLR2004
        if "node gone" in seen.at and "two ready again" in seen.at:
            break
        if now - told > looking.PROGRESS_SECONDS:
            told = now
            stage.say(f"{now:.0f} s after the warning: {seen.at}, {len(ready)} workers ready")
        time.sleep(looking.POLL_SECONDS)
    return seen


def _judge(outcome: Outcome, seen: Seen, result: dict[str, Any]) -> None:
    never = float("inf")
    at = seen.at
    outcome.at_most("node tainted after the warning (s)", at.get("tainted", never), TAINT_LIMIT)
    launched, gone = at.get("replacement launched", never), at.get("node gone", never)
    outcome.equal("replacement launched before the old node went", launched < gone, True)
    outcome.at_least("fewest ready workers meanwhile", seen.fewest, 1)
    outcome.at_most("two workers ready again (s)", at.get("two ready again", never), WHOLE_SECONDS)
    outcome.equal("requests cut", result["cut"], 0)
    outcome.equal("requests refused", result["refused"], 0)
    outcome.add_requests(result)
    outcome.saw(
        f"After the warning (s): {at}. Longest pause {result['longest_pause']} s. {result['why'][:3]}"
    )
