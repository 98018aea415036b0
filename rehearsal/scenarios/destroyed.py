"""Scenarios 13 and 14: `destroy`, and one that something holds up."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence

from rehearsal import leftovers
from rehearsal.api import MERGE, Api
from rehearsal.engine import Result
from rehearsal.scenarios import orphans
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

# In this order they must go; each row is a sentence's word and the beginnings of types or, after `#`, of names.
ORDER: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("workloads", ("kubernetes:ray.io/v1:RayService", "kubernetes:networking.k8s.io/v1:Ingress")),
    ("pools", ("kubernetes:karpenter.sh/v1:NodePool",)),
    ("node classes", ("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",)),
    ("Karpenter", ("kubernetes:helm.sh/v3:Release#karpenter-chart",)),
    (
        "identities",
        ("aws:iam/role:Role#karpenter", "aws:eks/podIdentityAssociation:PodIdentityAssociation#karpenter"),
    ),
    ("cluster", ("aws:eks/cluster:Cluster",)),
    ("network", ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet")),
)
FINALIZER = "example.com/held-by-a-rehearsal"
HELD_SECONDS = 45
REST_SECONDS = 60  # what destroy takes beside the object that is held


def destroyed(stage: Stage, outcome: Outcome) -> None:
    """Everything goes, in the order in which one needs the other."""
    stage.ensure_up()
    result = stage.engine.destroy()
    stage.is_up = False
    for first, second, wrong in out_of_order(result):
        outcome.equal(f"{first} before {second}", wrong, "")
    outcome.equal("resources in the state", len(stage.recorded()), 0)
    nothing_left(stage, outcome)
    outcome.saw(f"{result.changes.get('delete', 0)} resources deleted in {result.seconds:.0f} s.")


def nothing_left(stage: Stage, outcome: Outcome) -> None:
    """Neither objects of ours, nor NodeClaims, nor anything in AWS."""
    with Api.from_kubeconfig(stage.plane.kubeconfig) as api:  # a new one: the kinds that it knows went away
        outcome.equal("objects of ours in the API server", [str(row) for row in leftovers.find(api)], [])
        claims = api.resource("karpenter.sh/v1", "NodeClaim")
        names = [item["metadata"]["name"] for item in (api.items(claims.path()) if claims else [])]
    outcome.equal("NodeClaims", names, [])
    outcome.equal("resources in AWS and the stand-in", dict(stage.existing()), {})


def out_of_order(result: Result) -> list[tuple[str, str, str]]:
    """For each neighbours in ORDER their names, and what came too early; empty text where all is right."""
    places = [
        (name, [index for index, row in enumerate(result.steps) if _is_of(row, kinds)])
        for name, kinds in ORDER
    ]
    rows = []
    for (first, earlier), (second, later) in itertools.pairwise(places):
        wrong = ""
        if not earlier or not later:
            wrong = f"no step of {first if not earlier else second} was seen"
        elif max(earlier) > min(later):
            wrong = f"{_name(result, min(later))} went before {_name(result, max(earlier))}"
        rows.append((first, second, wrong))
    return rows


def _is_of(row: Mapping[str, str], kinds: Sequence[str]) -> bool:
    if row["operation"] != "delete":
        return False
    name = row["urn"].rpartition("::")[2]
    for kind in kinds:
        token, _, beginning = kind.partition("#")
        if token and row["type"] != token:
            continue
        if name.startswith(beginning):
            return True
    return False


def _name(result: Result, index: int) -> str:
    return result.steps[index]["urn"].rpartition("::")[2]


def held_up(stage: Stage, outcome: Outcome) -> None:
    """A finalizer that nobody takes off: destroy ends after its time and says what is held; then it goes on."""
    stage.shorten_deletes(HELD_SECONDS)
    stage.ensure_up()
    stage.up()  # the shorter times are part of the state
    name = stage.models[0]
    path = f"/apis/ray.io/v1/namespaces/{stage.namespace}/rayservices/{name}"
    found = stage.api.get(path) or {}
    mine = [*(found["metadata"].get("finalizers") or []), FINALIZER]
    stage.api.request("PATCH", path, {"metadata": {"finalizers": mine}}, MERGE)

    started = time.monotonic()
    words = stage.failure(stage.engine.destroy)
    outcome.at_most("destroy ended (s)", time.monotonic() - started, HELD_SECONDS + REST_SECONDS)
    outcome.contains("destroy names the object", words, name)
    outcome.contains("destroy says that it waits in vain", words, "imed out")
    held = [row for row in leftovers.find(stage.api) if FINALIZER in row.finalizers]
    outcome.equal("what holds it, as `make down` prints it", len(held), 1)
    outcome.saw(f"Held: {', '.join(map(str, held))}. The way on: take the finalizer off, destroy again.")
    network = stage.existing().get("VPC", 0)
    outcome.equal("VPC still there while the workload is", network, 1)

    rest = [row for row in mine if row != FINALIZER]
    stage.api.request("PATCH", path, {"metadata": {"finalizers": rest}}, MERGE)
    stage.engine.refresh()
    stage.engine.destroy()
    stage.is_up = False
    outcome.equal("outside the state", orphans.names(stage), [])
    nothing_left(stage, outcome)
