"""Scenario 8: the pods of a model change, so that a new RayCluster comes beside the old one.

First to an image that nobody can pull, then to one that works, as somebody does who has noticed. (Back to exactly what
serves would be no shorter way: KubeRay compares with the cluster that is coming, not with the one that serves, and starts
a third one.)
"""

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
SECOND_SECONDS = 60
MOVED_SECONDS = 420
BROKEN_SECONDS = 45
# The same image without the pull-through cache: another name, so other pods.
OTHER_IMAGE = '"docker.io/" + image[image.index("rayproject/"):]'


def cluster_upgrade(stage: LiveStage, outcome: Outcome) -> None:
    """The broken image must change nothing for users, and the next one must move them without a loss."""
    stage.ensure_up()
    first, addresses = looking.ray_clusters(stage, stage.model), set(looking.serving(stage, stage.model))
    with stage.traffic("upgrade") as running:
        time.sleep(STEADY_SECONDS)
        outcome.at_least("requests finished before the change", running.so_far()["finished"], 4)
        broken = _broken(stage, outcome, first, addresses)
        _moved(stage, outcome, first, broken, addresses)
        time.sleep(STEADY_SECONDS)
    outcome.equal("requests cut", running.result["cut"], 0)
    outcome.equal("requests refused", running.result["refused"], 0)
    outcome.add_requests(running.result)
    outcome.saw(f"Longest pause {running.result['longest_pause']} s. {running.result['why'][:3]}")


def _up(stage: LiveStage, image: str) -> None:
    """`up` with another image in every container of the live model, as an edit of the manifests would give.

    It does not wait for the model: this scenario looks itself.
    """
    stage.program.edit(
        SERVICE,
        PLACE,
        '        service["metadata"].setdefault("annotations", {})["pulumi.com/skipAwait"] = "true"\n'
        f'        if self._name == "{stage.model}":\n'
        '            cluster = service["spec"]["rayClusterConfig"]\n'
        '            for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):\n'
        '                container = group["template"]["spec"]["containers"][0]\n'
        '                image = container["image"]\n'
        f'                container["image"] = {image}\n{PLACE}',
    )
    try:
        stage.engine.up()
    finally:
        stage.program.restore(SERVICE)


def _broken(stage: LiveStage, outcome: Outcome, first: list[str], addresses: set[str]) -> list[str]:
    _up(stage, f'"{BROKEN_IMAGE}:1"')
    found = looking.wait(
        stage, "the second RayCluster", SECOND_SECONDS, lambda: _clusters(stage, without=first)
    )
    outcome.equal("broken image: a second RayCluster beside the first", len(found or []), 1)
    ended = time.monotonic() + BROKEN_SECONDS
    strangers: set[str] = set()
    while time.monotonic() < ended:
        strangers |= set(looking.serving(stage, stage.model)) - addresses
        time.sleep(1)
    outcome.equal("broken image: addresses of it that took traffic", sorted(strangers), [])
    return list(found or [])


def _moved(
    stage: LiveStage, outcome: Outcome, first: list[str], broken: list[str], addresses: set[str]
) -> None:
    _up(stage, OTHER_IMAGE)
    started = time.monotonic()
    known = [*first, *broken]
    new = looking.wait(stage, "the next RayCluster", SECOND_SECONDS, lambda: _clusters(stage, without=known))
    outcome.equal("another image: a new RayCluster beside the first", len(new or []), 1)
    early = set(looking.serving(stage, stage.model)) <= addresses
    outcome.equal("traffic stays with the first one while the new one starts", early, True)
    moved = looking.wait(stage, "traffic to move", MOVED_SECONDS, lambda: _elsewhere(stage, addresses))
    outcome.equal("traffic moved to the new one", bool(moved), True)
    outcome.saw(f"Traffic moved after {time.monotonic() - started:.0f} s.")
    outcome.equal("the first one stays for running streams", first[0] in _clusters(stage), True)
    alone = looking.wait(stage, "the others to go", MOVED_SECONDS, lambda: _clusters(stage) == new)
    outcome.equal("only the new one is there in the end", bool(alone), True)


def _clusters(stage: LiveStage, without: list[str] | tuple[str, ...] = ()) -> list[str]:
    return [name for name in looking.ray_clusters(stage, stage.model) if name not in without]


def _elsewhere(stage: LiveStage, old: set[str]) -> Any:
    now = set(looking.serving(stage, stage.model))
    return now and not now & old
