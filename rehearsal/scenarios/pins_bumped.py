"""Scenario 9: newer Kubernetes, Karpenter and KubeRay in the program."""

from __future__ import annotations

from typing import Any

from rehearsal.engine import Result
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

PINS = "components/pins.py"
OLD, NEW = "1.35", "1.36"
KEPT = (
    "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:s3/bucket:Bucket",
    "kubernetes:karpenter.sh/v1:NodePool",
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "kubernetes:ray.io/v1:RayService",
)
CHARTS = {"karpenter-crd": "1.14.1", "karpenter": "1.14.1", "kuberay-operator": "1.7.0"}


def pins_bumped(stage: Stage, outcome: Outcome) -> None:
    """The stack comes up with the older Kubernetes; then all three move, and everything is changed in place."""
    stage.ensure_down()  # AWS refuses to lower a cluster's version
    create: dict[str, Any] = stage.settings["cluster"]["create"]
    first = create.get("kubernetesVersion")
    create["kubernetesVersion"] = OLD
    stage.write()
    stage.up()
    before = _identities(stage)
    try:
        create["kubernetesVersion"] = NEW
        stage.write()
        for name, version in CHARTS.items():
            stage.program.edit(PINS, f'"{name}", "{version}"', f'"{name}", "{_next(version)}"')
            stage.publish(name, _next(version))
        changed = stage.up()
    finally:
        stage.program.restore(PINS)
    _judge(stage, outcome, before, changed)
    for name, version in CHARTS.items():
        stage.publish(name, version)
    if first is None:
        del create["kubernetesVersion"]
    else:
        create["kubernetesVersion"] = first
    stage.write()
    stage.up()


def _judge(stage: Stage, outcome: Outcome, before: dict[str, str], changed: Result) -> None:
    after = _identities(stage)
    outcome.equal("URNs that came or went", sorted(set(before) ^ set(after)), [])
    kept = [urn for urn in before if urn.split("::")[2].rpartition("$")[2] in KEPT]
    moved = [urn.rpartition("::")[2] for urn in kept if before[urn] != after.get(urn)]
    outcome.equal("cluster, pools, buckets and models with a new id", moved, [])
    outcome.at_least("of them looked at", len(kept), 6)
    operations = {row["operation"] for row in changed.steps if row["type"] in KEPT}
    outcome.equal("operations on them beside update and same", sorted(operations - {"update", "same"}), [])
    replaced = [row["urn"].rpartition("::")[2] for row in changed.steps if "replace" in row["operation"]]
    outcome.saw(
        f"{changed.changed} resources changed; replaced: {', '.join(sorted(set(replaced))) or 'none'}."
    )
    versions = {
        row["inputs"]["name"]: row["inputs"]["version"]
        for row in stage.recorded()
        if row["type"].endswith(":Release") and row["inputs"].get("name") in CHARTS
    }
    outcome.equal("chart versions after it", versions, {name: _next(text) for name, text in CHARTS.items()})
    outcome.equal("Kubernetes version of the cluster, as read back", _cluster_version(stage), NEW)


def _next(version: str) -> str:
    head, _, last = version.rpartition(".")
    return f"{head}.{int(last) + 1}"


def _identities(stage: Stage) -> dict[str, str]:
    return {row["urn"]: row.get("id", "") for row in stage.recorded()}


def _cluster_version(stage: Stage) -> str:
    """What the provider read from AWS after the update."""
    rows = [row for row in stage.recorded() if row["type"] == "aws:eks/cluster:Cluster"]
    return str(rows[0]["outputs"].get("version")) if rows else "no cluster"
