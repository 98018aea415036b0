"""YAML text to plain values, with the line of each. Reads what Pulumi's engine would read, or says what is in the way.

`yaml.safe_load` does not: it drops lines, takes the last of two equal keys in silence, reads words by YAML 1.1, and its
C core ends the process on 100,000 open brackets. So values are built here from the parser's events, with limits.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import yaml

from components.settings.yaml_scalars import resolve
from components.settings.yaml_words import in_words

Path = tuple[str | int, ...]

MAX_BYTES: Final = 512 * 1024  # a hundred models take about 70 KiB
_MAX_DEPTH: Final = 64  # settings are nested nine deep
_MAX_VALUES: Final = 50_000  # an alias bomb must not take the memory of a runner
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT_TAG: Final = "tag:yaml.org,2002:str"


class Unreadable(Exception):  # noqa: N818 - it is a sentence for the user, not an accident
    """The text cannot be read any further."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong at a path that does not keep the rest from being read."""

    line: int
    path: Path
    message: str
    hides_below: bool = False  # what is said about the value itself would only confuse


@dataclass(slots=True)
class Document:
    """Plain values (JSON's kinds only) with the line of each path and the text of what was written without quotes."""

    values: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _Node:
    kind: Literal["scalar", "list", "mapping"]
    line: int
    text: str = ""
    quoted: bool = False
    children: list["_Node"] = field(default_factory=list)  # of a mapping: key, value, key, value …

    @property
    def pairs(self) -> Iterator[tuple["_Node", "_Node"]]:
        """Keys and values of a mapping."""
        return zip(self.children[::2], self.children[1::2], strict=True)


def read_yaml(text: str) -> Document:
    """Values and lines of a YAML text.

    Raises:
        Unreadable: with the line from which on nothing can be said.
    """
    try:
        root = _compose(text)
    except yaml.YAMLError as error:
        raise Unreadable(*in_words(error, text)) from None
    document = Document()
    document.lines[()] = 1
    if root is not None:
        document.values = _Builder(document).value(root, (), 0)
    return document


def _compose(text: str) -> _Node | None:
    """The tree of nodes of a text; an alias is the same node again."""
    tree = _Tree()
    for event in yaml.parse(text, Loader=_LOADER):
        tree.add(event, event.start_mark.line + 1 if event.start_mark else 1)
    return tree.root


class _Tree:
    """Puts nodes together from the parser's events, without recursion."""

    def __init__(self) -> None:
        self.root: _Node | None = None
        self._open: list[_Node] = []
        self._anchors: dict[str, _Node] = {}
        self._documents = 0
        self._nodes = 0

    def add(self, event: yaml.Event, line: int) -> None:
        """Take one more event, which starts on a line."""
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            self._refuse_document(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, yaml.AliasEvent):
            self._append(self._marked(event, line))
        elif isinstance(event, yaml.NodeEvent):
            node = _node(event, line)
            self._append(node)
            if event.anchor:
                self._anchors[event.anchor] = node
            if node.kind != "scalar":
                self._open.append(node)
            self._refuse_excess(line)

    def _append(self, node: _Node) -> None:
        if self._open:
            self._open[-1].children.append(node)
        self.root = self.root or node

    def _refuse_document(self, event: yaml.DocumentStartEvent, line: int) -> None:
        if self._documents > 1:
            raise Unreadable(
                line, "a second YAML document starts here (---); Pulumi reads only the first, so keep one"
            )
        if event.version or event.tags:
            raise Unreadable(line, "has a % directive; remove it, a stack file needs none")

    def _refuse_excess(self, line: int) -> None:
        self._nodes += 1
        if self._nodes > _MAX_VALUES:
            raise Unreadable(
                line, f"is the value number {self._nodes:,}; a stack of a hundred models has about 6,000"
            )
        if len(self._open) > _MAX_DEPTH:
            raise Unreadable(line, f"is nested more than {_MAX_DEPTH} deep; no setting is")

    def _marked(self, event: yaml.AliasEvent, line: int) -> _Node:
        """The node that an alias repeats."""
        name = event.anchor or ""
        node = self._anchors.get(name)
        if node is None:
            message = f"*{name} repeats what &{name} marks, and nothing above is marked so; text that starts with * needs quotes"
            raise Unreadable(line, message)
        if node in self._open:
            message = (
                f"*{name} stands inside what &{name} marks and would contain itself; write the value out"
            )
            raise Unreadable(line, message)
        return node


