"""Named ways to spoil a manifest: its values, and its text."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import yaml

Tree = list[dict[str, Any]]

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1e308, 10**30, "", " ", "\n", "latest", "NaN", "16Gi", "-5", "1e400", "🦙", "a" * 5000,
    [], {}, [None], [[]], [{}], {"": ""}, {"$unknown": True}, {"$secret": True}, {"nested": {"nested": []}}, [1, "a", None],
    "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "{{ .Values.x }}", "$(VARIABLE)", "2026-11-30", 1.5, "[" * 50_000, "{a: " * 50_000, '{"a": ' * 50_000,
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *missing]", "applications: [{deployments: 1}]", "((((((sum(", "--tensor-parallel-size",
)  # fmt: skip


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every value but the root."""
    found: list[tuple[Any, ...]] = [path] if path else []
    if isinstance(tree, dict):
        for key, item in tree.items():
            found += places(item, (*path, key))
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            found += places(item, (*path, index))
    return found


def parent_of(tree: Any, path: tuple[Any, ...]) -> Any:
    """The container that holds a place."""
    for step in path[:-1]:
        tree = tree[step]
    return tree


def spoil_values(chance: random.Random, tree: Tree, change: Callable[[random.Random, Any, Any], None]) -> str:
    """Change some values of a tree, and write it."""
    spoilt = copy.deepcopy(tree)
    for _ in range(chance.randint(1, 4)):
        spots = places(spoilt)
        if spots:
            spot = chance.choice(spots)
            change(chance, parent_of(spoilt, spot), spot[-1])
    return yaml.safe_dump_all(spoilt, sort_keys=False, allow_unicode=True)


def odd_value(chance: random.Random, parent: Any, key: Any) -> None:
    parent[key] = copy.deepcopy(chance.choice(ODD_VALUES))


def removed(_chance: random.Random, parent: Any, key: Any) -> None:
    del parent[key]


def wrapped(chance: random.Random, parent: Any, key: Any) -> None:
    parent[key] = [parent[key]] if chance.random() < 0.5 else {"value": parent[key]}


def as_text(_chance: random.Random, parent: Any, key: Any) -> None:
    parent[key] = str(parent[key])


def repeated(_chance: random.Random, parent: Any, key: Any) -> None:
    if isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    else:
        parent[f"{key}x"] = copy.deepcopy(parent[key])


def swapped(chance: random.Random, parent: Any, key: Any) -> None:
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    other = chance.choice(keys)
    parent[key], parent[other] = parent[other], parent[key]


VALUE_OPERATORS: dict[str, Callable[[random.Random, Any, Any], None]] = {
    "odd value": odd_value,
    "removed": removed,
    "wrapped": wrapped,
    "as text": as_text,
    "repeated": repeated,
    "swapped": swapped,
}


# ---------------------------------------------------------------------- text


def _cut(chance: random.Random, text: str) -> bytes:
    return text[: chance.randrange(len(text) + 1)].encode()


def _bytes(chance: random.Random, text: str) -> bytes:
    content = bytearray(text.encode())
    for _ in range(chance.randint(1, 20)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def _tabs(chance: random.Random, text: str) -> bytes:
    return text.replace("  ", "\t", chance.randint(1, 5)).encode()


def _crlf(_chance: random.Random, text: str) -> bytes:
    return text.replace("\n", "\r\n").encode("utf-8-sig")


def _indent(chance: random.Random, text: str) -> bytes:
    lines = text.split("\n")
    for _ in range(chance.randint(1, 3)):
        index = chance.randrange(len(lines))
        lines[index] = " " * chance.randint(0, 6) + lines[index].lstrip()
    return "\n".join(lines).encode()


def _lines_twice(chance: random.Random, text: str) -> bytes:
    lines = text.split("\n")
    index = chance.randrange(len(lines))
    lines.insert(index, lines[index])
    return "\n".join(lines).encode()


def _lines_moved(chance: random.Random, text: str) -> bytes:
    lines = text.split("\n")
    chance.shuffle(lines)
    return "\n".join(lines).encode()


def _anchors(chance: random.Random, text: str) -> bytes:
    levels = chance.randint(2, 30)
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 8)}]\n" for i in range(1, levels)
    )
    return (f"{text}\n---\n{bomb}").encode()


def _nested(chance: random.Random, text: str) -> bytes:
    depth = chance.choice((10, 100, 1000, 20000))
    return (text + "\n---\n" + chance.choice(("[", "{a: ", "- ")) * depth).encode()


def _deep_json(chance: random.Random, _text: str) -> bytes:
    depth = chance.choice((150, 400, 900, 20000))
    opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
    return (opening * depth + "1" + closing * depth * chance.randint(0, 1)).encode()


def _template(chance: random.Random, text: str) -> bytes:
    lines = text.split("\n")
    lines.insert(
        chance.randrange(len(lines)),
        chance.choice(("{{- if .Values.gpu }}", '  {{ include "x" . | nindent 4 }}', "image: {{ .image }}")),
    )
    return "\n".join(lines).encode()


def _encoding(chance: random.Random, text: str) -> bytes:
    return text.encode(chance.choice(("utf-16", "latin-1", "utf-7")), errors="replace")


def _json(chance: random.Random, text: str) -> bytes:
    import json  # noqa: PLC0415

    items = [item for item in yaml.safe_load_all(text) if item is not None]
    written = json.dumps(
        {"apiVersion": "v1", "kind": "List", "items": items},
        default=str,
        indent=chance.choice((None, 1, "\t")),
    )
    return (written if chance.random() < 0.7 else written[: chance.randrange(len(written))]).encode()


TEXT_OPERATORS: dict[str, Callable[[random.Random, str], bytes]] = {
    "cut short": _cut,
    "random bytes": _bytes,
    "tabs": _tabs,
    "CRLF and BOM": _crlf,
    "wrong indent": _indent,
    "line twice": _lines_twice,
    "lines shuffled": _lines_moved,
    "anchors": _anchors,
    "deep nesting": _nested,
    "template": _template,
    "encoding": _encoding,
    "JSON list": _json,
    "deep JSON": _deep_json,
}
