"""Scenario 8: the pods of a model change, so that a new RayCluster comes beside the old one."""

from __future__ import annotations

import time
from typing import Any

from rehearsal.kubelet.images import BROKEN_IMAGE
from rehearsal.scenarios import looking
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import Outcome

SERVICE = "components/vllm_ray_service.py"
PLACE = "        served = self._place([service], before)\n"
STEADY_SECONDS = 12
MOVED_SECONDS = 420
BROKEN_SECONDS = 45


def cluster_upgrade(stage: LiveStage, outcome: Outcome) -> None:
    """First an image that cannot be pulled, which must change nothing for users; then more memory, which must move them."""
    stage.ensure_up()
    with stage.traffic("upgrade") as running:
        time.sleep(STEADY_SECONDS)
        outcome.at_least("requests finished before the change", running.so_far()["finished"], 4)
        _broken(stage, outcome)
        _larger(stage, outcome)
        time.sleep(STEADY_SECONDS)
    outcome.equal("requests cut", running.result["cut"], 0)
    outcome.equal("requests refused", running.result["refused"], 0)
    outcome.add_requests(running.result)
    outcome.saw(f"Longest pause {running.result['longest_pause']} s. {running.result['why'][:3]}")


def _edited(stage: LiveStage, line: str) -> None:
    """Change every container of the live model's pods, as an edit of the manifests would."""
    stage.program.edit(
        SERVICE,
        PLACE,
        f'        if self._name == "{stage.model}":\n'
        '            for group in (service["spec"]["rayClusterConfig"]["headGroupSpec"],'
        ' *service["spec"]["rayClusterConfig"]["workerGroupSpecs"]):\n'
        f"                {line}\n{PLACE}",
    )


def _up(stage: LiveStage) -> None:
    """`up` that does not wait for the model: this scenario looks itself."""
    edit = 'service["metadata"].setdefault("annotations", {})["pulumi.com/skipAwait"] = "true"'
    stage.program.edit(SERVICE, PLACE, f"        {edit}\n{PLACE}")
    stage.engine.up()


def _broken(stage: LiveStage, outcome: Outcome) -> None:
    before, addresses = looking.ray_clusters(stage, stage.model), looking.serving(stage, stage.model)
    _edited(stage, f'group["template"]["spec"]["containers"][0]["image"] = "{BROKEN_IMAGE}:1"')
    try:
        _up(stage)
    finally:
        stage.program.restore(SERVICE)
    both = looking.wait(stage, "the second RayCluster", MOVED_SECONDS, lambda: _others(stage, before))
    outcome.equal("broken image: a second RayCluster beside the first", len(both or []), 1)
    ended = time.monotonic() + BROKEN_SECONDS
    strangers: set[str] = set()
    while time.monotonic() < ended:
        strangers |= set(looking.serving(stage, stage.model)) - set(addresses)
        time.sleep(1)
    outcome.equal("broken image: addresses of it that took traffic", sorted(strangers), [])
    stage.engine.up()
    back = looking.wait(
        stage,
        "the broken one to go",
        MOVED_SECONDS,
        lambda: looking.ray_clusters(stage, stage.model) == before,
    )
    outcome.equal("after the way back only the first RayCluster is there", bool(back), True)


def _larger(stage: LiveStage, outcome: Outcome) -> None:
    before, addresses = looking.ray_clusters(stage, stage.model), set(looking.serving(stage, stage.model))
    _edited(
        stage,
        'group["template"]["metadata"].setdefault("annotations", {})["llm-platform.dev/rehearsed"] = "new"',
    )
    try:
        _up(stage)
    finally:
        stage.program.restore(SERVICE)
    started = time.monotonic()
    both = looking.wait(stage, "the second RayCluster", MOVED_SECONDS, lambda: _others(stage, before))
    outcome.equal("new pods: a second RayCluster beside the first", len(both or []), 1)
    early = set(looking.serving(stage, stage.model)) <= addresses
    outcome.equal("traffic stays with the old one while the new one starts", early, True)
    moved = looking.wait(stage, "traffic to move", MOVED_SECONDS, lambda: _moved(stage, addresses))
    outcome.equal("traffic moved to the new one", bool(moved), True)
    outcome.saw(f"Traffic moved {time.monotonic() - started:.0f} s after the second RayCluster came.")
    outcome.equal("the old one stays for running streams", before[0] in _all(stage), True)
    gone = looking.wait(
        stage, "the old RayCluster to go", MOVED_SECONDS, lambda: before[0] not in _all(stage)
    )
    outcome.equal("the old one is gone in the end", bool(gone), True)


def _others(stage: LiveStage, before: list[str]) -> list[str]:
    return [name for name in looking.ray_clusters(stage, stage.model) if name not in before]


def _all(stage: LiveStage) -> list[str]:
    return looking.ray_clusters(stage, stage.model)


def _moved(stage: LiveStage, old: set[str]) -> Any:
    now = set(looking.serving(stage, stage.model))
    return now and not now & old
