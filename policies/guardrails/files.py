"""Files and folders as what the rules take: objects with their places, stacks, and what could not be read."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from components.conventions import PROJECT
from guardrails.core import Finding, Override, Severity, Waiver
from guardrails.objects import Source
from guardrails.reading import Document, UnreadableError, read_json, read_yaml
from guardrails.run import governance
from guardrails.stack import StackFacts, from_settings

SUFFIXES: Final = (".yaml", ".yml", ".json")
PASSED_OVER: Final = frozenset({"node_modules", "__pycache__", "site-packages", "venv"})
# Files that many tools write, none of which holds objects; some are megabytes long.
NO_OBJECTS: Final = frozenset(
    {
        "package.json",
        "package-lock.json",
        "tsconfig.json",
        "Chart.yaml",
        "values.yaml",
        "Pulumi.yaml",
        "composer.lock",
    }
)
_TEMPLATE: Final = re.compile(
    r"\{\{-?\s*[\w.$(\"`/-]|^%\{~?\s*(?:for|if|else)\b", re.MULTILINE
)  # Go's and Terraform's
STDIN: Final = "-"

DUPLICATE_RULE: Final = "duplicate-key"
PLATFORM_KEY: Final = f"{PROJECT}:platform"


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


@dataclass(slots=True)
class Input:
    """What one file holds."""

    file: str
    group: tuple[str, ...] = ()  # folders between the path that was asked for and the file
    sources: list[Source] = field(default_factory=list)
    stacks: list[StackFacts] = field(default_factory=list)
    overrides: tuple[Override, ...] = ()
    waivers: tuple[Waiver, ...] = ()
    environment: str | None = None
    findings: list[Finding] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find(paths: Iterable[str]) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Files below paths: the file, how to name it, and its folders below the path that was given."""
    for given in paths:
        root = Path(given)
        if not root.is_dir():
            yield root, given, ()
            continue
        for path in sorted(_walk(root)):
            yield path, str(path), path.relative_to(root).parts[:-1]


def _walk(folder: Path) -> Iterator[Path]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in PASSED_OVER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        elif (entry.suffix in SUFFIXES and entry.name not in NO_OBJECTS) or _is_requirements(entry):
            yield entry


def _is_requirements(path: Path) -> bool:
    """requirements.txt beside a Pulumi program; others are not about a stack."""
    return path.name == "requirements.txt" and (path.parent / "Pulumi.yaml").exists()


