"""The settings as the running Pulumi program gets them. The only module of settings that imports Pulumi."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pulumi

from components import conventions
from components.settings import stack_file
from components.settings.platform import PlatformSettings
from components.settings.problems import Problem, SettingsError, shown_words

# What ElastiCache takes for a password of Redis (pulumi-aws, ReplicationGroup.authToken).
_REDIS_PASSWORD = re.compile(r"(?![^@\"/]*[@\"/])[!-~]{16,128}", re.ASCII)
_NAME = stack_file.PLATFORM_KEY.removeprefix(stack_file.PREFIX)


class StackRefused(pulumi.RunError):
    """The stack file has problems; Pulumi prints the text alone, without a traceback."""


def load_settings(folder: Path | None = None) -> PlatformSettings:
    """The stack's settings, validated whole.

    The values come from the engine (which has merged ESC environments and `--config`), the lines from the stack file
    where there is one in ``folder`` (the working directory by default).

    Raises:
        StackRefused: with every problem as `Pulumi.<stack>.yaml:LINE: path: what is wrong`.
    """
    try:
        return _load(folder or Path.cwd())
    except SettingsError as error:
        raise StackRefused(str(error)) from None


def _load(folder: Path) -> PlatformSettings:
    path = _path(folder)
    file = stack_file.read(path) if path.exists() else None
    problems = list(file.problems) if file else []
    raw = _raw(path.name, problems)
    if pulumi.runtime.is_config_secret(stack_file.PLATFORM_KEY) and not (file and file.hidden):
        message = (
            "holds a secret (of an ESC environment, or set with --secret), and so no rule could read any of it; "
            f"secrets are keys of their own: {', '.join(stack_file.SECRET_KEYS)}"
        )
        raise SettingsError([*problems, Problem(path.name, None, (stack_file.PLATFORM_KEY,), message)])
    return stack_file.validate(raw, file, path.name)


def _raw(name: str, problems: list[Problem]) -> dict[str, Any]:
    """The value of the platform's key as the engine gives it."""
    text = pulumi.Config(conventions.PROJECT).get(_NAME)
    if not text:
        message = "is missing; everything about the platform is written below it, see Pulumi.dev.yaml"
        raise SettingsError([*problems, Problem(name, None, (stack_file.PLATFORM_KEY,), message)])
    try:
        values = json.loads(text)
    except ValueError:
        values = text
    if not isinstance(values, dict):
        message = (
            f"holds {shown_words(values)}; everything about the platform is written below it as a mapping"
        )
        raise SettingsError([*problems, Problem(name, None, (stack_file.PLATFORM_KEY,), message)])
    return values


def load_secrets(settings: PlatformSettings) -> Mapping[str, pulumi.Output[str]]:
    """The secrets that the stack needs, by their config key.

    Raises:
        StackRefused: naming every missing one and the command that sets it, or a password that Redis would not take.
    """
    config = pulumi.Config(conventions.PROJECT)
    needed = settings.needed_secrets
    name = _path(Path()).name
    missing = [key for key in needed if not config.get(key)]
    if missing:
        lines = (
            f"{name}: {stack_file.PREFIX}{key}: is missing, {needed[key]}; "
            f"set it with: pulumi config set --secret {stack_file.PREFIX}{key}"
            for key in missing
        )
        raise StackRefused("\n".join(lines))
    if settings.makes_redis and not _REDIS_PASSWORD.fullmatch(config.require("redisPassword")):
        key = f"{stack_file.PREFIX}redisPassword"
        raise StackRefused(
            f'{name}: {key}: ElastiCache takes 16 to 128 printable characters without spaces, @, " and / ; '
            f"set another with: pulumi config set --secret {key}"
        )
    return {key: config.require_secret(key) for key in needed}


def _path(folder: Path) -> Path:
    """The stack file. The engine's stack name may be whole (`org/project/prod`); the file has its last part."""
    return folder / f"Pulumi.{pulumi.get_stack().rpartition('/')[2]}.yaml"
