"""A stack file as text with the span and the meaning of each key and value, so that it can be broken in one place."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from components.settings.places import Place, members_of, place_of
from components.settings.platform import PlatformSettings
from components.settings.stack_file import PLATFORM_KEY

ROOT = Path(__file__).resolve().parents[2]
_PLATFORM = ("config", PLATFORM_KEY)

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """One key with its value, where they stand in the text, and what the settings say about them."""

    path: Path_  # below llm-platform:platform
    place: Place
    text: str
    key: yaml.Node
    value: yaml.Node
    next_start: int | None  # where the next key of the same mapping begins
    previous_end: int | None
    in_flow: bool

    @property
    def line(self) -> int:
        """Line of the key, from 1."""
        return int(self.key.start_mark.line) + 1

    @property
    def end(self) -> int:
        """Where the value ends, without the blank lines and comments that a block takes along."""
        start, end = int(self.value.start_mark.index), int(self.value.end_mark.index)
        lines = self.text[start:end].splitlines(keepends=True)
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
            end -= len(lines.pop())
        return start + len(self.text[start:end].rstrip())

    @property
    def name(self) -> str:
        """The key."""
        return str(self.key.value)

    @property
    def is_setting(self) -> bool:
        """It is a field of a model, and not a free name of a mapping such as tags."""
        return self.place.owner is not None

    @property
    def is_scalar(self) -> bool:
        """The value is one word."""
        return isinstance(self.value, yaml.ScalarNode)

    @property
    def written(self) -> str:
        """The value as it stands in the text."""
        return self.text[self.value.start_mark.index : self.end]

    def with_value(self, new: str) -> str:
        """The text with another value; a block is replaced by it on the key's own line."""
        start = int(self.key.end_mark.index)
        return f"{self.text[:start]}: {new}{self.text[max(self.end, start + 1) :]}"

    def with_key(self, new: str) -> str:
        """The text with another key."""
        return self.text[: self.key.start_mark.index] + new + self.text[self.key.end_mark.index :]


@dataclass(frozen=True)
class Stack:
    """One stack file."""

    name: str
    text: str
    values: dict[str, Any] = field(repr=False)

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every key with its value below the platform."""
        root = yaml.compose(self.text, Loader=yaml.SafeLoader)
        return tuple(self._pairs(root, ())) if root else ()

    def _pairs(self, node: yaml.Node, path: Path_) -> Iterator[Pair]:
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                yield from self._pairs(item, (*path, index))
        if not isinstance(node, yaml.MappingNode):
            return
        previous: int | None = None
        for index, (key, value) in enumerate(node.value):
            here = (*path, key.value)
            if here[:2] == _PLATFORM and len(here) > len(_PLATFORM):
                following = node.value[index + 1][0].start_mark.index if index + 1 < len(node.value) else None
                below = here[len(_PLATFORM) :]
                pair = Pair(
                    below,
                    self._place(below),
                    self.text,
                    key,
                    value,
                    following,
                    previous,
                    bool(node.flow_style),
                )
                yield pair
                previous = pair.end
            yield from self._pairs(value, here)

    def _place(self, path: Path_) -> Place:
        """The place of a path, with the steps that pydantic adds for the member of a union."""
        location: list[str | int] = []
        value: Any = self.values["config"][PLATFORM_KEY]
        for step in path:
            members = members_of(place_of(PlatformSettings, tuple(location)).annotation)
            if len(members) > 1 and isinstance(value, dict) and "kind" in value:
                location.append(value["kind"])
            location.append(step)
            value = value[step]
        return place_of(PlatformSettings, tuple(location))


def stacks() -> list[Stack]:
    """The stack files of this repository."""
    found = []
    for path in sorted(ROOT.glob("Pulumi.*.yaml")):
        text = path.read_text(encoding="utf-8")
        found.append(Stack(path.name, text, yaml.safe_load(text)))
    return found