def read(path: Path, name: str, group: tuple[str, ...] = ()) -> Input:
    """One file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        return Input(name, group, unread=[Unread(name, None, f"cannot be read: {error.strerror}")])
    return parse(content, name, group, beside_chart=_in_chart(path))


def _in_chart(path: Path) -> bool:
    """Whether a file is a template of a Helm chart."""
    parts = path.parts
    return "templates" in parts and any(
        (parent.parent / "Chart.yaml").exists() for parent in path.parents if parent.name == "templates"
    )


def parse(content: bytes, name: str, group: tuple[str, ...] = (), *, beside_chart: bool = False) -> Input:
    """The content of one file."""
    found = Input(name, group)
    text = _text(content)
    if text is None:
        found.unread.append(Unread(name, None, "is not text in UTF-8"))
    elif Path(name).name.startswith("requirements") and name.endswith(".txt"):
        value = {"kind": "requirements.txt", "name": Path(name).name, "lines": text.splitlines()}
        found.sources.append(
            Source(value, name, lambda path: path[1] + 1 if len(path) > 1 and isinstance(path[1], int) else 1)
        )
    elif beside_chart and _TEMPLATE.search(text):
        found.notes.append(f"{name}: a Helm template, not checked; use helm template CHART | llmp check -")
    else:
        _documents(found, text, name)
    return found


def _text(content: bytes) -> str | None:
    if b"\0" in content[:65536]:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _documents(found: Input, text: str, name: str) -> None:
    """Objects, or the stack, in a text."""
    is_json = name.endswith(".json") or (name == STDIN and text.lstrip()[:1] in ("{", "["))
    try:
        for document in [read_json(text)] if is_json else read_yaml(text):
            _document(found, document, text, name)
    except UnreadableError as error:
        if _TEMPLATE.search(text):
            found.notes.append(
                f"{name}: a template that is not rendered, not checked (line {error.line or 1} is not YAML)"
            )
        else:
            found.unread.append(Unread(name, error.line, str(error)))


def _document(found: Input, document: Document, text: str, name: str) -> None:
    value = document.value
    for key, line, first in document.repeated:
        message = f"key {key} is written twice (first on line {first}); the last one counts, or the API server refuses it"
        found.findings.append(
            Finding(DUPLICATE_RULE, Severity.WARN, name, (key,), message, "keep one", name, line)
        )
    if _is_stack_file(name, value):
        _stack(found, value, document, text, name)
        return
    for path, item in _objects(value):
        found.sources.append(Source(item, name, _below(document, path)))


def _below(document: Document, prefix: tuple[str | int, ...]) -> Any:
    return lambda path: document.line_of((*prefix, *path))


def _objects(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Objects in a document: itself, its elements, or the resources of an exported state or preview."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield (index,), item
        return
    if not isinstance(value, dict):
        return
    for prefix in (("resources",), ("deployment", "resources")):
        resources: Any = value
        for step in prefix:
            resources = resources.get(step) if isinstance(resources, dict) else None
        if isinstance(resources, list) and "apiVersion" not in value:
            for index, item in enumerate(resources):
                if isinstance(item, dict) and isinstance(item.get("inputs"), dict):
                    urn = str(item.get("urn", ""))
                    named = {"name": urn.rpartition("::")[2], **item}
                    yield (
                        (*prefix, index, "inputs"),
                        {"type": named.get("type"), "name": named["name"], "props": item["inputs"]},
                    )
            return
    yield (), value


# ---------------------------------------------------------------------- stack files


def _is_stack_file(name: str, value: Any) -> bool:
    return bool(re.fullmatch(r"Pulumi\..+\.ya?ml", Path(name).name)) and isinstance(value, dict)


def _stack(found: Input, value: dict[str, Any], document: Document, text: str, name: str) -> None:
    config = value.get("config")
    if not isinstance(config, dict) or PLATFORM_KEY not in config:
        plain = config if isinstance(config, dict) else {}
        located = _below(document, ("config",))
        found.stacks.append(
            StackFacts(name=Path(name).name, plain=plain, house=False, file=name, locate=located)
        )
        return
    # Only now: whoever checks plain manifests needs no settings and no pydantic.
    from components.settings import stack_file  # noqa: PLC0415
    from components.settings.problems import SettingsError  # noqa: PLC0415

    try:
        file = stack_file.parse(text, Path(name).name)
        settings = stack_file.settings_of(file)
    except SettingsError as error:
        found.unread += [Unread(name, problem.line, _without_place(problem)) for problem in error.problems]
        return
    facts = from_settings(settings, file=name, locate=file.line_of, folder=Path(name).parent)
    found.stacks.append(facts)
    found.environment = facts.env
    found.overrides, found.waivers = governance(settings.policy)


def _without_place(problem: Any) -> str:
    path = ".".join(str(part) for part in problem.path)
    return f"{path}: {problem.message}" if path else str(problem.message)


# ---------------------------------------------------------------------- what is checked together


def together(inputs: Iterable[Input]) -> list[list[Input]]:
    """Files in groups whose objects belong to one cluster.

    All of them, unless one object is defined in two places: then the folders are variants (dev and prod, examples), and
    each is checked with what lies above it.
    """
    files = list(inputs)
    return _split(files, 0)


def _split(files: list[Input], depth: int) -> list[list[Input]]:
    folders: dict[str, list[Input]] = defaultdict(list)
    shared = [item for item in files if len(item.group) <= depth]
    for item in files:
        if len(item.group) > depth:
            folders[item.group[depth]].append(item)
    if not folders or not _clashes(files):
        return [files]
    if len(folders) == 1 and not shared:
        return _split(files, depth + 1)
    return [[*shared, *group] for folder in folders.values() for group in _split(folder, depth + 1)]


def _clashes(files: list[Input]) -> bool:
    """Whether two files define one object."""
    seen: dict[tuple[str, ...], str] = {}
    for item in files:
        for source in item.sources:
            key = _identity(source.value)
            if key and seen.setdefault(key, item.file) != item.file:
                return True
    return False


def _identity(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return None
    metadata = value["metadata"]
    name = metadata.get("name")
    return (str(value.get("kind")), str(metadata.get("namespace")), str(name)) if name else None
