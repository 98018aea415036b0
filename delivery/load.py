"""Reads a delivery stack's settings and the platform's stack file that it delivers, and says all problems at once."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulumi
from pydantic import ValidationError

from components.settings import PlatformSettings, stack_file
from components.settings.load import StackRefused
from components.settings.places import Location
from components.settings.problems import Problem, SettingsError, from_validation
from components.settings.stack_yaml import Unreadable, read_yaml
from delivery.checks import disagreements
from delivery.settings import DeliverySettings

PROJECT: Final = "llm-platform-delivery"
KEY: Final = f"{PROJECT}:delivery"
ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One stack of the platform and how it is delivered."""

    stack: str
    settings: DeliverySettings
    platform: PlatformSettings
    account_id: str


def load_delivery(folder: Path = ROOT) -> Delivery:
    """The delivery of the running stack, checked against the platform's stack file in ``folder``.

    Raises:
        StackRefused: with every problem as `delivery/Pulumi.<stack>.yaml:LINE: path: what is wrong`.
    """
    stack = pulumi.get_stack().rpartition("/")[2]
    try:
        platform = stack_file.settings_of(stack_file.read(folder / f"Pulumi.{stack}.yaml"))
        file = read(folder / "delivery" / f"Pulumi.{stack}.yaml")
        settings = settings_of(json.loads(pulumi.Config(PROJECT).get("delivery") or "null"), file)
        _refuse(_at(file, disagreements(settings, platform, stack)))
    except SettingsError as error:
        raise StackRefused(str(error)) from None
    return Delivery(stack=stack, settings=settings, platform=platform, account_id=platform.account_id or "")


def read(path: Path) -> stack_file.StackFile:
    """A delivery stack file with its lines; empty where the values come from elsewhere.

    Raises:
        SettingsError: the file is not YAML.
    """
    name = f"delivery/{path.name}"
    root: Location = ("config", KEY)
    if not path.exists():
        return stack_file.StackFile(name, {}, root=root)
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except Unreadable as error:
        raise SettingsError([Problem(name, error.line, (), error.message)]) from None
    values = document.values if isinstance(document.values, dict) else {}
    file = stack_file.StackFile(name, values, document.lines, document.texts, root=root)
    file.problems = tuple(Problem(name, flaw.line, flaw.path[-1:], flaw.message) for flaw in document.flaws)
    return file


def settings_of(raw: Any, file: stack_file.StackFile) -> DeliverySettings:
    """The typed settings.

    Raises:
        SettingsError: with every problem and its line.
    """
    problems = list(file.problems)
    if not isinstance(raw, dict):
        message = "is missing; how the stack is delivered is written below it, see delivery/Pulumi.dev.yaml"
        raise SettingsError([*problems, Problem(file.name, file.lines.get(("config",), 1), (KEY,), message)])
    settings = None
    try:
        settings = DeliverySettings.model_validate_json(
            json.dumps(raw, default=str), by_alias=True, by_name=False
        )
    except ValidationError as error:
        problems += from_validation(error, file, file.name, DeliverySettings)
    if settings is None or problems:
        raise SettingsError(problems)
    return settings


def _at(file: stack_file.StackFile, faults: Iterable[tuple[Location, str]]) -> list[Problem]:
    return [Problem(file.name, file.line_of(path), path, text) for path, text in faults]


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise SettingsError(problems)
