"""YAML and JSON as plain values with the line of every one of them, read once and safely.

Built from parser events rather than by `yaml.load`: that is faster, keeps lines and repeated keys, and cannot be brought
down by nesting (libyaml's own composer overflows the C stack) or by aliases that multiply.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from guardrails.core import Path

LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH: Final = 200
MAX_ALIASED: Final = 50_000  # values that aliases stand for, in one document


class UnreadableError(ValueError):
    """The text cannot be read; `line` says where."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class Mark:
    """Where a value stands: its line, and what is in it. `text` is kept for block scalars, which may hold YAML."""

    line: int
    children: "dict[str, Mark] | list[Mark] | None" = None
    text: str | None = None
    size: int = 1


@dataclass(slots=True)
class Document:
    """One document of a file."""

    value: Any
    mark: Mark
    repeated: list[tuple[str, int, int]] = field(default_factory=list)  # key, its line, line of the first

    def line_of(self, path: Path) -> int | None:
        """Line of the deepest part of a path that is there, also inside YAML that a block scalar holds."""
        mark = self.mark
        for index, step in enumerate(path):
            if mark.text is not None:
                return _inner_line(mark, path[index:])
            found = _child(mark, step)
            if found is None:
                return mark.line
            mark = found
        return mark.line


def _child(mark: Mark, step: str | int) -> Mark | None:
    children = mark.children
    if isinstance(children, dict):
        return children.get(str(step))
    if isinstance(children, list) and isinstance(step, int) and 0 <= step < len(children):
        return children[step]
    return None


def _inner_line(mark: Mark, path: Path) -> int:
    """Line of a path inside the text of a block scalar: it starts on the line after its indicator."""
    try:
        inner = next(read_yaml(mark.text or ""), None)
    except UnreadableError:
        return mark.line
    line = inner.line_of(path) if inner else None
    return mark.line + line if line else mark.line


def read_yaml(text: str) -> Iterator[Document]:
    """The documents of a YAML text, one after the other.

    Raises:
        UnreadableError: after the documents that could be read before it.
    """
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=LOADER):
            done = builder.take(event)
            if done is not None:
                yield done
    except yaml.YAMLError as error:
        raise _unreadable(error) from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None


def yaml_value(text: str) -> Any:
    """The value of the first document of a YAML text that an object holds; None where it is empty.

    Raises:
        UnreadableError: it is not YAML; the line is that of the text.
    """
    document = next(read_yaml(text), None)
    return document.value if document else None


def inner_mapping(text: str) -> dict[str, Any]:
    """A mapping that an object holds as JSON or YAML; empty where it is anything else."""
    try:
        value = read_json(text).value if text.lstrip().startswith("{") else yaml_value(text)
    except UnreadableError:
        return {}
    return value if isinstance(value, dict) else {}


def _unreadable(error: yaml.YAMLError) -> UnreadableError:
    mark = getattr(error, "problem_mark", None)
    what = (
        getattr(error, "problem", None) or str(getattr(error, "reason", "")) or str(error).partition("\n")[0]
    )
    if "cannot start any token" in what:
        what += " (a tab where spaces belong?)"
    return UnreadableError(f"is not YAML: {what}", mark.line + 1 if mark else None)


class _Frame:
    """A container that is being read."""

    __slots__ = ("anchor", "is_map", "key", "key_line", "mark", "merges", "value")

    def __init__(self, is_map: bool, line: int, anchor: str | None) -> None:  # noqa: FBT001 - made in one place
        self.is_map = is_map
        self.value: Any = {} if is_map else []
        self.mark = Mark(line, {} if is_map else [])
        self.anchor = anchor
        self.key: str | None = None
        self.key_line = line
        self.merges: list[tuple[Any, Mark]] = []


