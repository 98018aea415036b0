"""Overrides and waivers: what they silence, and what they may not be."""

from __future__ import annotations

import json
from datetime import date

import pytest

from components.settings.extras import PolicySettings
from guardrails import Override, Severity, Waiver, check, governance

TODAY = date(2026, 11, 30)
POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "namespace": "llm"},
    "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:latest"}]},
}  # fmt: skip
RULE = "image-floating"


def found(*, overrides: tuple[Override, ...] = (), waivers: tuple[Waiver, ...] = ()) -> dict[str, Severity]:
    """Severities by rule."""
    findings = check([POD], today=TODAY, overrides=overrides, waivers=waivers)
    return {finding.rule: finding.severity for finding in findings}


def waiver(object_: str = "", expires: date = date(2027, 1, 1), rule: str = RULE) -> Waiver:
    """A waiver of the rule."""
    return Waiver(rule=rule, object=object_, reason="mirror is not ready", expires=expires)


def test_the_fault_itself():
    """Without either, it is an error."""
    assert found()[RULE] is Severity.ERROR


@pytest.mark.parametrize("severity", [Severity.WARN, Severity.ADVICE])
def test_an_override_lowers(severity):
    """A stack may take a rule less seriously."""
    assert found(overrides=(Override(rule=RULE, severity=severity, reason="dev"),))[RULE] is severity


def test_an_override_turns_off():
    """Or not take it at all."""
    assert RULE not in found(overrides=(Override(rule=RULE, severity=None, reason="dev"),))


@pytest.mark.parametrize("object_", ["", "*", "Pod llm/engine", "Pod/llm/engine", "Pod/engine"])
def test_a_waiver_excuses_its_object(object_):
    """However the object is named."""
    assert RULE not in found(waivers=(waiver(object_),))


@pytest.mark.parametrize("object_", ["Pod llm/other", "Deployment/engine"])
def test_a_waiver_excuses_no_other(object_):
    """A waiver is for one object."""
    assert found(waivers=(waiver(object_),))[RULE] is Severity.ERROR


def test_a_waiver_holds_on_its_last_day():
    """The day it names still counts."""
    assert RULE not in found(waivers=(waiver(expires=TODAY),))


def test_an_expired_waiver_is_a_finding():
    """The fault is back, and the waiver is named."""
    findings = check([POD], today=TODAY, waivers=(waiver(expires=date(2026, 11, 29)),))
    messages = {finding.rule: finding.message for finding in findings}

    assert RULE in messages
    assert messages["waiver-expired"] == (
        "the waiver of image-floating on * expired on 2026-11-29 (mirror is not ready)"
    )


def test_rules_that_do_not_exist():
    """A typing error in a waiver would otherwise look like a waiver."""
    override = Override(rule="image-flaoting", severity=None, reason="dev")
    findings = check([POD], today=TODAY, overrides=(override,), waivers=(waiver(rule="shm"),))
    unknown = [finding for finding in findings if finding.rule == "policy-rule-unknown"]

    assert {finding.message for finding in unknown} == {
        "there is no rule shm",
        "there is no rule image-flaoting",
    }
    assert {finding.severity for finding in unknown} == {Severity.ERROR}


def test_the_policy_block_of_a_stack():
    """The typed settings become the same overrides and waivers."""
    settings = PolicySettings.model_validate_json(
        json.dumps(
            {
                "environment": "dev",
                "overrides": {RULE: {"severity": "off", "reason": "we follow the nightly image"}},
                "waivers": [
                    {
                        "rule": "shm-missing",
                        "object": "Pod/x",
                        "reason": "one GPU soon",
                        "expires": "2027-01-01",
                    }
                ],
            }
        )
    )
    overrides, waivers = governance(settings)

    assert overrides == (Override(rule=RULE, severity=None, reason="we follow the nightly image"),)
    assert waivers == (
        Waiver(rule="shm-missing", object="Pod/x", reason="one GPU soon", expires=date(2027, 1, 1)),
    )
