"""Words without quotes as Pulumi's engine reads them (Go's yaml.v3), which is not how PyYAML reads them.

PyYAML follows YAML 1.1: `off` is false, `12:30:45` is 45045, `08` is text and `1e3` too. The engine hands the program
`"off"`, `"12:30:45"`, 8 and 1000. A preview that read otherwise would show another stack than `pulumi up` makes. The
table was taken from `workspace.LoadProjectStackBytes` of Pulumi 3.274.1 (tests/unit/settings/test_yaml_scalars.py).
"""

import math
import re
from datetime import date
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DAY: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})([Tt ]\d{1,2}:\d{1,2}:\d{1,2}.*)?", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9]\d*)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?", re.ASCII)
# 0777, 0o17, 0x1F and 0b11: numbers in another base, which nobody means in a stack file.
_OTHER_BASE: Final = re.compile(r"([-+]?)0(?:[xX]([\da-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))", re.ASCII)
_LEADING_ZERO: Final = re.compile(r"[-+]?0\d+", re.ASCII)
_LARGEST: Final = 2**64 - 1  # beyond it Go reads a float
_GO_WRITES_EXPONENTS_FROM: Final = (
    1e21  # below it encoding/json writes a whole float without one, so it arrives whole
)


def resolve(text: str) -> tuple[Scalar, str | None]:
    """Value of a word without quotes, and what is wrong with it (None: nothing)."""
    if text in _WORDS:
        return _WORDS[text], None
    if text[0] not in "0123456789+-.":
        return text, None
    if _NOT_FINITE.fullmatch(text):
        return text, f"{text} is not a number that config can hold; write a finite one"
    if _is_day(text):
        # The engine hands on Go's time.Time as text: "2027-01-31 00:00:00 +0000 UTC".
        return (
            text,
            f'{text} without quotes arrives as a point in time with a zone; write it in quotes: "{text}"',
        )
    return _number(text if text[0] == "." else text.replace("_", ""), text)


def _number(plain: str, text: str) -> tuple[Scalar, str | None]:
    """A number, or the text where it is none."""
    if other := _OTHER_BASE.fullmatch(plain):
        sign, *digits = other.groups()
        whole = next(int(part, base) for part, base in zip(digits, (16, 2, 8), strict=True) if part)
        whole = -whole if sign == "-" else whole
        return whole, f'{text} is read as the number {whole}; write "{text}" if it is text, or {whole}'
    if _DECIMAL.fullmatch(plain) and -(2**63) <= int(plain) <= _LARGEST:
        return int(plain), None
    if not _FLOAT.fullmatch(plain):
        return text, None
    number = float(plain)
    if math.isinf(number):
        return text, None
    value = int(number) if number.is_integer() and abs(number) < _GO_WRITES_EXPONENTS_FROM else number
    if _LEADING_ZERO.fullmatch(plain):
        return value, f'{text} is read as the number {value}; write "{text}" if it is text, or {value}'
    return value, None


def _is_day(text: str) -> bool:
    match = _DAY.fullmatch(text)
    if match is None:
        return False
    year, month, day = (int(part) for part in match.groups()[:3])
    try:
        date(year or 1, month, day)
    except ValueError:
        return False
    return True