class _Builder:
    """Values and marks out of events."""

    def __init__(self) -> None:
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, Mark]] = {}
        self.repeated: list[tuple[str, int, int]] = []
        self.root: tuple[Any, Mark] | None = None
        self.aliased = 0

    def take(self, event: Any) -> Document | None:
        """One event; a document when it ends one."""
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            self._close()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.anchors, self.repeated, self.root, self.aliased = {}, [], None, 0
        elif isinstance(event, yaml.DocumentEndEvent):
            value, mark = self.root or (None, Mark(1))
            return Document(value, mark, self.repeated)
        return None

    def _scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        block = event.style == "|"
        value = event.value if event.style or event.tag not in (None, "!") else resolve(event.value)
        self._add(value, Mark(line, text=event.value if block else None), line, event.anchor)

    def _open(self, event: Any) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise UnreadableError(f"is nested deeper than {MAX_DEPTH} levels", event.start_mark.line + 1)
        self.stack.append(
            _Frame(isinstance(event, yaml.MappingStartEvent), event.start_mark.line + 1, event.anchor)
        )

    def _close(self) -> None:
        frame = self.stack.pop()
        children: Any = frame.mark.children
        for value, mark in frame.merges:
            for key, item in value.items():
                if key not in frame.value and isinstance(mark.children, dict):
                    frame.value[key] = item
                    children[key] = mark.children[key]
        self._add(frame.value, frame.mark, frame.mark.line, frame.anchor)

    def _alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        found = self.anchors.get(event.anchor)
        if found is None:  # not defined, or inside of itself
            raise UnreadableError(f"is not YAML: the alias *{event.anchor} has no value yet", line)
        self.aliased += found[1].size
        if self.aliased > MAX_ALIASED:
            raise UnreadableError("repeats itself through aliases too often", line)
        self._add(*found, line, None)

    def _add(self, value: Any, mark: Mark, line: int, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = (value, mark)
        if not self.stack:
            self.root = (value, mark)
            return
        frame = self.stack[-1]
        frame.mark.size += mark.size
        if not frame.is_map:
            frame.value.append(value)
            frame.mark.children.append(mark)  # type: ignore[union-attr]
        elif frame.key is None:
            frame.key, frame.key_line = _key(value), line
        else:
            self._entry(frame, value, mark)

    def _entry(self, frame: _Frame, value: Any, mark: Mark) -> None:
        key = frame.key or ""
        frame.key = None
        if key == "<<":
            merged = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
            marks = (
                [mark]
                if isinstance(value, dict)
                else mark.children
                if isinstance(mark.children, list)
                else []
            )
            frame.merges += [
                (item, own) for item, own in zip(merged, marks, strict=False) if isinstance(item, dict)
            ]
            return
        children: Any = frame.mark.children
        if key in frame.value:
            self.repeated.append((key, frame.key_line, children[key].line))
        frame.value[key] = value
        # The line of an entry is that of its key; what is in it keeps its own.
        children[key] = (
            mark if mark.line == frame.key_line else Mark(frame.key_line, mark.children, mark.text, mark.size)
        )


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_BASED: Final = re.compile(r"0x[0-9a-fA-F]{1,30}|0o?[0-7]{1,30}|0b[01]{1,60}")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?")


def resolve(text: str) -> Any:
    """What an unquoted scalar stands for, as Kubernetes' YAML reads it. Dates and base-60 numbers stay text."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first not in "-+.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if first == "0" and _BASED.fullmatch(text):
        bases = {"x": 16, "b": 2, "o": 8}
        return int(text[2:], bases[text[1]]) if text[1] in bases else int(text, 8)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if number not in (float("inf"), float("-inf")) else text
    return text


def read_json(text: str) -> Document:
    """The value of a JSON text. Lines are found on demand, since most files have no finding.

    Raises:
        UnreadableError: it is not JSON.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UnreadableError(
            f"is not JSON: {getattr(error, 'msg', error)}", getattr(error, "lineno", None)
        ) from None
    except RecursionError:
        raise UnreadableError("is nested too deeply") from None
    if _is_deep(value):
        raise UnreadableError("is nested too deeply")
    return _JsonDocument(value, text)


def _is_deep(value: Any) -> bool:
    """Whether a value is nested deeper than YAML may be."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


class _JsonDocument(Document):
    """JSON is YAML but for tabs between its tokens, which strings cannot hold."""

    __slots__ = ("_marked", "_text")

    def __init__(self, value: Any, text: str) -> None:
        super().__init__(value, Mark(1))
        self._text = text
        self._marked: Document | None = None

    def line_of(self, path: Path) -> int | None:
        """As for YAML."""
        if self._marked is None:
            try:
                self._marked = next(read_yaml(self._text.replace("\t", " ")), None) or Document(None, Mark(1))
            except UnreadableError:
                self._marked = Document(None, Mark(1))
        return self._marked.line_of(path)
