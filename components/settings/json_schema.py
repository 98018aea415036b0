"""Writes `docs/settings.schema.json`, by which editors underline mistakes in a stack file: `python -m …json_schema`.

The first line of each stack file names it. It is draft 7, which every YAML language server reads, and it is the shape
only: what a validator in Python refuses (a cron expression, keys that exclude each other) an editor cannot see.
"""

import json
from pathlib import Path
from typing import Any, Final

from components import conventions
from components.settings.base import FORMS
from components.settings.platform import PlatformSettings
from components.settings.stack_file import PLATFORM_KEY

FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "settings.schema.json"
_SECRETS: Final = {
    "huggingFaceToken": "Token of Hugging Face, for gated models.",
    "rayAuthToken": "What Ray's own ports ask for, where a model has rayToken: true.",
    "endpointKeys": "Keys of the callers, separated by commas, where endpoint.keys is true.",
    "redisPassword": "Password of the Redis that keeps the heads' state: 16 to 128 characters without @, \" and /.",
}


def stack_schema() -> dict[str, Any]:
    """The schema of a whole stack file."""
    platform = PlatformSettings.model_json_schema(by_alias=True, ref_template="#/definitions/{model}")
    definitions = platform.pop("$defs")
    secrets = {f"{conventions.PROJECT}:{name}": _secret(name) for name in conventions.SECRETS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Stack of llm-platform",
        "description": "Pulumi.<stack>.yaml; made by `python -m components.settings.json_schema`, not by hand.",
        "type": "object",
        "properties": {
            "config": {
                "type": "object",
                "properties": {PLATFORM_KEY: {"$ref": "#/definitions/PlatformSettings"}, **secrets},
                # Config of other providers (aws:region); of this program only what is named above.
                "patternProperties": {rf"^(?!{conventions.PROJECT}:)[^:]+:.+$": {}},
                "additionalProperties": False,
            },
            "environment": {
                "description": "ESC environments that Pulumi merges in.",
                "type": ["array", "object", "null"],
            },
            "encryptionsalt": {"type": "string"},
            "encryptedkey": {"type": "string"},
            "secretsprovider": {"type": "string"},
        },
        "additionalProperties": False,
        "definitions": _plain({**definitions, "PlatformSettings": platform}),
    }


def text() -> str:
    """The content of the file."""
    return json.dumps(stack_schema(), indent=2, ensure_ascii=False) + "\n"


def _secret(name: str) -> dict[str, Any]:
    return {
        "description": f"{_SECRETS[name]} Set it with: pulumi config set --secret {conventions.PROJECT}:{name}",
        "type": "object",
        "properties": {"secure": {"type": "string"}},
        "required": ["secure"],
        "additionalProperties": False,
    }


def _plain(schema: Any) -> Any:
    """Draft 7 out of pydantic's 2020-12, without its titles and with a sentence for each pattern."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    names = ("properties", "definitions", "patternProperties")
    result = {
        key: {name: _plain(inner) for name, inner in value.items()} if key in names else _plain(value)
        for key, value in schema.items()
        if key not in ("title", "discriminator") or not isinstance(value, (str, dict))
    }
    if (pattern := result.get("pattern")) in FORMS:
        result["patternErrorMessage"] = f"is not {FORMS[pattern]}"  # read by the language server of VS Code
    if "$ref" in result and len(result) > 1:  # draft 7 ignores what stands beside a $ref
        result["allOf"] = [{"$ref": result.pop("$ref")}]
    description = result.get("description")
    if isinstance(description, str):
        result["description"] = " ".join(description.split())
    return result


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text(), encoding="utf-8")
