"""Taints of nodes and tolerations of pods."""

from collections.abc import Iterable
from dataclasses import dataclass

from guardrails.values import mappings, text

BLOCKING = ("NoSchedule", "NoExecute")
# EKS writes effects its own way in managed node groups.
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint."""

    key: str
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect or '*'}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration."""

    key: str
    exists: bool
    value: str
    effect: str

    def covers(self, taint: Taint) -> bool:
        """Whether it tolerates a taint: no key with Exists covers every key, no effect every effect."""
        if self.effect not in ("", taint.effect):
            return False
        if self.exists:
            return self.key in ("", taint.key)
        return self.key == taint.key and self.value == taint.value


def taints_of(listed: object) -> tuple[Taint, ...]:
    """The taints in a list."""
    return tuple(
        Taint(text(body.get("key")) or "", text(body.get("value")) or "", _effect(body.get("effect")))
        for _, body in mappings(listed)
    )


def tolerations_of(listed: object) -> tuple[Toleration, ...]:
    """The tolerations in a list."""
    return tuple(
        Toleration(
            text(body.get("key")) or "", text(body.get("operator")) == "Exists", text(body.get("value")) or "",
            _effect(body.get("effect")),
        )
        for _, body in mappings(listed)
    )  # fmt: skip


def _effect(value: object) -> str:
    written = text(value) or ""
    return EFFECTS.get(written, written)


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any toleration covers a taint."""
    return any(toleration.covers(taint) for toleration in tolerations)


def parse_taint(written: str) -> Taint:
    """A taint from kubectl's own form: "nvidia.com/gpu=true:NoSchedule"."""
    pair, _, effect = written.partition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)
