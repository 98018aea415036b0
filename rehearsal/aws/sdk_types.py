"""Which properties a resource type has, and of which type, by the classes of the SDK that the program itself uses."""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pulumi import _types
from pulumi.runtime import rpc

SCALARS: dict[Any, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int, float), float: (int, float)}
# The engine hands numbers and booleans over as they are; where the schema wants text, the SDK takes those too.
UNKNOWN = rpc.UNKNOWN


@dataclass(frozen=True)
class Wrong:
    """A property that does not fit, and why."""

    path: str
    reason: str


_LOADING = threading.Lock()


@functools.cache
def classes(token: str) -> tuple[type, type]:
    """The resource class and the class of its arguments."""
    _, module, name = token.split(":")
    with _LOADING:  # the SDK loads its packages on first use, which two threads must not do at once
        package = importlib.import_module(f"pulumi_aws.{module.split('/')[0]}")
        return _classes(package, name)


def _classes(package: ModuleType, name: str) -> tuple[type, type]:
    # InitArgs is what the SDK calls the arguments where Args is the name of a nested type.
    arguments = getattr(package, f"{name}InitArgs", None) or getattr(package, f"{name}Args")
    return getattr(package, name), arguments


@functools.cache
def _fields(arguments: type) -> tuple[Mapping[str, Any], frozenset[str]]:
    """Property -> type, and which of them are required."""
    names = _types.input_type_py_to_pulumi_names(arguments)
    parameters = inspect.signature(arguments.__init__).parameters  # type: ignore[misc]
    required = {
        names[name]
        for name, row in parameters.items()
        if name in names and row.default is inspect.Parameter.empty
    }
    return _types.input_type_types(arguments), frozenset(required)


def inputs(token: str) -> Mapping[str, Any]:
    """The input properties of a type."""
    return _fields(classes(token)[1])[0]


@functools.cache
def outputs(token: str) -> Mapping[str, Any]:
    """The output properties of a type."""
    return dict(_types.resource_types(classes(token)[0]))


def check(token: str, properties: Mapping[str, Any]) -> list[Wrong]:
    """Everything that does not fit the type: unknown and missing properties, and values of another type."""
    return list(_check_fields("", properties, classes(token)[1]))


def _check_fields(path: str, value: Mapping[str, Any], arguments: type) -> Iterator[Wrong]:
    fields, required = _fields(arguments)
    for name in required - {name for name, item in value.items() if item is not None}:
        yield Wrong(_join(path, name), "is missing, and the type requires it")
    for name, item in value.items():
        if name.startswith("__"):
            continue
        if name not in fields:
            yield Wrong(_join(path, name), f"is no property of {arguments.__name__.removesuffix('Args')}")
        elif item is not None:
            yield from _check_value(_join(path, name), item, fields[name])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _check_value(path: str, value: Any, wanted: Any) -> Iterator[Wrong]:
    if value == UNKNOWN:
        return
    wanted = _plain_type(wanted)
    origin = typing.get_origin(wanted)
    if wanted in SCALARS:
        if not isinstance(value, SCALARS[wanted]) or (wanted is not bool and isinstance(value, bool)):
            yield Wrong(path, f"must be {wanted.__name__}, and is {value!r}")
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _check_mapping(path, value, typing.get_args(wanted)[1])
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        yield from _check_sequence(path, value, typing.get_args(wanted)[0])
    elif inspect.isclass(wanted) and _types.is_input_type(wanted):
        if isinstance(value, Mapping):
            yield from _check_fields(path, value, wanted)
        else:
            yield Wrong(path, f"must have fields, and is {value!r}")


def _check_mapping(path: str, value: Any, item_type: Any) -> Iterator[Wrong]:
    if not isinstance(value, Mapping):
        yield Wrong(path, f"must be a mapping, and is {value!r}")
        return
    for name, item in value.items():
        yield from _check_value(f"{path}.{name}", item, item_type)


def _check_sequence(path: str, value: Any, item_type: Any) -> Iterator[Wrong]:
    if not isinstance(value, list):
        yield Wrong(path, f"must be a list, and is {value!r}")
        return
    for index, item in enumerate(value):
        yield from _check_value(f"{path}[{index}]", item, item_type)


def _plain_type(wanted: Any) -> Any:
    """The type without the SDK's wrappers (Optional, Input, a dict type beside a class)."""
    while typing.get_origin(wanted) is typing.Union:
        choices = [item for item in typing.get_args(wanted) if item is not type(None)]
        known = [
            item
            for item in choices
            if item in SCALARS or (inspect.isclass(item) and _types.is_input_type(item))
        ]
        wanted = (known or choices)[0]
    return wanted
