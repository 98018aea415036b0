"""The ways to break a stack file. Each takes a stack and a source of chance, and gives the broken text."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel

from components.settings.places import keys_of, members_of
from tests.badconfig.targets import Pair, Stack


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken text; ``line`` is where the mistake is, None where several lines are as good."""

    text: str
    what: str
    line: int | None = None
    certain: bool = False  # this one must be refused, though the operator's others may be harmless


Break = Callable[[Stack, random.Random], Broken | None]


@dataclass(frozen=True, slots=True)
class Operator:
    """A named way to break a file. ``always``: what it makes must be refused, whatever it hits."""

    name: str
    run: Break
    always: bool
    keeps: bool = False  # what is accepted must mean the same as before
    needs_rules: bool = False


def misspell_key(stack: Stack, chance: random.Random) -> Broken | None:
    """One letter of a setting's name is lost, doubled, swapped or another."""
    pair = chance.choice([pair for pair in stack.pairs if pair.is_setting])
    name, at = pair.name, chance.randrange(len(pair.name))
    letter = chance.choice("abcdefghijklmnopqrstuvwxyz_")
    new = chance.choice([
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
        name[:at] + letter + name[at + 1 :],
        re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name),
        name.capitalize(),
    ])  # fmt: skip
    owner = pair.place.owner
    if new in (name, "") or owner is None or new in keys_of(owner):
        return None
    return Broken(pair.with_key(new), f"{name} -> {new}", pair.line)


def remove_key(stack: Stack, chance: random.Random) -> Broken | None:
    """A key and its value are gone; harmless where there is a default."""
    pair = chance.choice(stack.pairs)
    start, text, field = int(pair.key.start_mark.index), pair.text, pair.place.field
    needed = pair.is_setting and field is not None and field.is_required()
    if pair.next_start is not None:
        rest = text[:start] + text[pair.next_start :]
    else:
        rest = text[: pair.previous_end if pair.previous_end is not None else start] + text[pair.end :]
    return Broken(rest, f"without {pair.name}", certain=needed)


_WRONG: dict[Any, tuple[str, ...]] = {
    str: ("[a, b]", "{a: b}", "true", "[]"),
    int: ('"4"', "four", "[1]", "{}", "1.5", "true"),
    float: ('"0.5"', "half", "[0.5]", "{a: 1}", "false"),
    bool: ('"true"', "yes", "on", "1", "0", "[]", "{}"),
    list: ("text", "7", "true", "{a: 1}", "{}"),
    dict: ("text", "7", "false", "[x]", "[]"),
    date: ("[]", "{}", "tomorrow", "20270131", "true"),
}


def wrong_type(stack: Stack, chance: random.Random) -> Broken | None:
    """A value of another kind than the setting takes."""
    pair = chance.choice(stack.pairs)
    members = members_of(pair.place.annotation)
    if len(members) > 1 and not all(_kind(member) is dict for member in members):
        return None  # an engine argument, which takes many kinds
    nullable = type(None) in get_args(pair.place.annotation)
    new = chance.choice(_WRONG[_kind(members[0])] + (() if nullable else ("null", "~")))
    return Broken(pair.with_value(new), f"{pair.name}: {new}", pair.line)


def _kind(member: Any) -> Any:
    origin = get_origin(member)
    if origin is Literal or (isinstance(member, type) and issubclass(member, Enum)):
        return str
    if origin in (tuple, list):
        return list
    return dict if origin is dict or (isinstance(member, type) and issubclass(member, BaseModel)) else member


_FREE_TEXT = r"^\S(.*\S)?$"


