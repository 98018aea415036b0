"""Spoils manifests by named operators and checks each; counts what happened."""

from __future__ import annotations

import copy
import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import yaml

from components import guard  # noqa: F401 - puts the rules on the path
from guardrails.checking import Result, check_inputs
from guardrails.core import Profile
from guardrails.files import parse
from guardrails.reports import FORMATS
from tests.fuzzcheck.operators import TEXT_OPERATORS, VALUE_OPERATORS, Tree, spoil_values
from tests.policies.test_rules import BASES
from tests.realworld.run import CASES, read_cases

HANG_SECONDS = 1.0
TODAY = date(2026, 11, 30)


@dataclass(slots=True)
class Counts:
    """What happened over all runs."""

    runs: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    tracebacks: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Counts by operator, and what went wrong."""
        return {
            "runs": sum(self.runs.values()),
            "by_operator": {
                name: {"runs": self.runs[name], "unread": self.unread[name], "findings": self.findings[name]}
                for name in sorted(self.runs)
            },
            "tracebacks": self.tracebacks,
            "hangs": self.hangs,
            "slowest_seconds": round(self.slowest, 3),
        }


def trees() -> list[Tree]:
    """What is spoilt: the bases of the rules' tests and the inputs of the real-world cases."""
    objects = [
        copy.deepcopy(item) for name, item in BASES.items() if name != "stack" and "apiVersion" in item
    ]
    for item in objects:
        document = item.get("spec", {}).get("serveConfigV2")
        if isinstance(document, dict):
            item["spec"]["serveConfigV2"] = yaml.safe_dump(document)
    inputs = [[entry for entry in case["input"] if isinstance(entry, dict)] for case, _ in read_cases(CASES)]
    return [objects, *([item] for item in objects), *inputs]


def spoilt(chance: random.Random, tree: Tree) -> tuple[str, bytes]:
    """A spoilt manifest and the operator that spoilt it."""
    name = chance.choice([*VALUE_OPERATORS, *TEXT_OPERATORS])
    if name in VALUE_OPERATORS:
        return name, spoil_values(chance, tree, VALUE_OPERATORS[name]).encode()
    return name, TEXT_OPERATORS[name](chance, yaml.safe_dump_all(tree, sort_keys=False))


def checked(content: bytes, name: str, profile: Profile) -> Result:
    """The result on one spoilt manifest, in every format."""
    result = check_inputs([parse(content, name)], profile=profile, today=TODAY)
    for write in FORMATS.values():
        write(result)
    return result


def run(count: int, seed: int) -> Counts:
    """Spoil and check `count` manifests."""
    chance, given, counts = random.Random(seed), trees(), Counts()
    for index in range(count):
        operator, content = spoilt(chance, chance.choice(given))
        name = "m.json" if "JSON" in operator else chance.choice(("m.yaml", "-", "Pulumi.prod.yaml"))
        started = time.monotonic()
        try:
            result = checked(content, name, chance.choice(tuple(Profile)))
        except Exception:  # noqa: BLE001 - that there is none is what is tested
            counts.tracebacks.append(f"run {index}, {operator}: {traceback.format_exc(limit=-3)}")
            continue
        finally:
            seconds = time.monotonic() - started
            counts.slowest = max(counts.slowest, seconds)
            counts.runs[operator] += 1
        if seconds > HANG_SECONDS:
            counts.hangs.append(f"run {index}, {operator}: {seconds:.1f} s")
        counts.unread[operator] += bool(result.unread)
        counts.findings[operator] += len(result.findings)
    return counts
