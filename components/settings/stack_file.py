"""Reads `Pulumi.<stack>.yaml` with the line of every value, and says all problems of it at once.

How YAML is read is in `stack_yaml`; here is what a stack file holds: the platform, secrets of their own keys, keys of
other providers, and what the Pulumi CLI writes itself. Nothing else may stand in it, since nobody would read it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components import conventions
from components.settings.platform import PlatformSettings
from components.settings.problems import (
    Location,
    Problem,
    SettingsError,
    from_validation,
    nearest,
    shown_words,
)
from components.settings.stack_yaml import MAX_BYTES, Document, Flaw, Unreadable, read_yaml

PLATFORM_KEY = f"{conventions.PROJECT}:platform"
PREFIX = f"{conventions.PROJECT}:"
# Keys that the Pulumi CLI itself writes into a stack file.
CLI_KEYS = ("config", "environment", "encryptionsalt", "encryptedkey", "secretsprovider")
SECRET_KEYS = tuple(f"{PREFIX}{name}" for name in conventions.SECRETS)
_ROOT: Location = ("config", PLATFORM_KEY)


@dataclass(slots=True)
class StackFile:
    """One stack file: its plain values, the line of each path (1-based), and what is wrong with it so far."""

    name: str
    values: dict[str, Any]
    lines: dict[Location, int] = field(default_factory=dict)
    texts: dict[Location, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    hidden: frozenset[Location] = frozenset()  # below these, more problems would only confuse
    root: Location = _ROOT  # where the settings stand; delivery/ has files of its own

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """Line of the deepest part of ``path`` (below `llm-platform:platform`) that the file has.

        None when the file has no platform at all: the value came from elsewhere (ESC, `--config`).
        """
        whole: Location = (*self.root, *path)
        for end in range(len(whole), len(self.root) - 1, -1):
            if whole[:end] in self.lines:
                return self.lines[whole[:end]]
        return None

    def text_of(self, path: Sequence[str | int]) -> str | None:
        """What stands in the file for a number, true, false or nothing: `1.30`, where the value is 1.3."""
        return self.texts.get((*self.root, *path))

    @property
    def platform(self) -> Any:
        """The raw value of the platform key, or None."""
        return self.config.get(PLATFORM_KEY)

    @property
    def config(self) -> dict[str, Any]:
        """The block `config`, empty where there is none."""
        config = self.values.get("config")
        return config if isinstance(config, dict) else {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the stack's secrets that the file holds (`llm-platform:<name>: {secure: …}`)."""
        return tuple(key.removeprefix(PREFIX) for key in self.config if key in SECRET_KEYS)


def stack_name(path: Path) -> str:
    """`Pulumi.prod.yaml` -> `prod`."""
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml")


