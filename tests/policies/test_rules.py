"""Every rule: a base that passes, one change that it finds with this very sentence, and a near miss that passes too.

The cases stand in `rules/*.yaml`. A change is written as `object step step …: value`; `$delete` takes a key away.
"""

from __future__ import annotations

import copy
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.settings import stack_file
from guardrails import TABLE, EngineDefaults, Finding, Profile, Severity, check, from_intent, from_settings
from guardrails.rules import plan

FOLDER = Path(__file__).parent / "rules"
BASES: dict[str, Any] = yaml.safe_load((FOLDER / "bases.yaml").read_text(encoding="utf-8"))
TODAY = date(2026, 11, 30)
RULES = {rule.id: rule for rule, _ in TABLE}
CASES: list[dict[str, Any]] = [
    case
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "bases.yaml"
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


def changed(case: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The case's objects by name, with changes made."""
    objects = {name: copy.deepcopy(BASES[name]) for name in case["with"]}
    objects |= copy.deepcopy(case.get("objects", {}))
    for where, value in copy.deepcopy({**case.get("set", {}), **changes}).items():
        *steps, last = where.split(" ")
        target: Any = objects
        for step in steps:
            target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
        key: Any = int(last) if isinstance(target, list) else last
        if value == "$delete":
            del target[key]
        elif isinstance(target, list) and key == len(target):
            target.append(value)
        else:
            target[key] = value
    return objects


def found(case: dict[str, Any], changes: dict[str, Any]) -> list[Finding]:
    """What the case's rule finds after changes."""
    objects = changed(case, changes)
    stack = objects.pop("stack", None)
    intent = objects.pop("intent", None)
    facts = []
    if stack is not None:
        facts.append(from_settings(stack_file.validate(stack, None)))
    if intent is not None:
        facts.append(from_intent(intent))
    for item in objects.values():
        document = item.get("spec", {}).get("serveConfigV2") if isinstance(item, dict) else None
        if isinstance(document, dict):
            item["spec"]["serveConfigV2"] = yaml.safe_dump(document, sort_keys=False)
    rule = RULES[case["rule"]]
    house = rule.profile is Profile.HOUSE or stack is not None or case.get("profile") == "house"
    findings = check(
        list(objects.values()),
        stack=facts,
        engine=EngineDefaults(vllm=case.get("engine")),
        profile=Profile.HOUSE if house else Profile.GENERAL,
        env=case.get("env", "prod"),
        today=TODAY,
    )
    return [finding for finding in findings if finding.rule == case["rule"]]


def test_every_rule_has_a_case():
    """No rule is untested; what sizing says is tested with sizing (tests/unit/sizing)."""
    elsewhere = {rule.id for rule, _ in plan.RULES}
    assert set(RULES) - elsewhere - {case["rule"] for case in CASES} == set()


def test_ids_are_unique_and_kebab_case():
    """Ids are what people write into waivers."""
    ids = [rule.id for rule, _ in TABLE]
    assert len(ids) == len(set(ids))
    assert all(part.isalnum() and part.islower() for name in ids for part in name.split("-"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("id", case["rule"]))
def test_the_base_passes(case):
    """What works is not called wrong."""
    assert [finding.message for finding in found(case, {})] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("id", case["rule"]))
def test_the_fault_is_found_in_these_words(case):
    """One change is found, with this sentence and severity."""
    findings = found(case, case["change"])
    wanted = case["finds"] if isinstance(case["finds"], list) else [case["finds"]]
    severity = Severity(case.get("severity", RULES[case["rule"]].severity))

    assert [finding.message for finding in findings] == wanted
    assert {finding.severity for finding in findings} == {severity}
    assert all(finding.remedy for finding in findings)


@pytest.mark.parametrize(
    "case", [case for case in CASES if "near" in case], ids=lambda case: case.get("id", case["rule"])
)
def test_the_near_miss_passes(case):
    """What looks alike and works is not called wrong; advice may remain."""
    assert [
        finding.message for finding in found(case, case["near"]) if finding.severity is not Severity.ADVICE
    ] == []


def test_every_case_has_a_near_miss():
    """A rule without one was not thought through."""
    assert [case["rule"] for case in CASES if "near" not in case] == []
