"""Scenario 3: a mandatory rule is broken by an edit of the program, after its own check of the settings.

A rule between objects is decided when the whole stack is known, so an `up` alone would come too late: the documented
way up is preview, then up. A rule about one object is asked before that object is made.
"""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.engine import Result
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

SERVICE = "components/vllm_ray_service.py"
POOLS = "components/gpu_pools.py"
WITHOUT_TOLERATION = (
    "        served = self._place([service], before)\n",
    (
        '        for group in service["spec"]["rayClusterConfig"]["workerGroupSpecs"]:\n'
        '            group["template"]["spec"].pop("tolerations", None)\n'
        "        served = self._place([service], before)\n"
    ),
)
POOL = "rehearsed-extra"
DRAIN = '        drain = pulumi.CustomTimeouts(delete=f"{_delete_minutes(pool)}m")\n'
WITH_UNTAINTED_POOL = (
    DRAIN,
    (
        f"{DRAIN}"
        "        if pool_name(pool) == args.gpu_pools[0].name:\n"
        "            extra = node_pools.node_pool(pool, args.zones)\n"
        f'            extra["metadata"] = {{**extra["metadata"], "name": "{POOL}"}}\n'
        '            del extra["spec"]["template"]["spec"]["taints"]\n'
        "            options = pulumi.ResourceOptions(parent=self, depends_on=[node_class])\n"
        f'            KubernetesObject("{POOL}", extra, options)\n'
    ),
)


def violations(stage: Stage, outcome: Outcome) -> None:
    """Both kinds of rule, and nothing changed after either."""
    stage.ensure_up()
    before = stage.picture()
    words = _refused(stage, SERVICE, WITHOUT_TOLERATION, stage.engine.preview)
    outcome.contains("preview without the GPU toleration", words, "toleration")
    outcome.contains("it is a policy that says so", words, "policy ")
    outcome.equal("anything changed by the refused preview", _changes(before, stage.picture()), [])
    words = _refused(stage, POOLS, WITH_UNTAINTED_POOL, stage.engine.up)
    outcome.contains("up without the GPU taint", words, "gpu-pool-untainted")
    outcome.contains("it is a policy that says so", words, "policy ")
    after = stage.picture()
    outcome.equal("anything changed in API server and AWS by the refused up", _changes(before, after), [])
    outcome.equal(f"NodePool {POOL} exists", f"NodePool {POOL}" in after["objects"], False)
    healed = stage.up()
    outcome.equal("changes of an up after the edits were taken back", healed.changed, 0)


def _refused(stage: Stage, path: str, change: tuple[str, str], operation: Callable[[], Result]) -> str:
    """What the engine says to an edit of the program, which is taken back."""
    stage.program.edit(path, *change)
    try:
        return stage.failure(operation)
    finally:
        stage.program.restore(path)


def _changes(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> list[str]:
    """What differs between two pictures of API server and account. The state may hold notes of its own."""
    objects = before["objects"], after["objects"]
    names = sorted(
        name for name in {*objects[0], *objects[1]} if objects[0].get(name) != objects[1].get(name)
    )
    account = set(map(str, before["AWS"])) ^ set(map(str, after["AWS"]))
    return names + sorted(account)
