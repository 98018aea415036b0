"""The settings of a running program: values from the engine, lines from the file, secrets by their own keys."""

import asyncio
import contextvars
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
import pytest

from components.settings import PlatformSettings, stack_file
from components.settings.load import StackRefused, load_secrets, load_settings
from tests.unit.settings.stackfile import TEXT, changed, settings

PLATFORM = "llm-platform:platform"
Engine = Callable[..., None]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """Gives the program what the engine would: the stack's name, its config, and which of it is secret."""

    def give(config: dict[str, str], secret: tuple[str, ...] = (), stack: str = "test") -> None:
        monkeypatch.setattr(pulumi, "get_stack", lambda: stack)
        pulumi.runtime.set_all_config(config, list(secret))

    yield give
    pulumi.runtime.set_all_config({}, [])


def as_config(text: str) -> dict[str, str]:
    """The platform of a stack file as the engine hands it on."""
    return {PLATFORM: json.dumps(stack_file.parse(text, "Pulumi.test.yaml").platform)}


def refusal(folder: Path) -> str:
    """What a person reads when the program refuses its stack."""
    with pytest.raises(StackRefused) as caught:
        load_settings(folder)
    return str(caught.value)


def test_loads_what_the_engine_gives(engine: Engine, tmp_path: Path) -> None:
    """The values are the engine's, which has merged environments; no file is needed."""
    engine(as_config(TEXT))

    assert load_settings(tmp_path) == settings()


def test_names_the_lines_of_the_file(engine: Engine, tmp_path: Path) -> None:
    """With the stack file in the folder, every problem has its line."""
    text = changed(("tensorParallel: 1", "tensorParallel: 0"), ("region: us-west-2", "regoin: us-west-2"))
    (tmp_path / "Pulumi.test.yaml").write_text(text, encoding="utf-8")
    engine(as_config(text))

    assert refusal(tmp_path).splitlines() == [
        "Pulumi.test.yaml:3: region: is missing; add it: AWS region of everything in the stack",
        "Pulumi.test.yaml:4: regoin: is not a setting; did you mean region?",
        "Pulumi.test.yaml:28: models.0.tensorParallel: 0 is below 1, the least allowed",
    ]


def test_has_no_line_for_values_from_elsewhere(engine: Engine, tmp_path: Path) -> None:
    """What comes from an ESC environment is told by its path alone."""
    (tmp_path / "Pulumi.test.yaml").write_text("environment:\n  - llm/test\n", encoding="utf-8")
    engine(as_config(changed(("region: us-west-2", "region: nowhere"))))

    assert refusal(tmp_path) == 'Pulumi.test.yaml: region: "nowhere" is not an AWS region like us-west-2'


def test_tells_problems_of_the_file_with_those_of_the_values(engine: Engine, tmp_path: Path) -> None:
    """A day without quotes arrives changed, and the file shows what was written."""
    (tmp_path / "Pulumi.test.yaml").write_text(
        changed(("revision: v1", "revision: 2027-01-31")), encoding="utf-8"
    )
    engine(as_config(TEXT))

    assert refusal(tmp_path) == (
        "Pulumi.test.yaml:25: models.0.source.revision: 2027-01-31 without quotes arrives as a point in time with a zone; "
        'write it in quotes: "2027-01-31"'
    )


