"""Finds what pydantic's locations point at: the step in the file, the field, its type and what could stand there."""

import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a location of pydantic's ends."""

    path: Location  # the steps that a file has; pydantic adds one for the member of a union
    owner: type[BaseModel] | None  # the model whose key the last step is
    field: FieldInfo | None
    annotation: Any
    is_own: bool = False  # the last step is the field's own key, not an item of its list or mapping
    is_key: bool = False  # it is about the name of a key, not its value
    is_union: bool = False  # pydantic tried several plain types and says something about each


def place_of(root: type[BaseModel], location: Location) -> Place:
    """Follow a location through the models."""
    place = Place((), None, None, root)
    for step in location:
        if step == "[key]":
            return replace(place, is_key=True)
        members = members_of(place.annotation)
        if len(members) > 1:
            chosen = _member(members, step)
            if chosen is None:
                return replace(place, is_union=True)
            place = replace(place, annotation=chosen)
        else:
            place = _below(place, members[0] if members else None, step)
    return place


def _below(place: Place, annotation: Any, step: str | int) -> Place:
    """One step further into the file."""
    path = (*place.path, step)
    if not _is_model(annotation):
        return Place(path, None, place.field, _item(annotation))
    field = field_of(annotation, step)
    return Place(path, annotation, field, field.annotation if field else None, is_own=True)


def bare(annotation: Any) -> Any:
    """A type without its constraints."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have, without None."""
    annotation = bare(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in members_of(member))
    return () if annotation in (None, type(None)) else (annotation,)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models anywhere in a type."""
    if _is_model(annotation):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


def field_of(model: type[BaseModel], key: object) -> FieldInfo | None:
    """The field with a key as the file writes it."""
    return next((field for field in model.model_fields.values() if field.alias == key), None)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Keys of a model as the file writes them, in the order of the model."""
    return [field.alias or name for name, field in model.model_fields.items()]


def homes_of(key: str, model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every block below a model that has a key: `models`, `engine` for maxModelLen."""
    for name, field in model.model_fields.items():
        alias = field.alias or name
        if alias == key:
            yield path
        for inner in models_in(field.annotation):
            yield from homes_of(key, inner, (*path, alias))


def kinds_of(models: Iterable[Any]) -> tuple[str, ...]:
    """Values of `kind` by which the members of a union differ."""
    fields = (model.model_fields.get("kind") for model in models if _is_model(model))
    return tuple(value for field in fields if field for value in get_args(field.annotation))


def _member(members: tuple[Any, ...], tag: str | int) -> Any:
    """The member of a union that pydantic means by a tag; None where the tag is a plain type's name."""
    for member in members:
        if _is_model(member) and tag in kinds_of([member]):
            return member
    return None


def _item(annotation: Any) -> Any:
    """Type of what a list or mapping holds."""
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    return arguments[0] if arguments and get_origin(annotation) is not Literal else None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
