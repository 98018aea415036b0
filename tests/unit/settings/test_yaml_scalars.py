"""Words without quotes as Pulumi's engine reads them: the values were printed by its own Go code."""

import pytest

from components.settings.yaml_scalars import resolve

# What `workspace.LoadProjectStackBytes` of Pulumi 3.274.1 hands to the program as JSON.
BY_THE_ENGINE = (
    ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("Yes", "Yes"), ("NO", "NO"), ("y", "y"), ("n", "n"),
    ("true", True), ("True", True), ("TRUE", True), ("tRUE", "tRUE"), ("false", False),
    ("~", None), ("null", None), ("Null", None), ("NULL", None), ("", None),
    ("1_000", 1000), ("-1_000", -1000), ("1__0", 10), ("_1", "_1"), ("+5", 5), ("-5", -5), ("++5", "++5"), ("-0", 0),
    ("111122223333", 111122223333), ("9223372036854775808", 9223372036854775808),
    ("99999999999999999999999", 1e23),
    ("1e3", 1000), ("1E3", 1000), ("1e+3", 1000), ("1605e47", 1.605e50), ("1e-7", 1e-7), ("1e20", 100000000000000000000),
    ("1e3.5", "1e3.5"), ("10e", "10e"), ("1e400", "1e400"),
    ("1.0", 1), ("1.30", 1.3), ("1.", 1), ("5.", 5), (".5", 0.5), ("-.5", -0.5), ("1_0.5", 10.5), ("0.1", 0.1), ("0.", 0),
    ("12:30:45", "12:30:45"), ("1:30", "1:30"), ("1.5:30", "1.5:30"), ("2027-13-31", "2027-13-31"),
    ("=", "="), ("0xG", "0xG"), ("0o8", "0o8"), ("text", "text"),
)  # fmt: skip


@pytest.mark.parametrize(("written", "value"), BY_THE_ENGINE)
def test_reads_a_word_as_the_engine_does(written: str, value: object) -> None:
    """The preview has the values that `pulumi up` will have, of the same type."""
    found, flaw = resolve(written)

    assert (value, type(value), None) == (found, type(found), flaw)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("0777", '0777 is read as the number 511; write "0777" if it is text, or 511'),
        ("012", '012 is read as the number 10; write "012" if it is text, or 10'),
        ("0o17", '0o17 is read as the number 15; write "0o17" if it is text, or 15'),
        ("0x1F", '0x1F is read as the number 31; write "0x1F" if it is text, or 31'),
        ("-0b11", '-0b11 is read as the number -3; write "-0b11" if it is text, or -3'),
        ("08", '08 is read as the number 8; write "08" if it is text, or 8'),
        (
            "012345678901",
            '012345678901 is read as the number 12345678901; write "012345678901" if it is text, or 12345678901',
        ),
    ],
)
def test_refuses_numbers_that_nobody_means(written: str, sentence: str) -> None:
    """Other bases and leading zeros are refused: the engine would hand on another number in silence."""
    assert resolve(written)[1] == sentence


@pytest.mark.parametrize("written", ["2027-01-31", "2027-1-5", "2027-01-31T10:00:00Z", "2027-01-31 10:00:00"])
def test_refuses_days_without_quotes(written: str) -> None:
    """The engine makes `2027-01-31 00:00:00 +0000 UTC` of a day, which is a date for nobody."""
    assert resolve(written) == (
        written,
        f'{written} without quotes arrives as a point in time with a zone; write it in quotes: "{written}"',
    )


@pytest.mark.parametrize("written", [".inf", "-.inf", "+.Inf", ".nan", ".NaN"])
def test_refuses_numbers_that_json_has_not(written: str) -> None:
    """The engine fails on them with `json: unsupported value`."""
    assert resolve(written)[1] == f"{written} is not a number that config can hold; write a finite one"
