"""YAML text to values and lines: anchors, merges, repeated keys, and the limits on what may be read."""

import pytest

from components.settings.stack_yaml import Flaw, Unreadable, read_yaml


def refusal(text: str) -> tuple[int, str]:
    """Line and sentence with which a text is refused."""
    with pytest.raises(Unreadable) as caught:
        read_yaml(text)
    return caught.value.line, caught.value.message


def test_notes_the_line_of_every_path() -> None:
    """Keys, items of lists and what stands within braces have their own lines."""
    document = read_yaml("a:\n  b:\n    - c: 1\n    - {d: 2,\n       e: 3}\n")

    assert document.lines == {
        (): 1,
        ("a",): 1,
        ("a", "b"): 2,
        ("a", "b", 0): 3,
        ("a", "b", 0, "c"): 3,
        ("a", "b", 1): 4,
        ("a", "b", 1, "d"): 4,
        ("a", "b", 1, "e"): 5,
    }


def test_keeps_what_was_written_for_a_number() -> None:
    """A sentence can show `1.30` where the value is 1.3."""
    document = read_yaml('version: 1.30\nquoted: "1.30"\n')

    assert document.values == {"version": 1.3, "quoted": "1.30"}
    assert document.texts == {("version",): "1.30"}


def test_an_alias_has_the_lines_of_what_it_repeats() -> None:
    """What is wrong in a repeated block is changed where the block is written."""
    document = read_yaml("a: &x\n  k: 1\nb: *x\n")

    assert document.values == {"a": {"k": 1}, "b": {"k": 1}}
    assert (document.lines["b",], document.lines["b", "k"]) == (3, 2)


def test_merges_keys_as_the_engine_does() -> None:
    """`<<` lends what the mapping has not itself, wherever it stands; the first lender counts."""
    text = "a: &a {k: 1, l: 2}\nc: &c {k: 9, m: 3}\nb:\n  k: 5\n  <<: [*a, *c]\n  z: 6\n"

    assert read_yaml(text).values["b"] == {"k": 5, "z": 6, "l": 2, "m": 3}


def test_a_merge_of_something_else_is_a_flaw() -> None:
    """`<<` takes mappings only."""
    document = read_yaml("a:\n  <<: 3\n  b: 1\n")

    message = "takes over the keys of a mapping or of a list of mappings, and this is neither"
    assert document.flaws == [Flaw(2, ("a", "<<"), message)]


def test_a_repeated_key_is_a_flaw_and_the_first_counts() -> None:
    """PyYAML would take the last in silence; the engine refuses the file."""
    document = read_yaml("a: 1\nb: 2\na: 3\n")

    assert document.values == {"a": 1, "b": 2}
    assert document.flaws == [Flaw(3, ("a",), "is written twice (first on line 1); keep one")]


@pytest.mark.parametrize("key", ["1", "true", "null", "1.50", "2027-01-01"])
def test_a_key_that_is_no_text_is_a_flaw(key: str) -> None:
    """The engine would write the number its own way: `1.50` becomes 1.5."""
    document = read_yaml(f"{key}: a\n")

    assert [flaw.message for flaw in document.flaws] == [
        f'is not text as a name; write it in quotes: "{key}"'
    ]


def test_words_of_yaml_1_1_are_names() -> None:
    """`on` is a name like any other for the engine."""
    assert read_yaml("on: 1\nno: 2\n").values == {"on": 1, "no": 2}


def test_the_tag_for_text_is_understood() -> None:
    """`!!str 5` is what the engine reads too."""
    assert read_yaml("a: !!str 5\n").values == {"a": "5"}


def test_an_empty_text_has_no_value() -> None:
    """A file of comments holds nothing."""
    assert read_yaml("# nothing\n").values is None


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (
            "a: 1\n---\nb: 2\n",
            2,
            "a second YAML document starts here (---); Pulumi reads only the first, so keep one",
        ),
        ("%YAML 1.2\n---\na: 1\n", 1, "has a % directive; remove it, a stack file needs none"),
        (
            "a: !!binary aGk=\n",
            1,
            "the tag !!binary says how to read a value; remove it, and write text in quotes",
        ),
        (
            "a: 1\nb: !foo x\n",
            2,
            "the tag !foo says how to read a value; remove it, and write text in quotes",
        ),
        ("? [a]\n: 1\n", 1, "a list stands where the name of a setting is expected; write `name: value`"),
        ("{a: b}: 1\n", 1, "a mapping stands where the name of a setting is expected; write `name: value`"),
        (
            "a: *b\n",
            1,
            "*b repeats what &b marks, and nothing above is marked so; text that starts with * needs quotes",
        ),
        (
            "a: 1\nb: &x [*x]\n",
            2,
            "*x stands inside what &x marks and would contain itself; write the value out",
        ),
    ],
)
def test_says_why_a_text_cannot_be_read(text: str, line: int, sentence: str) -> None:
    """What no stack file needs is refused with the line and what to do."""
    assert refusal(text) == (line, sentence)


@pytest.mark.parametrize("text", ["[" * 200_000, "{a: " * 100_000, "- " * 100_000])
def test_refuses_endless_nesting_at_once(text: str) -> None:
    """PyYAML's own C loader ends the process on these."""
    assert refusal(text) == (1, "is nested more than 64 deep; no setting is")


def test_refuses_an_alias_bomb() -> None:
    """Eleven lines that stand for 10^11 values do not take the memory."""
    text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 11)
    )

    assert refusal(text) == (
        1,
        "aliases (*name) repeat it until the file has more than 50,000 values; write it out",
    )


def test_refuses_a_bomb_of_merges() -> None:
    """Merges of merges double the work at each step and are counted too."""
    text = "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 40))

    assert (
        refusal(text)[1]
        == "aliases (*name) repeat it until the file has more than 50,000 values; write it out"
    )


def test_refuses_nesting_through_aliases() -> None:
    """A chain of aliases is as deep as brackets are."""
    text = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 500))

    assert refusal(text)[1] == "aliases (*name) nest it more than 64 deep; no setting is"


def test_refuses_more_values_than_any_stack_has() -> None:
    """A list of 200,000 items is no stack file."""
    sentence = "is the value number 50,001; a stack of a hundred models has about 6,000"
    assert refusal("a: [" + "b, " * 100_000 + "]\n") == (1, sentence)