def test_finds_the_file_of_a_stack_with_a_whole_name(engine: Engine, tmp_path: Path) -> None:
    """`acme/llm-platform/test` has the file Pulumi.test.yaml."""
    (tmp_path / "Pulumi.test.yaml").write_text(
        changed(("region: us-west-2", "region: nowhere")), encoding="utf-8"
    )
    engine(as_config(changed(("region: us-west-2", "region: nowhere"))), stack="acme/llm-platform/test")

    assert refusal(tmp_path) == 'Pulumi.test.yaml:4: region: "nowhere" is not an AWS region like us-west-2'


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "is missing; everything about the platform is written below it, see Pulumi.dev.yaml"),
        (
            {PLATFORM: ""},
            "is missing; everything about the platform is written below it, see Pulumi.dev.yaml",
        ),
        ({PLATFORM: "hello"}, "holds text; everything about the platform is written below it as a mapping"),
        ({PLATFORM: "[1]"}, "holds a list; everything about the platform is written below it as a mapping"),
    ],
)
def test_says_what_is_there_instead_of_a_platform(
    config: dict[str, str], sentence: str, engine: Engine, tmp_path: Path
) -> None:
    """A key that is not there, empty, or something else."""
    engine(config)

    assert refusal(tmp_path) == f"Pulumi.test.yaml: llm-platform:platform: {sentence}"


def test_refuses_a_platform_that_is_secret(engine: Engine, tmp_path: Path) -> None:
    """One secret leaf in an ESC environment makes all of it secret."""
    engine(as_config(TEXT), secret=(PLATFORM,))

    assert refusal(tmp_path) == (
        "Pulumi.test.yaml: llm-platform:platform: holds a secret (of an ESC environment, or set with --secret), and so no rule "
        "could read any of it; secrets are keys of their own: llm-platform:huggingFaceToken, llm-platform:rayAuthToken, "
        "llm-platform:endpointKeys, llm-platform:redisPassword"
    )


def test_is_printed_without_a_traceback() -> None:
    """Pulumi prints the text of a RunError alone."""
    assert issubclass(StackRefused, pulumi.RunError)


def needing() -> PlatformSettings:
    """A stack that needs two secrets."""
    return settings(("        tensorParallel: 1\n", "        redis: {}\n"))


def test_names_every_missing_secret_and_its_command(engine: Engine) -> None:
    """All missing secrets at once, each with the reason and what to run."""
    engine({})

    with pytest.raises(StackRefused) as caught:
        load_secrets(needing())

    assert str(caught.value).splitlines() == [
        (
            "Pulumi.test.yaml: llm-platform:rayAuthToken: is missing, needed by llama-8b; "
            "set it with: pulumi config set --secret llm-platform:rayAuthToken"
        ),
        (
            "Pulumi.test.yaml: llm-platform:redisPassword: is missing, needed by llama-8b; "
            "set it with: pulumi config set --secret llm-platform:redisPassword"
        ),
    ]


def test_gives_the_secrets_that_are_needed(engine: Engine) -> None:
    """Only those, and as secret outputs."""
    keys = ("llm-platform:rayAuthToken", "llm-platform:redisPassword", "llm-platform:endpointKeys")
    engine(dict.fromkeys(keys, "value-of-16-char"), secret=keys)

    async def secrets() -> dict[str, tuple[str | None, bool]]:
        return {
            key: (await value.future(), await value.is_secret())
            for key, value in load_secrets(needing()).items()
        }

    # Outputs need an event loop; in a thread of its own it is no other test's.
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(contextvars.copy_context().run, asyncio.run, secrets()).result()

    value = ("value-of-16-char", True)
    assert found == {"rayAuthToken": value, "redisPassword": value}


@pytest.mark.parametrize(
    "password",
    ["fifteen-letters", "a" * 129, "sixteen@characters", "with a space in it", 'with-"-in-the-end"'],
)
def test_refuses_a_password_that_redis_would_not_take(engine: Engine, password: str) -> None:
    """Before anything is made, and without showing it."""
    engine({"llm-platform:rayAuthToken": "x", "llm-platform:redisPassword": password})

    with pytest.raises(StackRefused) as caught:
        load_secrets(needing())

    assert str(caught.value) == (
        'Pulumi.test.yaml: llm-platform:redisPassword: ElastiCache takes 16 to 128 printable characters without spaces, @, " '
        "and / ; set another with: pulumi config set --secret llm-platform:redisPassword"
    )
