"""The engine's own copy of a stack's config file: the user's file is read and never written to.

Real secrets are not needed in a rehearsal and are not decrypted: a stand-in takes the place of each. What binds the
file to a key or a cloud (encryption salt, secrets provider, ESC environments) is left out of the copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rehearsal.errors import BadInputError

LEFT_OUT = ("encryptionsalt", "encryptedkey", "secretsprovider", "environment")
STAND_IN_SECRET = "rehearsal-stand-in"  # noqa: S105 - no secret


@dataclass(frozen=True)
class StackCopy:
    """The copy's text, the secrets to set (config path to stand-in), and what the reader should know."""

    text: str
    secrets: dict[str, str]
    notes: tuple[str, ...]
    content: dict[str, Any]


def read(path: Path) -> StackCopy:
    """Make the copy of a stack file. Raises BadInputError when it is missing or is not YAML."""
    try:
        text = path.read_text()
        content = yaml.safe_load(text) or {}
    except OSError as error:
        message = f"There is no stack file {path.name}: {error.strerror}."
        raise BadInputError(message) from error
    except yaml.YAMLError as error:
        message = f"{path.name} is not YAML: {error}"
        raise BadInputError(message) from error
    if not isinstance(content, dict) or not isinstance(content.get("config") or {}, dict):
        message = f"{path.name} is not a stack file: it must be a mapping with the key `config`."
        raise BadInputError(message)
    config = content.get("config") or {}
    secrets = {
        place: STAND_IN_SECRET for key, value in config.items() for place in _secret_places(value, str(key))
    }
    left_out = [key for key in LEFT_OUT if key in content]
    notes = []
    if secrets:
        words = "1 secret" if len(secrets) == 1 else f"{len(secrets)} secrets"
        notes.append(f"{words} of {path.name} {'is' if len(secrets) == 1 else 'are'} replaced by a stand-in.")
    if "environment" in left_out:
        notes.append(f"The ESC environments of {path.name} are not opened.")
    if secrets or left_out:
        kept = {key: value for key, value in content.items() if key not in LEFT_OUT}
        kept["config"] = {
            key: kept_value for key, value in config.items() if (kept_value := _plain(value)) is not None
        }
        text = yaml.safe_dump(kept, sort_keys=False)
    return StackCopy(text, secrets, tuple(notes), content)


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"secure"}


def _secret_places(value: Any, place: str) -> Iterator[str]:
    if _is_secret(value):
        yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secret_places(item, f"{place}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secret_places(item, f"{place}[{index}]")


def _plain(value: Any) -> Any:
    """The value without secrets; the engine's own `config set` puts the stand-ins in."""
    if _is_secret(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if not _is_secret(item)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def platform_of(content: dict[str, Any], project: str) -> dict[str, Any]:
    """The platform's settings of a stack file's content; empty for a program without any."""
    platform = (content.get("config") or {}).get(f"{project}:platform")
    return platform if isinstance(platform, dict) else {}


def creates_cluster(platform: dict[str, Any]) -> bool:
    """Whether the stack makes its cluster, and so needs an AWS account."""
    cluster = platform.get("cluster")
    return isinstance(cluster, dict) and isinstance(cluster.get("create"), dict)


def take_guards_off(platform: dict[str, Any]) -> list[str]:
    """What the documented way down asks for first, since a rehearsal ends with it; gives back what was changed."""
    create = platform["cluster"]["create"]
    wanted = (
        ("deletion", platform.setdefault("deletion", {}) or {}, {"protect": False, "keepWeights": False}),
        ("cluster.create", create, {"deletionProtection": False}),
    )
    said = []
    for place, settings, values in wanted:
        for name, value in values.items():
            if settings.get(name) is not value:
                settings[name] = value
                said.append(f"{place}.{name} is {str(value).lower()}, so that the stack can be destroyed")
    platform["deletion"] = wanted[0][1]
    return said


def existing_context(platform: dict[str, Any]) -> str:
    """The kubeconfig context that a stack with `cluster.existing` names. Raises BadInputError for any other stack."""
    cluster = platform.get("cluster")
    existing = cluster.get("existing") if isinstance(cluster, dict) else None
    context = existing.get("context") if isinstance(existing, dict) else None
    if not isinstance(context, str) or not context:
        message = (
            "The stack says neither `cluster.create` nor `cluster.existing.context`, so there is no cluster to bring it up "
            "in. Look at Pulumi.local.yaml and Pulumi.dev.yaml."
        )
        raise BadInputError(message)
    return context
