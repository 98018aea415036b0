"""The page of rules is the rules."""

from __future__ import annotations

from catalogue import TARGET, catalogue

from guardrails import TABLE


def test_the_page_is_current():
    """`python policies/catalogue.py` was run after the last change of a rule."""
    assert TARGET.read_text(encoding="utf-8") == catalogue()


def test_every_rule_is_on_it():
    """With its sentence, its reason and where it comes from."""
    page = catalogue()
    for rule, _ in TABLE:
        assert f"| `{rule.id}` |" in page
        assert rule.sentence
        assert rule.why
        assert rule.source
