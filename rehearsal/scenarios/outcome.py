"""What a scenario found: checks with their limits, sentences for people, and the users' requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

REQUEST_KINDS = ("finished", "cut", "refused")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `limit` is what was wanted."""

    name: str
    value: Any
    limit: Any
    passed: bool


@dataclass
class Outcome:
    """Collects what one scenario sees."""

    checks: list[Check] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    requests: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REQUEST_KINDS, 0))
    error: str = ""

    def equal(self, name: str, value: Any, wanted: Any) -> bool:
        """The value must be exactly the wanted one."""
        return self._add(name, value, wanted, value == wanted)

    def at_most(self, name: str, value: float, limit: float) -> bool:
        """The value must not be above the limit."""
        return self._add(name, round(value, 2), f"<= {limit:g}", value <= limit)

    def at_least(self, name: str, value: float, limit: float) -> bool:
        """The value must not be below the limit."""
        return self._add(name, round(value, 2), f">= {limit:g}", value >= limit)

    def contains(self, name: str, text: str, wanted: str) -> bool:
        """The text must hold another; the line around it is kept as the value."""
        line = next((row for row in text.splitlines() if wanted in row), text)
        return self._add(name, line.strip()[:600], f"says {wanted!r}", wanted in text)

    def _add(self, name: str, value: Any, limit: Any, passed: bool) -> bool:  # noqa: FBT001 - own call sites only
        self.checks.append(Check(name, value, limit, passed))
        return passed

    def saw(self, sentence: str) -> None:
        """Keep a sentence for the report."""
        self.sentences.append(sentence)

    def add_requests(self, counts: dict[str, int]) -> None:
        """Add the counts of one run of traffic."""
        for kind in REQUEST_KINDS:
            self.requests[kind] += counts.get(kind, 0)

    @property
    def passed(self) -> bool:
        """Whether it ran to its end, looked at something, and all of it was as wanted."""
        return not self.error and bool(self.checks) and all(check.passed for check in self.checks)

    @property
    def seen(self) -> str:
        """What was seen, in one paragraph: the error, what failed, or the sentences."""
        failed = [f"{row.name}: {row.value} (wanted {row.limit})" for row in self.checks if not row.passed]
        return " ".join([*filter(None, [self.error]), *failed, *self.sentences])

    def as_dict(self, name: str, expected: str, seconds: float) -> dict[str, Any]:
        """One row of the report."""
        return {
            "name": name,
            "expected": expected,
            "seen": self.seen,
            "seconds": round(seconds, 1),
            "checks": [asdict(check) for check in self.checks],
            "requests": dict(self.requests),
            "passed": self.passed,
        }
