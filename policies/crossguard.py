"""The rules of `guardrails` as CrossGuard policies.

Four policies: rules that one object decides run before the object is made (`…-resource`), rules between objects run on
the whole stack; of each, errors are mandatory and warnings advisory. Advice is for `llmp preview` and is not shown.
An update runs stack policies only after its resources exist, so the way up is preview, then up.

A stack's own `policy` block (environment, overrides, waivers) is read from the config that the engine hands over; the
pack's config (`--policy-pack-config policies/config.<stack>.json`) comes on top, and can refuse to honour it.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy import Severity as PackSeverity

from guardrails import (
    TABLE,
    EngineDefaults,
    Finding,
    Override,
    Profile,
    Severity,
    Source,
    Waiver,
    check,
    dotted,
)
from guardrails.core import Check, Rule
from guardrails.run import governance
from guardrails.stack import StackFacts, from_settings

NAME = "llm-platform"
PLATFORM_KEY = "llm-platform:platform"

# Rules that one object decides by itself. The others need its surroundings and run on the whole stack.
ALONE = frozenset(
    {
        "image-floating", "image-untagged", "ray-version-mismatch", "ray-version-mixed", "ray-version-missing",
        "ray-not-in-image", "runtime-env-engine", "runtime-env-unpinned", "chart-version-floating",
        "eks-version-unpinned", "eks-version-unsupported", "shm-missing", "shm-not-memory", "shm-too-small",
        "shm-exceeds-memory", "shm-no-size", "shm-implicit", "taint-bad-field", "house-gpu-taint",
        "gpu-pool-untainted", "gpu-request-not-limit", "heads-not-divisible", "engine-argument-unknown",
        "args-token-space", "engine-argument-reserved", "context-too-long", "batched-tokens-too-few",
        "trust-remote-code", "engine-unsafe-setting", "ray-api-old", "ray-command-blocks", "ray-resource-overstated",
        "head-has-gpu", "head-without-limits", "ray-stop-pre-stop", "serve-document-invalid", "serve-field-unknown",
        "serve-replicas-exceed-cluster", "actor-num-gpus", "serve-never-scales", "accelerator-type-undeclared",
        "serve-proxy-head-only", "karpenter-api-old", "karpenter-key-unknown", "karpenter-value-invalid",
        "node-class-ref-invalid", "karpenter-field-moved", "ami-selector-missing", "primary-interface-missing",
        "pool-without-limits", "pool-without-gpu-limit", "pool-empty", "pool-type-unknown", "consolidation-aggressive",
        "house-pool-bounds", "ami-end-of-life", "ami-floating", "bottlerocket-wrong-device", "ami-without-gpu-driver",
        "ami-architecture", "raid0-own-bootstrap", "imds-v1-allowed", "s3-access-mode", "s3-without-region", "host-path",
        "scaler-bad-target", "scaler-query-many-series", "scaler-double-average", "scaler-on-gpu-duty-cycle",
        "probe-without-startup", "startup-budget-short", "engine-without-readiness", "grace-below-pre-stop",
        "secret-in-plain-text", "privileged-engine", "host-namespaces", "engine-capabilities", "pickled-weights",
        "eks-endpoint-open", "security-group-open", "storage-unencrypted", "iam-wildcard", "resource-policy-public",
        "bucket-without-tls-rule", "eks-without-audit-log", "ray-name-invalid", "house-ray-head",
        "house-explicit-scaling", "house-hub-offline", "house-ray-token", "house-pdb-integer", "efa-env-without-resource",
        "efa-image-without-libfabric",
    }
)  # fmt: skip

SCHEMA = PolicyConfigSchema(
    properties={
        "environment": {"type": "string", "enum": ["dev", "prod"]},
        "profile": {"type": "string", "enum": ["general", "house"], "default": "house"},
        "honourStackPolicy": {"type": "boolean", "default": True},
        "engine": {"type": "string"},
        "rules": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "severity": {"type": "string", "enum": ["error", "warn", "advice", "off"]},
                    "reason": {"type": "string", "minLength": 10},
                },
                "required": ["severity", "reason"],
            },
        },
        "waivers": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "rule": {"type": "string"},
                    "object": {"type": "string"},
                    "reason": {"type": "string", "minLength": 10},
                    "expires": {"type": "string"},
                },
                "required": ["rule", "reason", "expires"],
            },
        },
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackConfig:
    """What the pack was told: by its own config, and by the stack's policy block below it."""

    environment: str = "prod"
    profile: Profile = Profile.HOUSE
    engine: EngineDefaults = field(default_factory=EngineDefaults)
    overrides: tuple[Override, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    stack: StackFacts | None = field(default=None, compare=False)


@cache
def stack_facts() -> tuple[StackFacts | None, tuple[Override, ...], tuple[Waiver, ...]]:
    """The stack's settings as the engine was given them. A stack that is not ours, or is refused anyway, has none."""
    written = json.loads(os.environ.get("PULUMI_CONFIG") or "{}").get(PLATFORM_KEY)
    if not written:
        return None, (), ()
    from components.settings import stack_file  # noqa: PLC0415 - a pack over other programs needs no settings
    from components.settings.problems import SettingsError  # noqa: PLC0415

    try:
        settings = stack_file.validate(json.loads(written), None)
    except (SettingsError, ValueError):
        return None, (), ()
    # The pack lies beside the program, and so beside its stack files; the engine starts it in its own folder.
    facts = from_settings(settings, folder=Path(__file__).resolve().parent.parent)
    return facts, *governance(settings.policy)


def pack_config(config: Mapping[str, Any]) -> PackConfig:
    """The pack's config over the stack's own policy block."""
    facts, overrides, waivers = stack_facts()
    if config.get("honourStackPolicy") is False:
        overrides, waivers = (), ()
    name, _, version = str(config.get("engine") or "").partition("=")
    own = tuple(
        Override(
            rule=rule,
            severity=None if entry["severity"] == "off" else Severity(entry["severity"]),
            reason=entry["reason"],
        )
        for rule, entry in (config.get("rules") or {}).items()
    )
    waived = tuple(
        Waiver(
            rule=w["rule"],
            object=w.get("object", ""),
            reason=w["reason"],
            expires=date.fromisoformat(w["expires"]),
        )
        for w in config.get("waivers") or []
    )
    return PackConfig(
        environment=config.get("environment") or (facts.env if facts else "prod"),
        profile=Profile(config.get("profile") or "house"),
        engine=EngineDefaults(vllm=version or None) if name == "vllm" else EngineDefaults(),
        overrides=(*overrides, *own),
        waivers=(*waivers, *waived),
        stack=facts,
    )


# ---------------------------------------------------------------------- resources


def unwrapped(value: object) -> Any:
    """A property without the SDK's proxies, which raise on every unknown value that is touched.

    What is unknown stays in it as the engine's sentinel text, and `guardrails.values` knows those.
    """
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        inner = value["__target"] if type(value).__name__.endswith("Proxy") else value
        return {key: unwrapped(item) for key, item in inner.items()}
    if isinstance(value, Sequence):
        inner = value["__target"] if type(value).__name__.endswith("Proxy") else value  # type: ignore[call-overload]
        return [unwrapped(item) for item in inner]
    return str(value)  # an asset or an archive


def as_source(type_: str, name: str, props: object, urn: str) -> Source:
    """A resource as the rules take it."""
    return Source({"type": type_, "name": name, "props": unwrapped(props)}, urn=urn)


def sentence(finding: Finding) -> str:
    """A finding as the engine shows it: object, place, what is wrong, the rule, what to do."""
    parts = [dotted(finding.path), finding.message]
    if not finding.message.startswith(finding.object):
        parts.insert(0, finding.object)
    return f"{': '.join(part for part in parts if part)} [{finding.rule}]; {finding.remedy}"


# ---------------------------------------------------------------------- policies

_ALONE_TABLE: tuple[tuple[Rule, Check], ...] = tuple(entry for entry in TABLE if entry[0].id in ALONE)
_BETWEEN_TABLE: tuple[tuple[Rule, Check], ...] = tuple(entry for entry in TABLE if entry[0].id not in ALONE)


def _config_of(args: ResourceValidationArgs | StackValidationArgs) -> PackConfig:
    given = args.get_config() or {}
    return _parsed(json.dumps(given, sort_keys=True))


@cache
def _parsed(given: str) -> PackConfig:
    return pack_config(json.loads(given))


def _run(
    sources: Iterable[Source],
    config: PackConfig,
    table: tuple[tuple[Rule, Check], ...],
    stack: StackFacts | None,
) -> list[Finding]:
    return check(
        sources, stack=stack, engine=config.engine, profile=config.profile, env=config.environment,
        overrides=config.overrides, waivers=config.waivers, rules=table,
    )  # fmt: skip


def _resource(level: Severity) -> Callable[[ResourceValidationArgs, ReportViolation], None]:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        source = as_source(args.resource_type, args.name, args.props, args.urn)
        for finding in _run([source], _config_of(args), _ALONE_TABLE, None):
            if (finding.severity is level and finding.object != "policy") or _is_undecided(finding, level):
                report(sentence(finding), None)

    return validate


def _stack(level: Severity) -> Callable[[StackValidationArgs, ReportViolation], None]:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        config = _config_of(args)
        sources = [as_source(item.resource_type, item.name, item.props, item.urn) for item in args.resources]
        found = _run(sources, config, _BETWEEN_TABLE, config.stack)
        if config.stack is not None:  # settings are no resource: all rules on them are decided here
            found += [
                item for item in _run([], config, _ALONE_TABLE, config.stack) if item.object != "policy"
            ]
        for finding in found:
            if finding.severity is level or _is_undecided(finding, level):
                report(sentence(finding), finding.urn)

    return validate


def _is_undecided(finding: Finding, level: Severity) -> bool:
    """Rules that wait for the update are told beside the warnings, so that nobody takes silence for a pass."""
    return level is Severity.WARN and finding.message.startswith("could not be decided")


def policies() -> list[Policy]:
    """The four policies."""
    common: dict[str, Any] = {"config_schema": SCHEMA, "url": "docs/guardrails.md"}
    mandatory: dict[str, Any] = {
        "enforcement_level": EnforcementLevel.MANDATORY,
        "severity": PackSeverity.HIGH,
        **common,
    }
    advisory: dict[str, Any] = {
        "enforcement_level": EnforcementLevel.ADVISORY,
        "severity": PackSeverity.LOW,
        **common,
    }
    return [
        ResourceValidationPolicy(
            "guardrails-resource",
            "An object can work and breaks no rule.",
            _resource(Severity.ERROR),
            **mandatory,
        ),
        ResourceValidationPolicy(
            "guardrails-resource-warnings",
            "An object follows what has proved itself.",
            _resource(Severity.WARN),
            **advisory,
        ),
        StackValidationPolicy("guardrails", "Objects fit together.", _stack(Severity.ERROR), **mandatory),
        StackValidationPolicy(
            "guardrails-warnings",
            "Objects fit together as has proved itself.",
            _stack(Severity.WARN),
            **advisory,
        ),
    ]
