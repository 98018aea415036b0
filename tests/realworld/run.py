"""Runs the product over the real-world cases and counts what it got right.

Each input becomes what the product takes: manifests and intents the core's `World`, Pulumi resources the pack's input
(numbers as floats, as the engine sends them), a program the registrations that the capturing monitor sees.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format, struct_pb2

from components import guard  # noqa: F401 - puts the rules on the path
from guardrails import EngineDefaults, Finding, Severity, check
from tests.realworld.codes import CODES

CASES = Path(__file__).parent / "cases"
TODAY = date(2026, 11, 30)  # the day the cases were gathered, where a case names none


@dataclass(slots=True)
class Score:
    """What was right and wrong over all cases."""

    cases: int = 0
    verdict_right: int = 0
    found: int = 0
    of: int = 0
    false_alarms: list[str] = field(default_factory=list)
    errors_on_good: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The shape that the guardrails issue asks for."""
        return {
            "cases": self.cases,
            "verdict_right": self.verdict_right,
            "must_find": {"found": self.found, "of": self.of},
            "false_alarms": self.false_alarms,
            "errors_on_good": self.errors_on_good,
            "wrong": self.wrong,
        }

    @property
    def is_clean(self) -> bool:
        """Whether nothing was wrong."""
        return self.verdict_right == self.cases and self.found == self.of and not (
            self.false_alarms or self.errors_on_good or self.wrong
        )  # fmt: skip


def read_cases(folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The cases in a folder (or in its folder `cases`), with their files."""
    inner = folder / "cases"
    for path in sorted((inner if inner.is_dir() else folder).glob("*.yaml")):
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(case, dict) and "expect" in case:
            yield case, path


def findings_of(case: dict[str, Any], path: Path) -> list[Finding]:
    """What the product finds on a case's input, with the general profile."""
    context = case.get("context") or {}
    versions = {name: str(version) for name, version in (context.get("engine") or {}).items()}
    return check(
        _objects(case, path),
        engine=EngineDefaults(vllm=versions.get("vllm"), ray=versions.get("ray")),
        env=context.get("env", "prod"),
        today=_day(context.get("today")),
    )


def _day(written: object) -> date:
    if isinstance(written, date):
        return written
    return date.fromisoformat(str(written)) if written else TODAY


def _objects(case: dict[str, Any], path: Path) -> list[object]:
    given = [_object(item) for item in case.get("input") or []]
    program = (case.get("context") or {}).get("input_file")
    if not program:
        return given
    others = [item for item in given if "props" not in item]
    return [*registrations_of(path.parent / program), *others]


def _object(item: dict[str, Any]) -> dict[str, Any]:
    """A resource, a manifest, or whatever else states a stack: an intent, a stack's plain config."""
    if "type" in item and "props" in item:
        return as_resource(item)
    if "apiVersion" in item or item.get("kind") == "requirements.txt":
        return item
    return {**item, "kind": "intent"}


def as_resource(item: dict[str, Any]) -> dict[str, Any]:
    """A resource as it reaches the policy pack: through protobuf, where every number is a float."""
    struct = struct_pb2.Struct()
    json_format.ParseDict(json.loads(json.dumps(item["props"], default=str)), struct)
    return {**item, "props": json_format.MessageToDict(struct)}


def registrations_of(program: Path) -> list[dict[str, Any]]:
    """Resources that a program registers in a preview."""
    from preview.monitor import program_file, run  # noqa: PLC0415 - only one kind of case needs the Pulumi SDKs

    monitor = run(program_file(program), "prod", {}, project="case")
    return [{"type": item.type, "name": item.name, "props": item.inputs} for item in monitor.registrations]


def codes_of(finding: Finding) -> tuple[str, ...]:
    """Neutral codes of a finding."""
    return CODES.get(finding.rule, ())


def judge(case: dict[str, Any], findings: Sequence[Finding], score: Score) -> None:
    """Count one case."""
    expect, name = case["expect"], str(case["id"])
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    wanted = expect.get("must_find") or []
    missing = list(_missing(case, wanted, findings))
    score.cases += 1
    score.of += len(wanted)
    score.found += len(wanted) - len(missing)
    score.wrong += [f"{name}: not found: {entry['code']} ({entry['severity']})" for entry in missing]
    right = bool(errors) if expect["verdict"] == "fail" else not errors
    if expect["verdict"] == "pass-with-warnings" and missing:
        right = False
    score.verdict_right += right
    if not right:
        got = "fail" if errors else "pass"
        score.wrong.append(f"{name}: verdict {got}, expected {expect['verdict']}")
    forbidden = set(expect.get("must_not_find") or [])
    for finding in findings:
        hit = forbidden.intersection(codes_of(finding))
        if hit and finding.severity is not Severity.ADVICE:
            score.false_alarms.append(
                f"{name}: {', '.join(sorted(hit))}: {finding.object}: {finding.message}"
            )
    if case.get("kind") == "good":
        score.errors_on_good += [f"{name}: {item.rule}: {item.object}: {item.message}" for item in errors]


def _missing(
    case: dict[str, Any], wanted: list[dict[str, Any]], findings: Sequence[Finding]
) -> Iterator[dict[str, Any]]:
    """Entries of `must_find` that no finding of the same code, severity and object stands for; each counts once."""
    names = set(_names(case.get("input") or []))
    left = list(findings)
    for entry in wanted:
        fitting = [
            finding for finding in left
            if entry["code"] in codes_of(finding) and finding.severity.value == entry["severity"]
            and _is_about(finding, str(entry.get("where", "")), names)
        ]  # fmt: skip
        if fitting:
            left.remove(fitting[0])
        else:
            yield entry


def _is_about(finding: Finding, where: str, names: set[str]) -> bool:
    """Whether a finding is on one of the objects that `where` names; where it names none, any object will do."""
    named = {
        word
        for word in where.replace("(", " ").replace(")", " ").replace("[", " ").replace("]", " ").split()
        if word in names
    }
    if not named:
        return True
    text = f"{finding.object} {finding.message}".replace("/", " ").replace(",", " ").replace(":", " ").split()
    return bool(named.intersection(text)) or any(name in finding.object for name in named)


def _names(objects: object) -> Iterator[str]:
    """Names of the objects of a case, at any depth."""
    if isinstance(objects, dict):
        name = objects.get("name")
        if isinstance(name, str):
            yield name
        for item in objects.values():
            yield from _names(item)
    elif isinstance(objects, list):
        for item in objects:
            yield from _names(item)


def score_of(folder: Path) -> Score:
    """The score over a folder of cases."""
    score = Score()
    for case, path in read_cases(folder):
        judge(case, findings_of(case, path), score)
    return score
