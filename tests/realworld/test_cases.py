"""The product judged by what people really wrote."""

from __future__ import annotations

import pytest
import yaml

from guardrails import TABLE
from tests.realworld.codes import CODES
from tests.realworld.run import CASES, Score, findings_of, judge, read_cases, score_of

ALL = list(read_cases(CASES))


@pytest.mark.parametrize(("case", "path"), ALL, ids=[str(case["id"]) for case, _ in ALL])
def test_case(case, path):
    """Right verdict, every finding that must be, none that must not."""
    score = Score()
    judge(case, findings_of(case, path), score)

    assert score.wrong == []
    assert score.false_alarms == []
    assert score.errors_on_good == []


def test_the_printed_score():
    """The figures of the command line are those of the cases."""
    assert score_of(CASES).as_json() == {
        "cases": 38,
        "verdict_right": 38,
        "must_find": {"found": 80, "of": 80},
        "false_alarms": [],
        "errors_on_good": [],
        "wrong": [],
    }


def test_every_code_has_a_rule_of_its_severity():
    """All 95 classes are covered, and each rule weighs what its class does."""
    groups = yaml.safe_load((CASES.parent / "codes.yaml").read_text(encoding="utf-8"))
    severities = {code: entry["sev"] for group in groups.values() for code, entry in group.items()}
    rules = {rule.id: rule for rule, _ in TABLE}
    covered = {code for codes in CODES.values() for code in codes}

    assert len(severities) == 95
    assert covered == set(severities)
    assert set(CODES) <= set(rules)
    assert {
        (rule, code)
        for rule, codes in CODES.items()
        for code in codes
        if rules[rule].severity != severities[code]
    } == set()


@pytest.mark.parametrize(
    ("case_id", "change", "code"),
    [
        (
            "B05",
            lambda case: case["input"][1]["spec"].update(upgradeStrategy={"type": "None"}),
            "UPGRADE-NEEDS-2X",
        ),
        (
            "B01",
            lambda case: case["input"][1]["spec"]["template"]["spec"].update(enableServiceLinks=False),
            "SVC-NAME-VLLM-ENV",
        ),
    ],
)
def test_what_the_notes_say(case_id, change, code):
    """The remedy that a case names makes its finding disappear."""
    case, path = next((item, place) for item, place in read_cases(CASES) if item["id"] == case_id)
    change(case)
    found = {code for finding in findings_of(case, path) for code in CODES.get(finding.rule, ())}

    assert code not in found


def test_one_token_is_one_finding():
    """W17: names that only contain TOKEN stay silent."""
    case, path = next((item, place) for item, place in ALL if item["id"] == "W17")

    assert [finding.rule for finding in findings_of(case, path)].count("secret-in-plain-text") == 1


def test_pods_that_are_fine_are_not_named():
    """W44: of six pods four are wrong."""
    case, path = next((item, place) for item, place in ALL if item["id"] == "W44")
    named = {finding.object for finding in findings_of(case, path) if finding.severity != "advice"}

    assert named == {"Pod llm/no-shm", "Pod llm/tiny-shm", "Pod llm/big-shm", "Pod llm/disk-shm"}
