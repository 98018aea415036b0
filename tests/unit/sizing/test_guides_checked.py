"""docs/guides-checked.md says what the program computes."""

from __future__ import annotations

from tests.ground_truth.guides import DOCUMENT, document


def test_the_page_is_what_the_program_computes() -> None:
    """After a change of facts or formulas: python -m tests.ground_truth.guides --write."""
    assert document() == DOCUMENT.read_text(encoding="utf-8")
