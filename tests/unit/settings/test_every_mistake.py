"""Holds over all settings at once: no mistake of any field speaks pydantic's language, and every form has words."""

import copy
import itertools
import re
from collections.abc import Iterator
from typing import Any, get_origin

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from components.settings import PlatformSettings, stack_file
from components.settings.base import FORMS
from components.settings.json_schema import stack_schema
from components.settings.places import bare, kinds_of, models_in
from components.settings.problems import SettingsError
from tests.unit.settings.stackfile import NAME, TEXT

# Values of every kind, among them those at the edges of numbers, and a token.
MISTAKES: tuple[Any, ...] = (
    None, "", " ", "x", "not this!", "a\nb", "4", "true", "x" * 400, "2027-02-30", "1738281600", "10.0.0.0/33",
    0, 1, -1, -7, 1.5, 1e30, 10**12, True, False, [], {}, [[]], [None], [1], ["x"], ["x"] * 50, {"a": 1}, {"a": {}}, {"": ""},
    {"kind": "s3"}, {"kind": 1}, {"kind": None},
)  # fmt: skip
FOREIGN = re.compile(
    r"Input|\bshould\b|validation|\bvalid\b|refused:|another value|instance of|\b(?:tuple|dict|str|int|float|bool)\b"
)


Path = tuple[str | int, ...]
VALID: dict[str, Any] = stack_file.parse(TEXT, NAME).platform


def fields(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, type[BaseModel], FieldInfo]]:
    """Every field of the settings with its path in a file."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        yield here, model, field
        item = {"tuple": (0,), "dict": ("x.y",)}.get(
            getattr(get_origin(bare(field.annotation)), "__name__", ""), ()
        )
        for inner in models_in(field.annotation):
            yield from fields(inner, (*here, *item))


FIELDS = list(fields(PlatformSettings))
EACH_FIELD = pytest.mark.parametrize(
    ("path", "model", "field"),
    FIELDS,
    ids=[f"{'.'.join(map(str, path))}-{model.__name__}" for path, model, _ in FIELDS],
)


def with_value(path: Path, model: type[BaseModel], value: Any) -> dict[str, Any]:
    """The valid platform with a value at a path; blocks that are not there are made."""
    raw = copy.deepcopy(VALID)
    at: Any = raw
    for step, following in itertools.pairwise(path):
        if isinstance(at, dict):
            at = at.setdefault(step, [{}] if isinstance(following, int) else {})
        else:
            at = at[int(step)]
    if path[-2:-1] == ("source",):
        at["kind"] = kinds_of([model])[0]
    at[path[-1]] = value
    return raw


def refusal(raw: dict[str, Any]) -> str:
    """What a person reads about a platform; empty if it is taken."""
    try:
        stack_file.validate(raw, None, NAME)
    except SettingsError as error:
        return str(error)
    return ""


@EACH_FIELD
def test_no_mistake_speaks_the_language_of_the_library(
    path: Path, model: type[BaseModel], field: FieldInfo
) -> None:
    """Whatever stands at a setting is accepted or refused in a sentence for people, never with an accident."""
    for value in MISTAKES:
        said = refusal(with_value(path, model, value))
        without_values = re.sub(r'"[^"]*"', '""', said)
        assert not FOREIGN.search(without_values), f"{field.alias}: {value!r}: {said}"


@EACH_FIELD
def test_every_needed_setting_says_what_it_is_for(
    path: Path, model: type[BaseModel], field: FieldInfo
) -> None:
    """The sentence about a missing key has something to tell."""
    assert not field.is_required() or field.description or path[-1] == "kind", model


def test_every_block_has_a_docstring_of_its_own() -> None:
    """Editors show it at the block's key."""
    models = {model for _, model, _ in FIELDS}

    assert [model.__name__ for model in models if "__doc__" not in vars(model) or not model.__doc__] == []


def patterns(schema: Any) -> Iterator[str]:
    """Every pattern in a schema."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            else:
                yield from patterns(value)
    if isinstance(schema, list):
        for item in schema:
            yield from patterns(item)


def test_every_pattern_has_words() -> None:
    """No setting has a pattern that a person would have to read."""
    assert sorted(set(patterns(stack_schema()["definitions"])) - set(FORMS)) == []


@pytest.mark.parametrize(("pattern", "words"), list(FORMS.items()))
def test_the_example_of_a_form_has_the_form(pattern: str, words: str) -> None:
    """What a sentence proposes (`like 16Gi or 512Mi`) is itself allowed."""
    proposed = words.partition(" like ")[2].removesuffix(" and a commit")
    examples = [part.strip('"') for part in re.split(r", or |, | or ", proposed)] if proposed else []

    assert [
        example for example in examples if " " not in example and not re.fullmatch(pattern, example)
    ] == []
