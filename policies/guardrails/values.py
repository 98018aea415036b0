"""Reading trees of plain values safely: absent, unknown, secret and misshapen leaves never raise.

A preview does not know computed values. They arrive as the mapping ``{"$unknown": true}`` (secrets as
``{"$secret": true}``) or as one of the engine's sentinel strings, and become `UNKNOWN` and `SECRET` here: values that
are there, and are neither text nor number nor container. So a rule never takes an unknown value for a missing one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from components.quantities import quantity_or_none
from guardrails.core import Path


class Hidden:
    """A value that is there but cannot be read."""

    __slots__ = ("word",)

    def __init__(self, word: str) -> None:
        self.word = word

    def __repr__(self) -> str:
        return self.word


UNKNOWN: Final = Hidden("<unknown>")
SECRET: Final = Hidden("<secret>")

# What the engine puts in place of values that are not known yet (pulumi_policy/proxy.py).
SENTINELS: Final = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7", "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58", "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)  # fmt: skip


def plain(value: object) -> object:
    """Mappings and sequences of any class as dict and list, hidden leaves as `UNKNOWN` or `SECRET`."""
    if isinstance(value, str):
        return UNKNOWN if len(value) == 36 and value in SENTINELS else value  # noqa: PLR2004 - length of a UUID
    if isinstance(value, Mapping):
        if len(value) == 1:
            if value.get("$unknown") is True:
                return UNKNOWN
            if value.get("$secret") is True:
                return SECRET
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def get(tree: object, *path: str | int) -> object:
    """The value at a path: None where a step is missing, the hidden value where one is not known."""
    for step in path:
        if isinstance(tree, Hidden):
            return tree
        if isinstance(tree, dict):
            tree = tree.get(step)
        elif isinstance(tree, list) and isinstance(step, int) and -len(tree) <= step < len(tree):
            tree = tree[step]
        else:
            return None
    return tree


def mapping(value: object) -> dict[str, object]:
    """The mapping, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def mappings(value: object) -> list[tuple[int, dict[str, object]]]:
    """The mappings in a list, each with its index; anything else in it is passed over."""
    return [(index, item) for index, item in enumerate(items(value)) if isinstance(item, dict)]


def text(value: object) -> str | None:
    """The text, and None for anything else. Numbers and booleans count: YAML reads an unquoted version as one."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(int(value)) if value == int(value) else str(value)
    return None


def texts(value: object) -> list[str]:
    """The texts in a list; one text alone counts as a list of one."""
    if isinstance(value, str):
        return [value]
    return [found for item in items(value) if (found := text(item)) is not None]


def number(value: object) -> float | None:
    """The number of a quantity, or None."""
    return quantity_or_none(value)


def whole(value: object) -> int | None:
    """The integer (4, 4.0 and "4" are), or None."""
    found = quantity_or_none(value)
    return int(found) if found is not None and found == int(found) else None


def flag(value: object) -> bool | None:
    """The boolean, also written as text, or None."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return None


def is_hidden(value: object) -> bool:
    """Whether a value is there but cannot be read."""
    return isinstance(value, Hidden)


def leaves(tree: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every leaf with its path, hidden ones too."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, (*path, key))
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from leaves(item, (*path, index))
    else:
        yield path, tree


def listed(words: Sequence[str], conjunction: str = "and") -> str:
    """Words as a list in a sentence: "a, b and c"."""
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def text_map(value: object) -> dict[str, str]:
    """A mapping of names to texts, such as labels or annotations."""
    return {key: text(item) or "" for key, item in mapping(value).items()}
