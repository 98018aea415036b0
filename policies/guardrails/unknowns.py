"""Which rules could not be decided because a value is computed and not known in a preview.

`Rule.reads` names the values that a rule decides on, as `<kind>:<path>`: the kind of an object (`NodePool`), a type
token (`aws:s3/bucketPolicy:BucketPolicy`), or `pod` for the pods of any workload (the path is then within the pod's
spec). `*` stands for one step. An unknown value above or below such a path leaves the rule undecided there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, dotted
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.values import UNKNOWN, leaves
from guardrails.world import World

Reading = tuple[Rule, tuple[str, ...]]


def undecided(world: World, rules: Iterable[Rule]) -> Iterator[tuple[Rule, Hit]]:
    """An advice for each rule and each unknown value that it decides on."""
    unknown = [(subject, path) for subject in world.subjects for path in _unknown_paths(subject)]
    if not unknown:
        return
    by_kind: dict[str, list[Reading]] = defaultdict(list)
    for rule in rules:
        for read in rule.reads:
            kind, _, pattern = read.rpartition(":")
            by_kind[kind].append((rule, tuple(pattern.split("."))))
    for subject, path in unknown:
        for rule in dict.fromkeys(_concerned(world, by_kind, subject, path)):
            yield rule, Hit(
                subject, path, f"could not be decided: {dotted(path)} is not known before the update", Severity.ADVICE,
                "pass a plain value, or let the policy pack decide it during the update",
            )  # fmt: skip


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
