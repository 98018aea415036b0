"""Runs the rules over what is checked and gives the findings, with a stack's overrides and waivers applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from guardrails.core import Check, Finding, Hit, Override, Path, Profile, Rule, Severity, Waiver
from guardrails.intent import from_intent
from guardrails.objects import Locate, Subject, subjects
from guardrails.rules import TABLE
from guardrails.stack import StackFacts, from_settings
from guardrails.unknowns import settled
from guardrails.world import EngineDefaults, World

if TYPE_CHECKING:
    from components.settings import PlatformSettings
    from components.settings.extras import PolicySettings

POLICY_SUBJECT = Subject("policy", "")
STACK_KINDS = ("model", "pool", "stack", "endpoint", "headroom", "policy")


def check(
    objects: Iterable[object],
    *,
    stack: StackFacts | Sequence[StackFacts] | None = None,
    engine: EngineDefaults | None = None,
    profile: Profile = Profile.GENERAL,
    env: str = "prod",
    today: date | None = None,
    overrides: Sequence[Override] = (),
    waivers: Sequence[Waiver] = (),
    rules: Iterable[tuple[Rule, Check]] = TABLE,
) -> list[Finding]:
    """Findings on Kubernetes objects, Pulumi resources (`{type, name, props}`) and a stack's facts, heaviest first.

    `engine` gives the versions to assume where no image tells; `today` decides ends of support and expiries.
    """
    day = today or date.today()  # noqa: DTZ011 - a calendar day, as ends of support are published
    world = world_of(objects, stack=stack, engine=engine, profile=profile, env=env, today=day)
    chosen = [
        (rule, run) for rule, run in rules if rule.profile is Profile.GENERAL or profile is Profile.HOUSE
    ]
    hits = [(rule, hit) for rule, run in chosen for hit in run(world)]
    hits = _once(list(settled(world, hits, [rule for rule, _ in chosen])))
    findings = [_finding(rule, hit) for rule, hit in hits]
    known = {rule.id for rule, _ in TABLE}
    return sorted(_governed(findings, overrides, waivers, day, known), key=_order)


def world_of(
    objects: Iterable[object],
    *,
    stack: StackFacts | Sequence[StackFacts] | None = None,
    engine: EngineDefaults | None = None,
    profile: Profile = Profile.GENERAL,
    env: str = "prod",
    today: date | None = None,
) -> World:
    """The world of what is checked. Neutral stack intents among the objects count as stacks."""
    found = tuple(subjects(objects))
    given = (stack,) if isinstance(stack, StackFacts) else tuple(stack or ())
    intents = tuple(from_intent(subject.body) for subject in found if subject.kind == "intent")
    return World(
        subjects=tuple(subject for subject in found if subject.kind != "intent"),
        stacks=(*given, *intents),
        env=env,
        today=today or date.today(),  # noqa: DTZ011 - a calendar day
        profile=profile,
        defaults=engine or EngineDefaults(),
    )


def check_settings(
    settings: PlatformSettings,
    *,
    today: date | None = None,
    file: str | None = None,
    locate: Locate | None = None,
    folder: FilePath | None = None,
) -> list[Finding]:
    """Findings on a typed stack alone. Paths are those of the settings (`("models", 0, "tensorParallel")`)."""
    facts = from_settings(settings, file=file, locate=locate, folder=folder)
    overrides, waivers = governance(settings.policy)
    return check(
        (),
        stack=facts,
        profile=Profile.HOUSE,
        env=facts.env,
        today=today,
        overrides=overrides,
        waivers=waivers,
    )


def governance(policy: PolicySettings) -> tuple[tuple[Override, ...], tuple[Waiver, ...]]:
    """Overrides and waivers of a stack's `policy` block."""
    overrides = tuple(
        Override(
            rule=rule,
            severity=None if item.severity == "off" else Severity(item.severity),
            reason=item.reason,
        )
        for rule, item in policy.overrides.items()
    )
    waivers = tuple(
        Waiver(rule=item.rule, object=item.object, reason=item.reason, expires=item.expires)
        for item in policy.waivers
    )
    return overrides, waivers


