"""From Pulumi's names and values to the shapes of the AWS API, and back.

The API's own description (botocore) names every field and its type, so no table of names is needed: `kmsMasterKeyId`
finds `KMSMasterKeyID`, a mapping of tags becomes a list of keys and values, a text becomes a number where one is wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rehearsal.aws.row import PLACE, Values

MISSING = object()


class ShapeError(Exception):
    """A value does not fit the AWS API."""


def fill(template: Any, values: Mapping[str, Any]) -> Any:
    """A template with its places filled; MISSING where nothing is left of it, or the value of its `?` is not there."""
    if isinstance(template, str):
        return _fill_text(template, values)
    if isinstance(template, Mapping):
        if "?" in template and fill(template["?"], values) is MISSING:
            return MISSING
        pairs = ((key, fill(item, values)) for key, item in template.items() if key != "?")
        filled = {key: item for key, item in pairs if item is not MISSING}
        return filled if filled or not template else MISSING
    if isinstance(template, list):
        items = [item for item in (fill(item, values) for item in template) if item is not MISSING]
        return items if items or not template else MISSING
    return template


def _fill_text(template: str, values: Mapping[str, Any]) -> Any:
    names = PLACE.findall(template)
    if any(values.get(name) is None for name in names):
        return MISSING
    if names and template == f"{{{names[0]}}}":
        return values[names[0]]
    return PLACE.sub(lambda match: str(values[match[1]]), template)


def fill_path(path: str, values: Values) -> str:
    """A JMESPath with its places filled; its own braces are left alone."""
    return PLACE.sub(lambda match: str(values.get(match[1], match[0])), path)


def key(name: str) -> str:
    """What two spellings of a name have in common."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find(mapping: Mapping[str, Any], name: str) -> Any:
    """The value of a name in whatever spelling, or MISSING."""
    wanted = key(name)
    return next((value for own, value in mapping.items() if key(own) == wanted), MISSING)


def to_shape(value: Any, shape: Any, place: str = "") -> Any:
    """A value as the API's shape wants it. Raises ShapeError for a field that the shape does not have."""
    convert = _CONVERTERS.get(shape.type_name)
    return convert(value, shape, place) if convert else value


def _structure(value: Any, shape: Any, place: str) -> dict[str, Any]:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 1:
        value = value[0]
    if not isinstance(value, Mapping):
        raise ShapeError(f"{place or shape.name} takes fields, not {value!r}")
    members = {key(name): name for name in shape.members}
    unknown = [name for name in value if key(name) not in members]
    if unknown:
        raise ShapeError(f"{place or shape.name} of the AWS API has no field {', '.join(unknown)}")
    names = {name: members[key(name)] for name in value}
    return {
        names[name]: to_shape(item, shape.members[names[name]], f"{place}.{name}" if place else name)
        for name, item in value.items()
        if item is not None
    }


def _list(value: Any, shape: Any, place: str) -> list[Any]:
    member = shape.member
    if isinstance(value, Mapping) and member.type_name == "structure":
        fields = {key(name): name for name in member.members}
        if set(fields) >= {"key", "value"} and not {key(name) for name in value} <= set(fields):
            return [{fields["key"]: name, fields["value"]: str(item)} for name, item in value.items()]
    items = [value] if isinstance(value, Mapping | str) or not isinstance(value, Sequence) else value
    return [to_shape(item, member, f"{place}[{index}]") for index, item in enumerate(items)]


def _map(value: Any, shape: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ShapeError(f"{place} takes a mapping, not {value!r}")
    return {name: to_shape(item, shape.value, f"{place}.{name}") for name, item in value.items()}


def text(value: Any) -> str:
    """A scalar as AWS writes it in text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping | list):
        return json.dumps(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _boolean(value: Any, _shape: Any, _place: str) -> bool:
    return value if isinstance(value, bool) else text(value) == "true"


def _integer(value: Any, _shape: Any, place: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{place} takes a whole number, not {value!r}") from error


_CONVERTERS = {
    "structure": _structure,
    "list": _list,
    "map": _map,
    "string": lambda value, _shape, _place: text(value),
    "boolean": _boolean,
    "integer": _integer,
    "long": _integer,
}


def as_given(given: Any, seen: Any) -> Any:
    """What was seen in the cloud, in the form in which the program gave it; the given value itself when they agree.

    What an answer does not mention stays as given: AWS leaves out much that is at its default.
    """
    if seen is MISSING or seen is None:
        return given
    if isinstance(given, Mapping):
        return _mapping_as_given(given, seen)
    if isinstance(given, list):
        return _list_as_given(given, seen)
    return given if _same(given, seen) else seen if isinstance(seen, str | bool | int) else text(seen)


def _mapping_as_given(given: Mapping[str, Any], seen: Any) -> Any:
    if isinstance(seen, list):
        if seen and all(
            isinstance(item, Mapping) and {key(name) for name in item} == {"key", "value"} for item in seen
        ):
            return as_mapping(seen)
        return _mapping_as_given(given, seen[0]) if seen else {}
    if not isinstance(seen, Mapping):
        return given
    return {name: as_given(item, find(seen, name)) for name, item in given.items()}


def as_mapping(tags: Any) -> dict[str, str]:
    """Tags as a mapping, whichever way a service gives them."""
    if isinstance(tags, Mapping):
        return {str(name): str(value) for name, value in tags.items()}
    return {str(find(tag, "key")): str(find(tag, "value")) for tag in tags or []}


def _list_as_given(given: list[Any], seen: Any) -> Any:
    if not isinstance(seen, list):
        return [as_given(given[0], seen)] if len(given) == 1 else given
    if any(isinstance(item, Mapping) for item in (*given, *seen)):
        if len(given) != len(seen):
            return [camel(item) for item in seen]
        return [as_given(one, other) for one, other in zip(given, seen, strict=True)]
    return given if sorted(map(text, given)) == sorted(map(text, seen)) else list(seen)


def _same(given: Any, seen: Any) -> bool:
    if text(given) == text(seen):
        return True
    try:
        document = json.loads(given) if isinstance(given, str) else None
        other = json.loads(seen) if isinstance(seen, str) else seen
    except ValueError:
        return False
    return isinstance(document, dict | list) and document == other


def camel(value: Any) -> Any:
    """A value of the API with Pulumi's spelling of names."""
    if isinstance(value, Mapping):
        return {name[:1].lower() + name[1:]: camel(item) for name, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value
