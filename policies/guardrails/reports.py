"""Findings as text, JSON, SARIF 2.1.0 and GitHub's workflow commands."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from guardrails.checking import Result
from guardrails.core import Finding, Severity, dotted
from guardrails.files import DUPLICATE_RULE
from guardrails.rules import TABLE

_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.ADVICE: "note"}
_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARN: "warning", Severity.ADVICE: "notice"}
_RULES = {rule.id: rule for rule, _ in TABLE}


def as_text(result: Result) -> str:
    """One paragraph a finding, and a line with the counts."""
    lines = []
    for finding in result.findings:
        lines.append(f"{finding.place}: {finding.severity.value}: {finding.sentence} [{finding.rule}]")
        place = dotted(finding.path)
        lines.append(f"    {place + ': ' if place else ''}{finding.remedy}")
    counts = [
        _count(result.count(Severity.ERROR), "error"),
        _count(result.count(Severity.WARN), "warning"),
        _count(result.count(Severity.ADVICE), "piece of advice", "pieces of advice"),
    ]
    lines.append(
        f"{', '.join(counts)} on {_count(result.objects, 'object')} in {_count(result.files, 'file')}"
    )
    return "\n".join(lines) + "\n"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def as_json(result: Result) -> str:
    """A list of findings."""
    return json.dumps([finding.as_json() for finding in result.findings], indent=1, ensure_ascii=False) + "\n"


def as_github(result: Result) -> str:
    """Commands that GitHub shows beside the lines of a pull request."""
    return "".join(f"{_command(finding)}\n" for finding in result.findings)


def _command(finding: Finding) -> str:
    place = {"file": finding.file, "line": finding.line, "title": finding.rule}
    properties = ",".join(
        f"{key}={_escaped(str(value), ':,')}" for key, value in place.items() if value is not None
    )
    text = f"{finding.sentence}; {finding.remedy}"
    return f"::{_GITHUB_LEVELS[finding.severity]} {properties}::{_escaped(text)}"


def _escaped(text: str, further: str = "") -> str:
    for letter in f"%\r\n{further}":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def as_sarif(result: Result) -> str:
    """A SARIF log for GitHub code scanning and other viewers."""
    used = sorted({finding.rule for finding in result.findings})
    run = {
        "tool": {"driver": {"name": "llmp", "rules": [_sarif_rule(rule) for rule in used]}},
        "results": [_sarif_result(finding, used) for finding in result.findings],
        "invocations": [
            {
                "executionSuccessful": not result.unread,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": str(unread)}} for unread in result.unread
                ],
            }
        ],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _sarif_rule(rule_id: str) -> dict[str, Any]:
    rule = _RULES.get(rule_id)
    if rule is None:
        text = "A key stands once in a mapping." if rule_id == DUPLICATE_RULE else rule_id
        return {"id": rule_id, "shortDescription": {"text": text}}
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.sentence},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.remedy}. Source: {rule.source}"},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
        "properties": {"framework": rule.framework} if rule.framework else {},
    }


def _sarif_result(finding: Finding, used: list[str]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": f"{finding.object} {dotted(finding.path)}".strip()}]
    }
    if finding.file and finding.file != "-":
        location["physicalLocation"] = {
            "artifactLocation": {"uri": finding.file.replace("\\", "/")},
            "region": {"startLine": finding.line or 1},
        }
    return {
        "ruleId": finding.rule,
        "ruleIndex": used.index(finding.rule),
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": f"{finding.sentence}; {finding.remedy}"},
        "locations": [location],
    }


FORMATS: Mapping[str, Callable[[Result], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
}