def _finding(rule: Rule, hit: Hit) -> Finding:
    subject = hit.subject
    return Finding(
        rule=rule.id,
        severity=hit.severity or rule.severity,
        object=subject.label,
        path=hit.path,
        message=hit.message,
        remedy=hit.remedy or rule.remedy,
        file=subject.file,
        line=line_of(subject, hit.path),
        urn=subject.urn,
    )


def line_of(subject: Subject, path: Path) -> int | None:
    """Line of the deepest part of a path that the file has."""
    if subject.locate is None:
        return None
    return subject.locate(path)


def _once(hits: list[tuple[Rule, Hit]]) -> list[tuple[Rule, Hit]]:
    """Each fault once: what a stack's settings and the objects made from them both show is shown at the setting."""
    told = {
        (rule.id, hit.subject.name)
        for rule, hit in hits
        if hit.subject.kind in STACK_KINDS and hit.subject.name
    }
    kept: dict[tuple[object, ...], tuple[Rule, Hit]] = {}
    for rule, hit in hits:
        if hit.subject.kind not in STACK_KINDS and (rule.id, hit.subject.name) in told:
            continue
        kept.setdefault((rule.id, id(hit.subject), hit.path, hit.message), (rule, hit))
    return list(kept.values())


def _order(finding: Finding) -> tuple[object, ...]:
    return (
        finding.severity.rank, finding.file or "", finding.line or 0, finding.object,
        tuple(str(step).rjust(6, "0") if isinstance(step, int) else step for step in finding.path), finding.rule,
    )  # fmt: skip


# ---------------------------------------------------------------------- overrides and waivers


def _governed(
    findings: list[Finding],
    overrides: Sequence[Override],
    waivers: Sequence[Waiver],
    today: date,
    known: set[str],
) -> list[Finding]:
    changed = {item.rule: item for item in overrides}
    kept = []
    for finding in findings:
        override = changed.get(finding.rule)
        if any(_waives(waiver, finding, today) for waiver in waivers):
            continue
        if override is None:
            kept.append(finding)
        elif override.severity is not None:
            lowered = override.severity if finding.severity is not Severity.ADVICE else finding.severity
            kept.append(_with_severity(finding, lowered))
    return [*kept, *_governance_findings(overrides, waivers, today, known)]


def _with_severity(finding: Finding, severity: Severity) -> Finding:
    return Finding(
        finding.rule, severity, finding.object, finding.path, finding.message, finding.remedy, finding.file,
        finding.line, finding.urn,
    )  # fmt: skip


def _waives(waiver: Waiver, finding: Finding, today: date) -> bool:
    if waiver.rule != finding.rule or waiver.expires < today:
        return False
    kind, _, name = finding.object.partition(" ")
    return waiver.object in ("", "*", finding.object, f"{kind}/{name}", f"{kind}/{name.rpartition('/')[2]}")


def _governance_findings(
    overrides: Sequence[Override], waivers: Sequence[Waiver], today: date, known: set[str]
) -> list[Finding]:
    found = []
    for index, waiver in enumerate(waivers):
        path: Path = ("policy", "waivers", index)
        if waiver.rule not in known:
            found.append(_unknown_rule(waiver.rule, (*path, "rule")))
        elif waiver.expires < today:
            message = f"the waiver of {waiver.rule} on {waiver.object or '*'} expired on {waiver.expires} ({waiver.reason})"
            remedy = "repair what it excused, or renew it with a reason and a later date"
            found.append(
                Finding("waiver-expired", Severity.ERROR, "policy", (*path, "expires"), message, remedy)
            )
    unknown = [override.rule for override in overrides if override.rule not in known]
    return [*found, *(_unknown_rule(rule, ("policy", "overrides", rule)) for rule in unknown)]


def _unknown_rule(rule: str, path: Path) -> Finding:
    message = f"there is no rule {rule}"
    return Finding(
        "policy-rule-unknown", Severity.ERROR, "policy", path, message, "take the id that findings show"
    )
