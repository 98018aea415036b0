"""What is not YAML is said in words, with the line to look at."""

import pytest

from tests.unit.settings.stackfile import said, said_of


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("    region: us-west-2", "\tregion: us-west-2", "4: is not YAML: a tab stands here; YAML indents with spaces"),
        (
            "region: us-west-2",
            "region: a: b",
            "4: is not YAML: a `key:` within another value; indent it like its neighbours, or quote text that has a colon and a space",
        ),
        (
            "zones: [us-west-2a, us-west-2b]",
            "zones: [us-west-2a, us-west-2b",
            "9: is not YAML: the list opened with [ on line 8 lacks a comma or its ]",
        ),
        (
            "limits: {gpus: 4}",
            "limits: {gpus: 4",
            "17: is not YAML: the mapping opened with { on line 16 lacks a comma or its }",
        ),
        ('- nodes: "1"', '- nodes: "1', "31: is not YAML: the quotes opened on line 19 are never closed"),
        ("region: us-west-2", "region: @west", "4: is not YAML: text that starts with @ needs quotes"),
        (
            "region: us-west-2",
            'region: "\\west"',
            "4: is not YAML: \\ starts an escape within double quotes; write \\\\ or use single quotes",
        ),
        (
            "      - name: g5",
            "     - name: g5",
            "15: is not YAML: a `key:` within another value; indent it like its neighbours, or quote text that has a colon and a space",
        ),
        (
            "    accountId:",
            "   accountId:",
            "5: is not YAML: does not fit the block on line 3; check the indent, commas and quotes there",
        ),
        (
            "region: us-west-2",
            "region: - us-west-2",
            "4: is not YAML: a list item (`- `) cannot start here; put it on a line of its own",
        ),
        ("region: us-west-2", "region: [,]", "4: is not YAML: a value is missing here; check the brackets and commas before it"),
        (
            "region: us-west-2",
            "region: |us-west-2",
            "4: is not YAML: text follows | or >; start it on the next line",
        ),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_the_form(old: str, new: str, sentence: str) -> None:
    """Each complaint of the parser has words for someone who writes a stack file."""
    assert said((old, new)) == [sentence]


def test_a_control_character_is_no_text() -> None:
    """A file with bytes of zero is not YAML, and the line is told though the parser tells none."""
    assert said_of("config:\n  a: \0\n") == [
        "2: is not YAML: holds a control character, so it is not a text file"
    ]
