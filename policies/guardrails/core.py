"""What a rule is and what it finds. Plain data; no Pulumi, no I/O.

A rule is one function from the `World` to its hits, and one `Rule` that says in words what it holds. The two stand
side by side in a table of the theme's file, so nothing is registered by importing. A function yields `Hit`s; the runner
in `guardrails.run` turns them into `Finding`s: it adds the rule's id, severity and remedy, the file and line, and
applies what a stack changed with a reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from guardrails.objects import Subject
    from guardrails.world import World

Path = tuple[str | int, ...]


class Severity(StrEnum):
    """How much a finding weighs. Only an error stops `pulumi up`."""

    ERROR = "error"
    WARN = "warn"
    ADVICE = "advice"

    @property
    def rank(self) -> int:
        """0 for the heaviest, so that sorting puts errors first."""
        return tuple(Severity).index(self)


class Profile(StrEnum):
    """Whom a rule speaks to: any YAML at all, or the stacks of this program, where more is asked."""

    GENERAL = "general"
    HOUSE = "house"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a rule holds, in words.

    `reads` lists the values it decides on, as patterns over field paths (`guardrails.unknowns`): where one of them is
    computed and not known in a preview, the rule says that it could not be decided instead of staying silent.
    """

    id: str
    severity: Severity
    sentence: str  # what must hold
    why: str
    remedy: str
    source: str
    profile: Profile = Profile.GENERAL
    framework: str = ""  # CIS EKS, NSA, AWS Well-Architected … where the rule exists there too
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a rule does not hold. `severity` and `remedy` replace the rule's own where the case differs."""

    subject: "Subject"
    path: Path
    message: str
    severity: Severity | None = None
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a person reads: which rule, on which object and field, what is there, and what to do."""

    rule: str
    severity: Severity
    object: str
    path: Path
    message: str
    remedy: str
    file: str | None = None
    line: int | None = None
    urn: str | None = field(default=None, compare=False)  # of the Pulumi resource, for the policy pack

    @property
    def place(self) -> str:
        """`file:line` where known, otherwise the object's name."""
        if self.file is None:
            return self.object
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def sentence(self) -> str:
        """The message, led by the object's name where it does not begin with it."""
        return self.message if self.message.startswith(self.object) else f"{self.object}: {self.message}"

    def as_json(self) -> dict[str, str | int | None]:
        """The shape that `llmp check --format json` prints."""
        return {
            "rule": self.rule,
            "severity": str(self.severity),
            "object": self.object,
            "path": dotted(self.path),
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "remedy": self.remedy,
        }


Check = Callable[["World"], Iterable[Hit]]
Table = tuple[tuple[Rule, Check], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A stack's own severity for a rule (`off` silences it), which needs a reason."""

    rule: str
    severity: Severity | None  # None: off
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A rule that a stack may break on one object until a day. After that day the waiver itself is a finding."""

    rule: str
    reason: str
    expires: date
    object: str = ""  # part of the object's name as findings show it; empty: every object


def dotted(path: Path) -> str:
    """A path as people write it: `spec.containers[0].image`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
