"""The words for each kind of mistake. Pydantic's own ("Input should be a valid …") are written for programmers.

A sentence says the value as it was written, what is allowed, and what to do where that is not the same.
"""

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from components.settings.base import FORMS
from components.settings.places import Place, bare, homes_of, keys_of, kinds_of, members_of

_CLOSE: Final = 0.75  # two keys that differ by a typo, and not two words that share letters
_LONGEST: Final = 60  # of a value in a line of a terminal
# Tokens that people paste into the wrong place must not go on into a log.
_TOKEN: Final = re.compile(r"\b(hf_|sk-|ghp_|github_pat_|AKIA|pul-)[A-Za-z0-9_-]{8,}")


@dataclass(frozen=True, slots=True)
class Case:
    """One mistake: pydantic's kind of it, the value and how it was written, and where it stands."""

    kind: str
    given: Any
    text: str
    context: Mapping[str, Any]
    place: Place
    pydantic: str
    root: type[BaseModel]  # what the whole file holds
    top: str = "llm-platform:platform"  # the key below which it stands


def sentence(case: Case) -> str:
    """What is wrong, what is allowed, what to do."""
    if case.place.is_key:
        return f"is not allowed as a name: {_of_kind(case)}"
    if case.given is None and case.kind not in ("missing", "extra_forbidden", "fault", "value_error"):
        return f"is empty; it needs {needed(case.place.annotation)}{_hint(case)}{_or_remove(case)}"
    if case.place.is_union:
        return f"{case.text} is not {needed(case.place.annotation)}"
    return _of_kind(case)


def _of_kind(case: Case) -> str:
    say = _SENTENCES.get(case.kind)
    if say:
        return say(case)
    if case.kind.endswith("_type") or case.kind in _WRONG_KIND:
        return _wrong_type(case)
    return f"{case.text} is refused: {case.pydantic}"  # a test holds that no setting gets here


def _unknown(case: Case) -> str:
    """The key that was meant, the block that has it, or all keys that are allowed there."""
    key, owner = str(case.place.path[-1]), case.place.owner
    known = keys_of(owner) if owner else []
    if close := closest(key, known):
        return f"is not a setting; did you mean {close}?"
    here = tuple(step for step in case.place.path[:-1] if isinstance(step, str))
    homes = sorted(homes_of(key, case.root), key=lambda home: (-_shared(home, here), len(home)))
    if homes:
        return f"is not a setting here; it belongs {_belongs(homes[0], here, case.top)}"
    return f"is not a setting; allowed here: {', '.join(known)}"


def _belongs(home: tuple[str, ...], here: tuple[str, ...], top: str) -> str:
    if not home:
        return f"directly below {top}"
    inner = home[len(here) :] if home[: len(here)] == here else home
    return f"below {'.'.join(inner)}"


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _missing(case: Case) -> str:
    about = _about(case.place)
    return (
        f"is missing; add it: {about}" if about else f"is missing; it needs {needed(case.place.annotation)}"
    )


def _about(place: Place) -> str:
    """What a setting is for: its description, or that of the block."""
    if place.field and place.field.description:
        return place.field.description.rstrip(".")
    models = [member for member in members_of(place.annotation) if _is(member, BaseModel)]
    text = (models[0].__doc__ or "") if len(models) == 1 else ""
    return text.partition("\n")[0].rstrip(".")


def _fault(case: Case) -> str:
    return str(case.context["sentence"])


def _value_error(case: Case) -> str:
    return str(case.context.get("error", case.pydantic)).removeprefix("Value error, ")


def _pattern(case: Case) -> str:
    form = FORMS.get(case.context["pattern"])
    return f"{case.text} is not {form}" if form else f"{case.text} does not match {case.context['pattern']}"


def _choice(case: Case) -> str:
    allowed = choices(case.place.annotation)
    close = closest(case.given, allowed) if isinstance(case.given, str) else None
    return f"{case.text} is not one of {', '.join(allowed)}" + (f"; did you mean {close}?" if close else "")


def _kind_of_union(case: Case) -> str:
    allowed = kinds_of(members_of(case.place.annotation))
    if case.kind == "union_tag_not_found":
        return f"is missing; it says which of {', '.join(allowed)} the block is"
    given = case.context["tag"]
    close = closest(str(given), allowed)
    return f"{shown(given)} is not one of {', '.join(allowed)}" + (
        f"; did you mean {close}?" if close else ""
    )


def _too_short(case: Case) -> str:
    least = case.context["min_length"]
    count = len(case.given) if isinstance(case.given, list) else 0
    return f"{'is an empty list' if not count else f'has {_count(count)}'}; at least {least} must be given"


def _too_long(case: Case) -> str:
    return f"has {_count(len(case.given))}; at most {case.context['max_length']} are allowed"


def _wrong_type(case: Case) -> str:
    """A value of another kind than the setting's."""
    return f"{case.text} is not {needed(case.place.annotation)}{_hint(case)}"


