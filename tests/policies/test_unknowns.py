"""Values that a preview does not know: no rule calls them wrong, and the rules that need them say so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardrails import TABLE, Profile, Severity, check

BASES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "rules" / "bases.yaml").read_text(encoding="utf-8")
)
TODAY = date(2026, 11, 30)
OBJECTS = sorted(
    name for name, body in BASES.items() if name not in ("stack", "intent") and isinstance(body, dict)
)


def findings(body: dict[str, Any]) -> set[tuple[str, str]]:
    """Errors on one object, with the house rules."""
    found = check([body], profile=Profile.HOUSE, today=TODAY)
    return {(finding.rule, finding.message) for finding in found if finding.severity is Severity.ERROR}


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a tree below the top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        if step not in ("apiVersion", "kind", "type", "props"):
            yield (*path, step)
        yield from places(item, (*path, step))


@pytest.mark.parametrize("name", OBJECTS)
def test_an_unknown_value_is_never_an_error(name):
    """Whatever single value or part of a working object is computed, nothing becomes mandatory by it."""
    base = BASES[name]
    before = {rule for rule, _ in findings(base)}
    wrong = {}
    for path in places(base):
        body = copy.deepcopy(base)
        target: Any = body
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = {"$unknown": True}
        new = {item for item in findings(body) if item[0] not in before}
        if new:
            wrong[path] = new
    assert wrong == {}


@pytest.mark.parametrize("rule", [rule for rule, _ in TABLE if rule.reads], ids=lambda rule: rule.id)
def test_what_a_rule_reads_is_well_formed(rule):
    """`<kind>:<path>`, as `guardrails.unknowns` takes it."""
    for read in rule.reads:
        kind, _, path = read.rpartition(":")
        assert kind
        assert all(
            step.isidentifier() or step == "*" or "/" in step or "-" in step for step in path.split(".")
        )


def test_the_undecided_rule_names_the_value():
    """One sentence says which rule waits, and for what."""
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "namespace": "llm"},
        "spec": {"containers": [{"name": "vllm", "image": {"$unknown": True}}]},
    }  # fmt: skip
    (finding,) = [item for item in check([pod], today=TODAY) if item.rule == "image-floating"]
    assert finding.severity is Severity.ADVICE
    assert finding.message == (
        "could not be decided: spec.containers[0].image is not known before the update"
    )


def test_an_endpoint_is_judged_beside_unknown_subnets():
    """The networks of the API are plain; that the VPC's parts are made by AWS leaves nothing undecided."""
    body = copy.deepcopy(BASES["cluster"])
    body["props"]["vpcConfig"]["subnetIds"] = {"$unknown": True}
    assert "eks-endpoint-open" not in {finding.rule for finding in check([body], today=TODAY)}

    body["props"]["vpcConfig"]["publicAccessCidrs"] = ["0.0.0.0/0"]
    assert "eks-endpoint-open" in {finding.rule for finding in check([body], today=TODAY)}

    body["props"]["vpcConfig"]["publicAccessCidrs"] = {"$unknown": True}
    found = [finding for finding in check([body], today=TODAY) if finding.rule == "eks-endpoint-open"]
    assert [finding.message for finding in found] == [
        "could not be decided: vpcConfig.publicAccessCidrs is not known before the update"
    ]