def _node(event: yaml.NodeEvent, line: int) -> _Node:
    tag = getattr(event, "tag", None)
    if tag is not None and tag != _TEXT_TAG:
        shown = tag.replace("tag:yaml.org,2002:", "!!")
        raise Unreadable(
            line, f"the tag {shown} says how to read a value; remove it, and write text in quotes"
        )
    if isinstance(event, yaml.ScalarEvent):
        return _Node("scalar", line, event.value, quoted=event.style not in (None, "") or tag == _TEXT_TAG)
    return _Node("list" if isinstance(event, yaml.SequenceStartEvent) else "mapping", line)


class _Builder:
    """Turns nodes into values and notes lines, texts and flaws."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._visited = 0

    def value(self, node: _Node, path: Path, depth: int) -> Any:
        """The value of a node at a path."""
        self._count(node, depth)
        if node.kind == "scalar":
            return self._scalar(node, path)
        if node.kind == "list":
            for index, item in enumerate(node.children):
                self._document.lines[(*path, index)] = item.line
            return [self.value(item, (*path, index), depth + 1) for index, item in enumerate(node.children)]
        found = self._pairs(node, path, depth)
        for name, (key, _) in found.items():
            self._document.lines[(*path, name)] = key.line
        return {name: self.value(value, (*path, name), depth + 1) for name, (_, value) in found.items()}

    def _scalar(self, node: _Node, path: Path) -> Any:
        if node.quoted:
            return node.text
        value, flaw = resolve(node.text)
        if flaw:
            self._flaw(node, path, flaw, hides_below=True)
        if not isinstance(value, str):
            self._document.texts[path] = node.text
        return value

    def _pairs(self, node: _Node, path: Path, depth: int) -> dict[str, tuple[_Node, _Node]]:
        """Keys with their values; `<<` lends those that the mapping has not itself."""
        self._count(node, depth)
        found: dict[str, tuple[_Node, _Node]] = {}
        lent: list[_Node] = []
        seen: dict[str, int] = {}
        for key, value in node.pairs:
            name = self._key(key, path)
            if name in seen:
                message = f"is written twice (first on line {seen[name]}); keep one"
                self._document.flaws.append(Flaw(key.line, (*path, name), message))
                continue
            seen[name] = key.line
            if name == "<<":
                lent += self._lenders(value, path)
            else:
                found[name] = (key, value)
        for lender in lent:
            for name, pair in self._pairs(lender, path, depth + 1).items():
                found.setdefault(name, pair)
        return found

    def _lenders(self, value: _Node, path: Path) -> list[_Node]:
        lenders = value.children if value.kind == "list" else [value]
        if any(lender.kind != "mapping" for lender in lenders):
            self._flaw(
                value,
                (*path, "<<"),
                "takes over the keys of a mapping or of a list of mappings, and this is neither",
            )
            return []
        return lenders

    def _key(self, key: _Node, path: Path) -> str:
        if key.kind != "scalar":
            raise Unreadable(
                key.line, f"a {key.kind} stands where the name of a setting is expected; write `name: value`"
            )
        if key.quoted:
            return key.text
        value, flaw = resolve(key.text)
        if flaw or not isinstance(value, str):
            shown = key.text or '""'
            self._flaw(
                key,
                (*path, key.text),
                f'is not text as a name; write it in quotes: "{shown}"'
                if key.text
                else "has no name before the colon",
            )
        return key.text

    def _flaw(self, node: _Node, path: Path, message: str, *, hides_below: bool = False) -> None:
        line = self._document.lines.get(path, node.line)
        self._document.flaws.append(Flaw(line, path, message, hides_below))

    def _count(self, node: _Node, depth: int) -> None:
        """Hold the limits again: aliases repeat whole blocks, and blocks of blocks."""
        self._visited += 1
        if self._visited > _MAX_VALUES:
            raise Unreadable(
                node.line,
                f"aliases (*name) repeat it until the file has more than {_MAX_VALUES:,} values; write it out",
            )
        if depth > _MAX_DEPTH:
            raise Unreadable(node.line, f"aliases (*name) nest it more than {_MAX_DEPTH} deep; no setting is")