def _hint(case: Case) -> str:
    members = members_of(case.place.annotation)
    wanted, given = (members[0] if members else None), case.given
    if wanted is str and isinstance(given, (bool, int, float)):
        return f'; write it in quotes: "{case.text}"'
    if wanted in (int, float, bool) and isinstance(given, str) and _reads_as(given, wanted):
        return f"; write {given} without quotes"
    if get_origin(wanted) in (tuple, list) and isinstance(given, (str, int, float)):
        return f"; for one item write [{given if isinstance(given, str) else case.text}]"
    if wanted is not None and _is(wanted, BaseModel):
        return f"; it has the keys {', '.join(keys_of(wanted))}"
    return ""


def _reads_as(text: str, wanted: type) -> bool:
    if wanted is bool:
        return text in ("true", "false")
    return re.fullmatch(r"-?\d+" if wanted is int else r"-?\d+(\.\d+)?", text) is not None


def _or_remove(case: Case) -> str:
    field = case.place.field
    has_default = case.place.is_own and field is not None and not field.is_required()
    return "; or remove the key for the default" if has_default else ""


_WRONG_KIND: Final = (
    "int_from_float",
    "int_parsing",
    "int_parsing_size",
    "float_parsing",
    "finite_number",
    "date_parsing",
)

_SENTENCES: Final[dict[str, Callable[[Case], str]]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "fault": _fault,
    "value_error": _value_error,
    "string_pattern_mismatch": _pattern,
    "string_too_short": lambda c: 'is empty (""); write some text' if not c.given else f"{c.text} is too short; at least {c.context['min_length']} characters are needed",
    "string_too_long": lambda c: f"{c.text} has {len(c.given)} characters; at most {c.context['max_length']} are allowed",
    "enum": _choice,
    "literal_error": _choice,
    "union_tag_invalid": _kind_of_union,
    "union_tag_not_found": _kind_of_union,
    "kind_misspelt": lambda _: "is not a setting; did you mean kind?",
    "too_short": _too_short,
    "too_long": _too_long,
    "greater_than_equal": lambda c: f"{c.text} is below {number(c.context['ge'])}, the least allowed",
    "greater_than": lambda c: f"{c.text} is too small; it must be above {number(c.context['gt'])}",
    "less_than_equal": lambda c: f"{c.text} is above {number(c.context['le'])}, the most allowed",
    "less_than": lambda c: f"{c.text} is too large; it must be below {number(c.context['lt'])}",
}  # fmt: skip


def needed(annotation: Any) -> str:
    """What a setting takes, in words."""
    words = dict.fromkeys(_needed_one(member) for member in members_of(annotation))
    return (
        ", ".join(list(words)[:-1]) + " or " * (len(words) > 1) + list(words)[-1]
        if words
        else "another value"
    )


def _needed_one(member: Any) -> str:
    if get_origin(member) is Literal or _is(member, Enum):
        return f"one of {', '.join(choices(member))}"
    if get_origin(member) in (tuple, list):
        return "a list"
    if get_origin(member) is dict or _is(member, BaseModel):
        return "a mapping"
    return _PLAIN.get(member, "another value")


_PLAIN: Final[dict[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    date: 'a date in quotes like "2027-01-31"',
}


def choices(annotation: Any) -> tuple[str, ...]:
    """Values that an enumeration or literal allows."""
    found: list[str] = []
    for member in members_of(bare(annotation)):
        if _is(member, Enum):
            found += [str(value.value) for value in member]
        elif get_origin(member) is Literal:
            found += [str(value) for value in get_args(member)]
    return tuple(found) or kinds_of(members_of(annotation))


def nearest(key: str, known: Iterable[str]) -> str:
    """The known key that was probably meant, or all of them."""
    keys = list(known)
    close = closest(key, keys)
    return f"; did you mean {close}?" if close else f"; allowed: {', '.join(keys)}"


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known word that looks like a given one, in whatever case and with `_` or `-` between the parts."""
    by_plain = {re.sub(r"[-_ ]", "", word).lower(): word for word in known}
    close = difflib.get_close_matches(re.sub(r"[-_ ]", "", given).lower(), by_plain, n=1, cutoff=_CLOSE)
    return by_plain[close[0]] if close else None


def shown(value: Any) -> str:
    """The value on one line as JSON writes it, cut when it is long, and without what looks like a token."""
    if value is None:
        return "nothing"
    text = _TOKEN.sub(r"\1…", json.dumps(value, ensure_ascii=False, default=str))
    text = text if text.isprintable() else _TOKEN.sub(r"\1…", json.dumps(value, default=str))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}…"


def shown_words(value: Any) -> str:
    """The kind of a value in words."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), f"the number {value}")


def number(value: float) -> str:
    """A limit as people write it: 1, not 1.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _count(items: int) -> str:
    return f"{items} item{'s' if items != 1 else ''}"


def _is(annotation: Any, kind: type) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, kind)
