"""Checks files: reads them, groups what belongs together, runs the rules. What `llmp check` and the tests call."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from guardrails.core import Finding, Profile, Severity
from guardrails.files import Input, Unread, find, parse, read, together
from guardrails.run import check
from guardrails.world import EngineDefaults


@dataclass(slots=True)
class Result:
    """What was found, and what could not be read. `objects` counts stacks too."""

    findings: list[Finding] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    files: int = 0
    objects: int = 0

    @property
    def exit_code(self) -> int:
        """2: something could not be read, or nothing was there; 1: an error was found; 0: neither."""
        if self.unread or self.is_empty:
            return 2
        return int(any(finding.severity is Severity.ERROR for finding in self.findings))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was there to check. What is passed over with a note counts as something."""
        return not (self.objects or self.unread or self.notes)

    def count(self, severity: Severity) -> int:
        """Findings of a severity."""
        return sum(finding.severity is severity for finding in self.findings)


def check_paths(
    paths: Iterable[str],
    *,
    stdin: bytes | None = None,
    env: str | None = None,
    engine: EngineDefaults | None = None,
    profile: Profile = Profile.GENERAL,
    today: date | None = None,
) -> Result:
    """Check files and folders; `-` is what `stdin` holds."""
    inputs: list[Input] = []
    for path in paths:
        if path == "-":
            inputs.append(parse(stdin or b"", "-"))
        else:
            inputs += [read(file, name, group) for file, name, group in find([path])]
    return check_inputs(inputs, env=env, engine=engine, profile=profile, today=today)


def check_inputs(
    inputs: Sequence[Input],
    *,
    env: str | None = None,
    engine: EngineDefaults | None = None,
    profile: Profile = Profile.GENERAL,
    today: date | None = None,
) -> Result:
    """Check what was read."""
    counts = [len(item.sources) + len(item.stacks) for item in inputs]
    result = Result(files=len(inputs), objects=sum(counts))
    kept: dict[tuple[object, ...], Finding] = {}
    for item in inputs:
        result.unread += item.unread
        result.notes += item.notes
        for finding in [*item.findings, *_on_stack(item, env, today)]:
            kept.setdefault(_key(finding), finding)
    for group in together(inputs):
        sources = [source for item in group for source in item.sources]
        others = [stack for item in group for stack in item.stacks if not stack.house]
        for finding in check(
            sources, stack=others, engine=engine, profile=profile, env=env or "prod", today=today
        ):
            kept.setdefault(_key(finding), finding)
    result.findings = sorted(kept.values(), key=_order)
    return result


def _on_stack(item: Input, env: str | None, today: date | None) -> list[Finding]:
    """Findings on a typed stack file: the house rules apply, with its own overrides and waivers."""
    stacks = [stack for stack in item.stacks if stack.house]
    if not stacks:
        return []
    return check(
        (), stack=stacks, profile=Profile.HOUSE, env=env or item.environment or "prod", today=today,
        overrides=item.overrides, waivers=item.waivers,
    )  # fmt: skip


def _key(finding: Finding) -> tuple[object, ...]:
    return (finding.rule, finding.file, finding.line, finding.object, finding.path, finding.message)


def _order(finding: Finding) -> tuple[object, ...]:
    return (finding.file or "", finding.line or 0, finding.severity.rank, finding.rule, finding.message)