def out_of_range(stack: Stack, chance: random.Random) -> Broken | None:
    """A number outside its limits, a word outside its list or form, or a list with too few items."""
    pair = chance.choice(stack.pairs)
    members = members_of(pair.place.annotation)
    kind = _kind(members[0]) if len(members) == 1 else None
    if kind in (int, float):
        least, most = _limits(pair)
        new = chance.choice([str(least), "-7", str(most), "99999999999"])
    elif kind is list and _has(pair, "min_length"):
        new = "[]"
    elif kind is str and _has(pair, "pattern", _FREE_TEXT):
        new = chance.choice(['" "', '""', '"x\\ny"'])
    elif kind is str and (members[0] is not str or _has(pair, "pattern")):
        more = ['"-"', '"a b"'] if pair.is_setting else []  # tags of AWS may be so
        new = chance.choice(['"not this!"', '"ümlaut"', '"${x}"', '"x\\ny"', *more])
    else:
        return None
    return Broken(pair.with_value(new), f"{pair.name}: {new}", pair.line)


def _constraints(annotation: Any) -> list[Any]:
    """Constraints anywhere in a type: within Annotated, and in the members of an optional one."""
    found = list(get_args(annotation)[1:]) if get_origin(annotation) is Annotated else []
    for inner in get_args(annotation):
        found += _constraints(inner)
    return [nested for one in found for nested in (getattr(one, "metadata", None) or [one])]


def _all_constraints(pair: Pair) -> list[Any]:
    own = list(pair.place.field.metadata) if pair.place.field and pair.place.is_own else []
    return [nested for one in own for nested in (getattr(one, "metadata", None) or [one])] + _constraints(
        pair.place.annotation
    )


def _has(pair: Pair, name: str, value: object = None) -> bool:
    """Whether the setting has a constraint, with a certain value if one is given."""
    found = [getattr(one, name, None) for one in _all_constraints(pair)]
    return value in found if value is not None else any(one is not None for one in found)


def _limits(pair: Pair) -> tuple[float, float]:
    """The nearest numbers that are not allowed."""
    least, most = -7.0, 99999999999.0
    for one in _all_constraints(pair):
        for name, step in (("gt", 0), ("ge", -1)):
            if (limit := getattr(one, name, None)) is not None:
                least = limit + step
        for name, step in (("lt", 0), ("le", 1)):
            if (limit := getattr(one, name, None)) is not None:
                most = limit + step
    return least, most


def duplicate(stack: Stack, chance: random.Random) -> Broken | None:
    """A key is written a second time, with the same value or another."""
    pair = chance.choice(stack.pairs)
    text, start, end = pair.text, int(pair.key.start_mark.index), pair.end
    segment = text[start:end] if chance.random() < 0.7 else f"{pair.name}: 1"
    between = ", " if pair.in_flow else "\n" + " " * int(pair.key.start_mark.column)
    line = pair.line + (0 if pair.in_flow else text[start:end].count("\n") + 1)
    rest = text[end:]
    if not pair.in_flow:  # a comment behind the value would swallow the copy
        comment, newline, after = rest.partition("\n")
        end, rest = end + len(comment), newline + after
    return Broken(text[:end] + between + segment + rest, f"{pair.name} twice", line)


