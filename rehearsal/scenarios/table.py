"""All scenarios: what each must hold, what it is played on, and whether `ONLY=ci` plays it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rehearsal.errors import RehearsalError
from rehearsal.scenarios import (
    api_gone,
    blocked,
    by_hand,
    cluster_upgrade,
    destroyed,
    first_up,
    killed,
    limits,
    nodes,
    pins_bumped,
    revision,
    spot,
    violations,
)
from rehearsal.scenarios.outcome import Outcome

GIVEN, SMALL, OPERATORS, LIVE = "simulated", "small", "operators", "live"
SMALL_STACK = "dev"


@dataclass(frozen=True)
class Scenario:
    """One row. `stage` says what it is played on.

    `simulated` is the stack with simulated pods and operators, `small` the same with the dev stack (every kind of
    resource, a third of the number), `operators` the dev stack with the real KubeRay and Karpenter, `live` the stack with the real KubeRay and Karpenter and one model that answers.
    """

    number: int
    name: str
    expected: str
    play: Callable[[Any, Outcome], None]
    stage: str = GIVEN
    in_ci: bool = False
    # Where nothing can run for real, the simulated stage shows most of it; the report says so.
    or_simulated: bool = False

    @property
    def title(self) -> str:
        """Number and name, as in reports and folders; the number alone may stand for two halves."""
        return f"{self.number} {self.name}"


# In the order in which they are played: what needs the stack up before what takes it down; the spot loss before the
# limits and the revision, which leave spare nodes for a while, so that no replacement would be launched.
SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        1, "first up",
        "up succeeds with the policy pack; all resources of the state exist; every live model's endpoint answers",
        first_up.first_up, LIVE, in_ci=True, or_simulated=True,
    ),
    Scenario(2, "second up", "0 changes", first_up.second_up, LIVE, in_ci=True, or_simulated=True),
    Scenario(
        4, "pods become nodes",
        "each model's pods Running on an expected instance type and capacity type; heads and ingress on on-demand CPU nodes",
        nodes.nodes, LIVE, in_ci=True,
    ),
    Scenario(
        5, "spot interruption",
        "Karpenter taints, a replacement is launched before the old node goes, the budget is honoured, no stream is cut",
        spot.spot, LIVE, in_ci=True,
    ),
    Scenario(
        6, "limits", "pods Pending with an event that names the reason: pool limit reached, no type that fits",
        limits.limits, LIVE,
    ),
    Scenario(
        7, "model revision changed",
        "only the Serve document and the code beside it change; no pod replaced; 0 requests lost, pause under 5 s with two replicas",
        revision.revision, LIVE, in_ci=True,
    ),
    Scenario(
        8, "image or resources changed",
        "a new RayCluster beside the old, traffic moves when it is healthy, no request lost; a broken image never takes traffic",
        cluster_upgrade.cluster_upgrade, LIVE, in_ci=True,
    ),
    Scenario(
        13, "destroy",
        "order: workloads, pools, node classes, Karpenter, identities, cluster, network; nothing left anywhere",
        destroyed.destroyed, LIVE, in_ci=True, or_simulated=True,
    ),
    Scenario(
        3, "mandatory violation",
        "the documented way up stops at preview; a rule on one object stops up before the object is made; nothing changed",
        violations.violations, in_ci=True,
    ),
    Scenario(12, "changed by hand", "refresh and preview show it, up heals it", by_hand.by_hand),
    Scenario(
        9, "pins bumped",
        "URNs stable; no replacement of cluster, pools, buckets or models when Kubernetes, Karpenter and KubeRay move",
        pins_bumped.pins_bumped,
    ),
    Scenario(
        10, "engine killed",
        "after cancel, refresh and delete-by-list the next run converges; nothing of ours exists outside the state",
        killed.killed, SMALL,
    ),
    Scenario(11, "API server gone", "a clear error; the next up converges", api_gone.api_gone, SMALL),
    Scenario(
        14, "destroy held up by a finalizer",
        "ends within its time and says exactly what holds it and how to go on",
        destroyed.held_up, SMALL,
    ),
    Scenario(
        14, "destroy held up by a disruption budget",
        "the node drains for as long as its pool allows, an event names the pod, and destroy ends",
        blocked.blocked, OPERATORS,
    ),
)  # fmt: skip


def chosen(only: str) -> list[Scenario]:
    """The scenarios of a list like `1,2,13`, in playing order; all of them for an empty one, `ci` for 1 to 5, 7, 8 and 13.

    Raises RehearsalError for a number that there is not.
    """
    if only == "ci":
        return [row for row in SCENARIOS if row.in_ci]
    numbers = {text.strip() for text in only.split(",") if text.strip()}
    known = {str(row.number) for row in SCENARIOS}
    if unknown := sorted(numbers - known):
        raise RehearsalError(
            f"There is no scenario {', '.join(unknown)}; there are 1 to {max(map(int, known))}. "
            "Name them as in ONLY=1,2,13, or ONLY=ci for 1 to 5, 7, 8 and 13."
        )
    return [row for row in SCENARIOS if not numbers or str(row.number) in numbers]