def read(path: Path) -> StackFile:
    """Read a stack file; what is wrong with single keys is kept in ``problems`` for :func:`settings_of`.

    Raises:
        SettingsError: there is no such file, or it is not YAML.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        there = ", ".join(sorted(stack_name(p) for p in path.parent.glob("Pulumi.*.yaml"))) or "none"
        raise SettingsError([Problem(path.name, None, (), f"no such stack; there are: {there}")]) from None
    except OSError as error:
        raise SettingsError([Problem(path.name, None, (), f"cannot be read: {error.strerror}")]) from None
    return decode(content, path.name)


def decode(content: bytes, name: str) -> StackFile:
    """A stack file from its bytes; see :func:`read`."""
    if len(content) > MAX_BYTES:
        message = f"is larger than {MAX_BYTES // 1024} KiB; a stack of a hundred models takes about 70"
        raise SettingsError([Problem(name, 1, (), message)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = (
            f"is not UTF-8 text (byte {error.start + 1} is 0x{content[error.start]:02x}); save it as UTF-8"
        )
        raise SettingsError([Problem(name, line, (), message)]) from None
    return parse(text, name)


def parse(text: str, name: str) -> StackFile:
    """Parse the text of a stack file; see :func:`read`."""
    try:
        document = read_yaml(text.removeprefix("\ufeff"))
    except Unreadable as error:
        raise SettingsError([Problem(name, error.line, (), error.message)]) from None
    values = document.values
    if not isinstance(values, dict):
        message = (
            f"holds {shown_words(values)}; a stack file is a mapping with the key config, see Pulumi.dev.yaml"
        )
        raise SettingsError([Problem(name, 1, (), message)])
    file = StackFile(name, values, document.lines, document.texts)
    flaws = [*document.flaws, *_encrypted(file.platform, _ROOT, document)]
    file.problems = (*(_problem(flaw, name) for flaw in flaws), *_unread_keys(file))
    file.hidden = frozenset(flaw.path[len(_ROOT) :] for flaw in flaws if flaw.hides_below)
    return file


def settings_of(file: StackFile) -> PlatformSettings:
    """The typed settings of a stack file.

    Raises:
        SettingsError: with every problem and its line.
    """
    raw = file.platform
    if isinstance(raw, dict):
        return validate(raw, file)
    line = file.line_of(()) or file.lines.get(("config",), 1)
    if PLATFORM_KEY in file.config:
        message = f"holds {shown_words(raw)}; everything about the platform is written below it as a mapping"
    elif "environment" in file.values:
        message = "is not in the file, and what an ESC environment adds is known only to Pulumi; copy it here to preview it"
    else:
        message = "is missing; everything about the platform is written below it, see Pulumi.dev.yaml"
    raise SettingsError([*file.problems, Problem(file.name, line, (PLATFORM_KEY,), message)])


def validate(raw: Any, file: StackFile | None, name: str = "") -> PlatformSettings:
    """Typed settings from plain values; ``file`` gives lines, and its own problems are reported with the others.

    Raises:
        SettingsError: with every problem.
    """
    problems = list(file.problems) if file else []
    settings = None
    try:
        # Strict JSON mode: lists become tuples and strings enums, but "4" never becomes 4 nor 1.36 "1.36".
        settings = PlatformSettings.model_validate_json(
            json.dumps(raw, default=str), by_alias=True, by_name=False
        )
    except ValidationError as error:
        problems += from_validation(error, file, name)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def _problem(flaw: Flaw, name: str) -> Problem:
    path = (
        flaw.path[len(_ROOT) :]
        if flaw.path[: len(_ROOT)] == _ROOT and len(flaw.path) > len(_ROOT)
        else flaw.path[-1:]
    )
    return Problem(name, flaw.line, path, flaw.message)


def _encrypted(value: Any, path: Location, document: Document) -> Iterator[Flaw]:
    """Encrypted values within the platform: they would make all of it a secret, and rules could read none of it."""
    if isinstance(value, dict):
        if set(value) == {"secure"} and isinstance(value["secure"], str):
            keys = ", ".join(SECRET_KEYS)
            message = f"is encrypted, and the platform holds no secrets; remove it and use a key of its own: pulumi config set --secret KEY, with {keys}"
            yield Flaw(document.lines.get(path, 1), path, message, hides_below=True)
            return
        for key, inner in value.items():
            yield from _encrypted(inner, (*path, key), document)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _encrypted(inner, (*path, index), document)


def _unread_keys(file: StackFile) -> Iterator[Problem]:
    """Keys beside the platform that nobody would read: a typo there must not pass either."""
    for key in file.values:
        if key not in CLI_KEYS:
            yield Problem(
                file.name,
                file.lines.get((key,)),
                (key,),
                f"is not a key that Pulumi reads{nearest(key, CLI_KEYS)}",
            )
    config = file.values.get("config")
    if config is not None and not isinstance(config, dict):
        message = f"holds {shown_words(config)}; below it stand keys like {PLATFORM_KEY}"
        yield Problem(file.name, file.lines.get(("config",)), ("config",), message)
    for key, value in file.config.items():
        line = file.lines.get(("config", key))
        known = (PLATFORM_KEY, *SECRET_KEYS)
        if (key.startswith(PREFIX) and key not in known) or not _is_provider_key(key):
            yield Problem(
                file.name, line, (key,), f"is not a config key of this program{nearest(key, known)}"
            )
        elif key in SECRET_KEYS and not (isinstance(value, dict) and set(value) == {"secure"}):
            message = f"is a secret in plain text; change it where it is from, remove it here, and run: pulumi config set --secret {key}"
            yield Problem(file.name, line, (key,), message)


def _is_provider_key(key: str) -> bool:
    """`aws:region` and the like: a namespace, a colon and a name."""
    namespace, colon, name = key.partition(":")
    return bool(namespace and colon and name)
