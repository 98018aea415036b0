"""Which rules could not be decided because a value is computed and not known in a preview.

`Rule.reads` names the values that a rule decides on, as `<kind>:<path>`: the kind of an object (`NodePool`), a type
token (`aws:s3/bucketPolicy:BucketPolicy`), or `pod` for the pods of any workload (the path is then within the pod's
spec). `*` stands for one step. An unknown value above or below such a path leaves the rule undecided there. A finding
on a value that is unknown, or on a part of it, is never right: what stands there may be in order after the update.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, dotted
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.values import UNKNOWN, leaves
from guardrails.world import World

Reading = tuple[Rule, tuple[str, ...]]
Waiting = dict[tuple[Subject, Path], dict[Rule, None]]  # the inner one as an ordered set


def settled(
    world: World, hits: Iterable[tuple[Rule, Hit]], rules: Iterable[Rule]
) -> Iterator[tuple[Rule, Hit]]:
    """The hits that no unknown value can undo, and an advice for each rule and each unknown value that it decides on."""
    unknown = {subject: paths for subject in world.subjects if (paths := _unknown_paths(subject))}
    if not unknown:
        yield from hits
        return
    waiting = _waiting(world, unknown, rules)
    for rule, hit in hits:
        by = next((path for path in unknown.get(hit.subject, ()) if path == hit.path[: len(path)]), None)
        if by is not None:
            waiting[hit.subject, by][rule] = None
        elif not _may_change(rule, hit, unknown.get(hit.subject, ()), waiting):
            yield rule, hit
    for (subject, path), concerned in waiting.items():
        for rule in concerned:
            yield rule, Hit(
                subject, path, f"could not be decided: {dotted(path)} is not known before the update", Severity.ADVICE,
                "pass a plain value, or let the policy pack decide it during the update",
            )  # fmt: skip


def _may_change(rule: Rule, hit: Hit, unknown: Iterable[Path], waiting: Waiting) -> bool:
    """Whether a part of what a finding is about is unknown, and the rule decides on that part."""
    return any(
        path[: len(hit.path)] == hit.path and rule in waiting.get((hit.subject, path), ()) for path in unknown
    )


def _waiting(world: World, unknown: Mapping[Subject, list[Path]], rules: Iterable[Rule]) -> Waiting:
    """Rules that decide on unknown values, by the value."""
    by_kind: dict[str, list[Reading]] = defaultdict(list)
    for rule in rules:
        for read in rule.reads:
            kind, _, pattern = read.rpartition(":")
            by_kind[kind].append((rule, tuple(pattern.split("."))))
    found: Waiting = defaultdict(dict)
    for subject, paths in unknown.items():
        for path in paths:
            found[subject, path].update(dict.fromkeys(_concerned(world, by_kind, subject, path)))
    return found


def _unknown_paths(subject: Subject) -> list[Path]:
    return [path for path, value in leaves(subject.body) if value is UNKNOWN]


def _concerned(
    world: World, by_kind: Mapping[str, list[Reading]], subject: Subject, path: Path
) -> Iterator[Rule]:
    """Rules that decide on a value, on something in it, or on something that it is part of."""
    for kind in (subject.kind, subject.api):
        for rule, steps in by_kind.get(kind, ()):
            if _matches(steps, path):
                yield rule
    for pod in world.pods_by_owner.get(subject, []):
        inner = _within(pod, path)
        for rule, steps in by_kind.get("pod", ()) if inner is not None else ():
            if _matches(steps, inner or ()):
                yield rule


def _within(pod: Pod, path: Path) -> Path | None:
    """The path within a pod's spec; empty where the whole pod is unknown."""
    root = pod.spec_path
    if path[: len(root)] == root:
        return path[len(root) :]
    return () if root[: len(path)] == path else None


def _matches(steps: tuple[str, ...], path: Path) -> bool:
    """Whether one is the other's prefix, step by step."""
    return all(step in ("*", str(part)) for step, part in zip(steps, path, strict=False))