def wrong_indent(stack: Stack, chance: random.Random) -> Broken | None:
    """One line, alone or with what is below it, moves to the left or right."""
    lines = stack.text.splitlines()
    rows = [i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    first = chance.choice(rows)
    last = first
    depth = len(lines[first]) - len(lines[first].lstrip())
    if chance.random() < 0.4:
        while last + 1 < len(lines) and len(lines[last + 1]) - len(lines[last + 1].lstrip()) > depth:
            last += 1
    shift = chance.choice([-4, -3, -2, -1, 1, 2, 3, 4])
    if depth + shift < 0:
        return None
    for row in range(first, last + 1):
        lines[row] = " " * shift + lines[row] if shift > 0 else lines[row][-shift:]
    return Broken("\n".join(lines) + "\n", f"line {first + 1} by {shift}")


_NUMBERS = (
    "4",
    "0",
    "-1",
    "1.36",
    "1.30",
    "1e3",
    "0777",
    "0x1F",
    "012",
    "111122223333",
    ".5",
    "1_000",
    "2027-01-31",
    ".inf",
)


def number_for_string(stack: Stack, chance: random.Random) -> Broken | None:
    """A number, or what YAML takes for one, where text belongs."""
    pair = chance.choice(stack.pairs)
    members = members_of(pair.place.annotation)
    if len(members) != 1 or _kind(members[0]) is not str:
        return None
    new = chance.choice(_NUMBERS)
    return Broken(pair.with_value(new), f"{pair.name}: {new}", pair.line)


# Settings that name something else, and names of nothing.
_REFERENCES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"models\.\d+\.pool", ("no-such-pool", "g5-13xl", "cpu")),
    (r"headroom\.model", ("no-such-model", "llama-71b")),
    (r"models\.\d+\.architecture", ("llama-9-70b", "Llama-3.1-8B", "qwen")),
    (r"gpuPools\.\d+\.instanceTypes", ("[g5.13xlarge]", "[p9.48xlarge]", "[m6i.xlarge]")),
    (r"gpuPools\.\d+\.zones", ("[eu-central-1a]", "[us-west-2f]", "[us-east-1f]")),
    (r"network\.zones", ("[eu-central-1a, eu-central-1b]", "[ap-south-1a, ap-south-1b]")),
    (r"gpuPools\.\d+\.name", ("renamed",)),
    (r"cluster\.create\.kubernetesVersion", ('"1.20"', '"1.99"')),
    (r"region", ("eu-central-1",)),
)  # fmt: skip


def unknown_reference(stack: Stack, chance: random.Random) -> Broken | None:
    """A pool, model, zone, instance type, architecture or version that is not there."""
    choices = [
        (pair, new)
        for pair in stack.pairs
        for pattern, news in _REFERENCES
        if re.fullmatch(pattern, ".".join(map(str, pair.path)))
        and not (pair.name == "region" and "network:" not in stack.text)  # nothing there to contradict
        for new in news
    ]
    if not choices:
        return None
    pair, new = chance.choice(choices)
    return Broken(pair.with_value(new), f"{pair.name}: {new}")


def truncate(stack: Stack, chance: random.Random) -> Broken | None:
    """The file ends in the middle; harmless where only keys with defaults are lost."""
    at = chance.randrange(len(stack.text))
    return Broken(stack.text[:at], f"cut at {at}")


def swap_values(stack: Stack, chance: random.Random) -> Broken | None:
    """Two values change places; harmless where they mean the same or both are allowed."""
    one, other = chance.sample([pair for pair in stack.pairs if pair.is_scalar], 2)
    first, second = sorted((one, other), key=lambda pair: int(pair.value.start_mark.index))
    text = first.text
    a, b = int(first.value.start_mark.index), int(second.value.start_mark.index)
    return Broken(
        text[:a] + second.written + text[first.end : b] + first.written + text[second.end :],
        f"{first.name} <-> {second.name}",
    )


def stray_character(stack: Stack, chance: random.Random) -> Broken | None:
    """One character too many, or one that YAML reads as a sign."""
    at = chance.randrange(len(stack.text))
    sign = chance.choice("{}[]:,#&*!|>'\"%@`-?\t\\\n \x00\x85\ufeff")
    skip = chance.randrange(2)
    return Broken(stack.text[:at] + sign + stack.text[at + skip :], f"{sign!r} at {at}")


OPERATORS = (
    Operator("key misspelt", misspell_key, always=True),
    Operator("key removed", remove_key, always=False),
    Operator("wrong type", wrong_type, always=True),
    Operator("out of range", out_of_range, always=True),
    Operator("key duplicated", duplicate, always=True),
    Operator("wrong indent", wrong_indent, always=False, keeps=True),
    Operator("number for string", number_for_string, always=True),
    Operator("unknown reference", unknown_reference, always=True, needs_rules=True),
    Operator("file truncated", truncate, always=False),
    Operator("values swapped", swap_values, always=False),
    Operator("stray character", stray_character, always=False),
)
