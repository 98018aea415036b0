"""The schema by which editors underline mistakes: current, named in every stack file, and never stricter than the program."""

import json
import random
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from components.settings import json_schema, stack_file
from components.settings.problems import SettingsError
from tests.badconfig.operators import OPERATORS
from tests.badconfig.targets import stacks

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json_schema.stack_schema()
VALIDATOR = Draft7Validator(SCHEMA)
STACK_FILES = sorted(ROOT.glob("Pulumi.*.yaml"))


def test_is_current() -> None:
    """Run `python -m components.settings.json_schema` after a change to the settings."""
    assert json_schema.FILE.read_text(encoding="utf-8") == json_schema.text()


def test_is_a_schema_of_draft_7() -> None:
    """Every YAML language server reads draft 7."""
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", STACK_FILES, ids=lambda path: path.name)
def test_takes_the_stack_files(path: Path) -> None:
    """An editor underlines nothing in what is there."""
    assert [error.message for error in VALIDATOR.iter_errors(stack_file.read(path).values)] == []


@pytest.mark.parametrize("path", STACK_FILES, ids=lambda path: path.name)
def test_is_named_in_the_first_line_of_the_stack_files(path: Path) -> None:
    """The language server finds it by this comment."""
    first = path.read_text(encoding="utf-8").splitlines()[0]

    assert first == "# yaml-language-server: $schema=docs/settings.schema.json"
    assert (path.parent / first.partition("=")[2]).samefile(json_schema.FILE)


def test_underlines_nothing_that_the_program_takes() -> None:
    """Of 500 changed stack files, every one that is accepted fits the schema too."""
    chance, files = random.Random(5), stacks()
    taken = 0
    for index in range(500):
        broken = OPERATORS[index % len(OPERATORS)].run(chance.choice(files), chance)
        if broken is None:
            continue
        try:
            file = stack_file.parse(broken.text, "Pulumi.test.yaml")
            stack_file.settings_of(file)
        except SettingsError:
            continue
        taken += 1
        assert [error.message for error in VALIDATOR.iter_errors(file.values)] == [], broken.what
    assert taken > 20


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llm-platform:platfrom", {}),
        ("llm-platform:huggingFaceToken", "in plain text"),
        ("region", "us-west-2"),
    ],
)
def test_underlines_config_that_nobody_reads(key: str, value: object) -> None:
    """A key of this program that is none, and a secret in plain text."""
    assert [error.path for error in VALIDATOR.iter_errors({"config": {key: value}})] != []


def test_has_a_sentence_for_each_pattern() -> None:
    """Editors show it in place of the pattern."""
    name = SCHEMA["definitions"]["Model"]["properties"]["name"]

    assert name == {
        "description": "Name of the RayService and first part of the host name.",
        "maxLength": 63,
        "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$",
        "patternErrorMessage": "is not a name of lower-case letters, digits and - like llama-8b",
        "type": "string",
    }


def test_describes_blocks_by_their_docstrings() -> None:
    """What a block is for is told at its key."""
    assert SCHEMA["definitions"]["Head"]["description"] == "The Ray head: control only, no replicas."
    assert json.dumps(SCHEMA).count('"title"') == 1
