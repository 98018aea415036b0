"""Kubernetes quantities and Go durations as numbers, and back as people write them. Standard library only.

Numbers come as text ("16Gi", "100m", "2"), as integers, and as floats: protobuf's Struct, which carries every value
through the Pulumi engine, knows no integers, so 16 arrives as 16.0.
"""

import math
import re
from typing import Final

# Suffixes of resource.Quantity (apimachinery pkg/api/resource/suffix.go).
_SUFFIXES: Final = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)([KMGTPE]i|[numkMGTPE]?)")

# Units of time.ParseDuration that Karpenter and KEDA accept, and "d", which neither does (it is refused below).
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")

_BINARY: Final = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))


def quantity(value: object) -> float:
    """The number that a Kubernetes quantity stands for: bytes for "16Gi", cores for "100m"; ValueError if none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        message = f"{value!r} is not a quantity"
        raise ValueError(message)  # noqa: TRY004 - one error for all that is no quantity
    if not isinstance(value, str):
        return _finite(float(value), value)
    match = _QUANTITY.fullmatch(value.strip())
    if match is None:
        message = f"{value!r} is not a quantity; write for example 16Gi, 500m or 2"
        raise ValueError(message)
    return _finite(float(match[1]) * _SUFFIXES[match[2]], value)


def quantity_or_none(value: object) -> float | None:
    """Like `quantity`, and None for whatever is not one (absent, unknown in preview, misspelt)."""
    try:
        return quantity(value)
    except ValueError:
        return None


def seconds(value: object) -> float:
    """Seconds of a Go duration ("10m", "1h30m"); infinity for Karpenter's "Never"; ValueError if neither."""
    if value == "Never":
        return math.inf
    text = value.strip() if isinstance(value, str) else ""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        message = f"{value!r} is not a duration; write for example 30s, 10m or 1h30m"
        raise ValueError(message)
    return math.fsum(float(number) * _UNITS[unit] for number, unit in parts)


def seconds_or_none(value: object) -> float | None:
    """Like `seconds`, and None for whatever is not a duration."""
    try:
        return seconds(value)
    except ValueError:
        return None


def format_bytes(number: float) -> str:
    """Bytes as Kubernetes writes them, in the largest unit that needs at most one decimal: 17179869184 is "16Gi"."""
    for unit, suffix in _BINARY:
        if abs(number) >= unit:
            return f"{format_number(round(number / unit, 1))}{suffix}"
    return format_number(number)


def format_number(number: float) -> str:
    """A count without a needless fraction: 16.0 is "16", 3.92 is "3.92"."""
    return (
        str(int(number)) if math.isfinite(number) and number == int(number) else f"{number:.3f}".rstrip("0")
    )


def format_seconds(number: float) -> str:
    """Seconds as a duration people write: 600 is "10m", 90 is "90s"."""
    if math.isinf(number):
        return "Never"
    for unit, suffix in ((3600, "h"), (60, "m")):
        if number >= unit and number % unit == 0:
            return f"{int(number // unit)}{suffix}"
    return f"{format_number(number)}s"


def _finite(number: float, value: object) -> float:
    if not math.isfinite(number):
        message = f"{value!r} is not a finite number"
        raise ValueError(message)
    return number
