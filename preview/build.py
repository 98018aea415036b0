"""Runs the real program for one stack file and gathers what a person or a pull request wants to know of it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.guard import StackBroken  # first: it puts the rules on the path
from components.settings import PlatformSettings, stack_file
from components.sizing.stack import StackSize
from guardrails.core import Finding, Profile, Severity
from guardrails.run import check, governance
from guardrails.stack import StackFacts, from_settings
from preview.monitor import UNKNOWN, Registration, program_file, run

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = "placeholder-known-only-to-the-engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Everything that the reports show. ``registrations`` is empty when a mandatory rule refused the stack."""

    stack: str
    settings: PlatformSettings
    registrations: tuple[Registration, ...]
    findings: tuple[Finding, ...]
    size: StackSize
    placeholders: tuple[str, ...]  # secrets that a placeholder stood in for
    outputs: Mapping[str, Any]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The Kubernetes objects, as they would be sent to the API server."""
        return [r.inputs for r in self.registrations if is_kubernetes_object(r)]

    @property
    def refused(self) -> bool:
        """Whether a mandatory rule stops this stack."""
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    @property
    def unknown(self) -> list[tuple[Registration, str]]:
        """Every value that only an update can tell: resource and dotted path."""
        return [(r, path) for r in self.registrations for path in unknown_paths(r.inputs)]


def in_order(registrations: Sequence[Registration]) -> tuple[Registration, ...]:
    """What is needed first, with everything of a component together: registrations themselves come in any order."""
    top_of = {r.urn: r.parent or r.urn for r in registrations}
    needs: dict[str, set[str]] = {top: set() for top in top_of.values()}
    for r in registrations:
        used = (*r.dependencies, *([r.provider] if r.provider else []))
        needs[top_of[r.urn]] |= {top_of[urn] for urn in used if urn in top_of} - {top_of[r.urn]}
    place = {top: index for index, top in enumerate(_by_need(needs))}
    return tuple(
        sorted(registrations, key=lambda r: (place[top_of[r.urn]], r.parent is not None, r.type, r.name))
    )


def _by_need(needs: Mapping[str, set[str]]) -> Iterator[str]:
    """Keys in the order of what they need, by name where nothing decides."""
    left = dict(needs)
    while left:
        ready = sorted(
            (top for top, used in left.items() if not used & left.keys()),
            key=lambda urn: urn.rpartition("::")[2],
        )
        for top in ready or sorted(
            left
        ):  # a circle cannot be registered; were there one, its members still show
            yield top
            del left[top]


def is_kubernetes_object(registration: Registration) -> bool:
    """Whether a resource is one object of the Kubernetes API (a chart release is not)."""
    return (
        registration.type.startswith("kubernetes:") and {"apiVersion", "kind"} <= registration.inputs.keys()
    )


def unknown_paths(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of the unknown leaves of plain inputs."""
    if value == UNKNOWN:
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from unknown_paths(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown_paths(item, f"{path}[{index}]")


def build(stack: str, folder: Path = ROOT) -> Preview:
    """Preview one stack of the program in ``folder``.

    Raises:
        SettingsError: the stack file has problems, all of them in its text.
        pulumi.RunError: the program refuses for another reason than its rules.
    """
    path = folder / f"Pulumi.{stack}.yaml"
    file = stack_file.read(path)
    settings = stack_file.settings_of(file)
    facts = from_settings(settings, file=file.name, locate=file.line_of, folder=folder)
    assert facts.size is not None  # noqa: S101 - facts of a typed stack
    secrets = tuple(settings.needed_secrets)
    config = {stack_file.PLATFORM_KEY: json.dumps(file.platform, default=str)}
    config |= {f"llm-platform:{key}": PLACEHOLDER for key in secrets}
    try:
        monitor = run(program_file(folder / "__main__.py"), stack, config, secrets=tuple(config)[1:])
        registrations, outputs = in_order(monitor.registrations), monitor.outputs
        findings = findings_of(settings, registrations, facts)
    except StackBroken as broken:
        registrations, outputs, findings = (), {}, broken.findings
    return Preview(
        stack=stack,
        settings=settings,
        registrations=registrations,
        findings=findings,
        size=facts.size,
        placeholders=secrets,
        outputs=outputs,
    )


def findings_of(
    settings: PlatformSettings, registrations: tuple[Registration, ...], facts: StackFacts
) -> tuple[Finding, ...]:
    """The findings of all rules on a stack of ours and everything it registers, heaviest first."""
    overrides, waivers = governance(settings.policy)
    found = check(
        [_checked(registration) for registration in registrations],
        stack=facts,
        profile=Profile.HOUSE,
        env=facts.env,
        overrides=overrides,
        waivers=waivers,
    )
    return tuple(found)


def _checked(registration: Registration) -> dict[str, Any]:
    """A resource as the rules take it: a Kubernetes object as it is, anything else with its type and name."""
    if is_kubernetes_object(registration):
        return registration.inputs
    return {"type": registration.type, "name": registration.name, "props": registration.inputs}
