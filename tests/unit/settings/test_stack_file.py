"""A stack file around the platform: lines, keys that nobody reads, secrets, files that cannot be read."""

import os
from pathlib import Path

import pytest

from components.settings import stack_file
from components.settings.problems import Problem, SettingsError
from tests.unit.settings.stackfile import NAME, TEXT, changed, said, said_of

NO_PLATFORM = "is missing; everything about the platform is written below it, see Pulumi.dev.yaml"
OWN_KEYS = "llm-platform:huggingFaceToken, llm-platform:rayAuthToken, llm-platform:endpointKeys, llm-platform:redisPassword"


def refusal(path: Path) -> str:
    """What a person reads about a file that cannot be read."""
    with pytest.raises(SettingsError) as caught:
        stack_file.read(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 3),
        (("region",), 4),
        (("network", "zones", 1), 8),
        (("cluster", "create", "name"), 11),
        (("gpuPools", 0), 14),
        (("gpuPools", 0, "limits", "gpus"), 16),
        (("gpuPools", 0, "disruption", "budgets", 0, "nodes"), 19),
        (("models", 0, "source", "revision"), 25),
        (("models", 0, "engine", "maxModelLen"), 30),
        (("models", 0, "scaling", "maxReplicas"), 31),
        # What is not in the file has the line of the deepest part that is.
        (("models", 0, "engine", "dtype"), 29),
        (("models", 0, "drain", "rayDrain"), 21),
        (("models", 7), 20),
        (("endpoint", "host"), 3),
    ],
)
def test_knows_the_line_of_every_path(path: tuple[str | int, ...], line: int) -> None:
    """A finding about a setting can name the line where it is, or would be."""
    assert stack_file.parse(TEXT, NAME).line_of(path) == line


def test_has_no_line_for_what_is_not_in_the_file() -> None:
    """A platform that comes from an ESC environment has no line here."""
    file = stack_file.parse("environment:\n  - llm/prod\n", NAME)

    assert file.line_of(("region",)) is None
    assert str(Problem(NAME, None, ("region",), "is wrong")) == "Pulumi.test.yaml: region: is wrong"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", ["1: holds nothing; a stack file is a mapping with the key config, see Pulumi.dev.yaml"]),
        ("# only a comment\n", ["1: holds nothing; a stack file is a mapping with the key config, see Pulumi.dev.yaml"]),
        ("hello\n", ["1: holds text; a stack file is a mapping with the key config, see Pulumi.dev.yaml"]),
        ("- a\n", ["1: holds a list; a stack file is a mapping with the key config, see Pulumi.dev.yaml"]),
        ("42\n", ["1: holds the number 42; a stack file is a mapping with the key config, see Pulumi.dev.yaml"]),
        ("encryptionsalt: v1\n", [f"1: llm-platform:platform: {NO_PLATFORM}"]),
        ("config: {}\n", [f"1: llm-platform:platform: {NO_PLATFORM}"]),
        (
            "\nconfig: 5\n",
            [
                "2: config: holds the number 5; below it stand keys like llm-platform:platform",
                f"2: llm-platform:platform: {NO_PLATFORM}",
            ],
        ),
        (
            "config:\n  llm-platform:platform:\n",
            ["2: llm-platform:platform: holds nothing; everything about the platform is written below it as a mapping"],
        ),
        (
            "config:\n  llm-platform:platform: [a]\n",
            ["2: llm-platform:platform: holds a list; everything about the platform is written below it as a mapping"],
        ),
        (
            "config:\n  llm-platform:platfrom: {}\n",
            [
                f"1: llm-platform:platform: {NO_PLATFORM}",
                "2: llm-platform:platfrom: is not a config key of this program; did you mean llm-platform:platform?",
            ],
        ),
        (
            "environment:\n  - llm/prod\nconfig:\n  aws:region: us-west-2\n",
            [
                ("3: llm-platform:platform: is not in the file, and what an ESC environment adds is known only to Pulumi; "
                "copy it here to preview it")
            ],
        ),
    ],
)  # fmt: skip
def test_says_what_a_file_without_a_platform_holds(text: str, sentences: list[str]) -> None:
    """Every way to have no platform has its sentence and line."""
    assert said_of(text) == sentences


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("region: us-west-2", f"3: region: is not a config key of this program; allowed: llm-platform:platform, {OWN_KEYS}"),
        ("llm-platform:config:platform: {}", "3: llm-platform:config:platform: is not a config key of this program; did you mean llm-platform:platform?"),
        ("llm-platform:rayToken: {secure: v1}", "3: llm-platform:rayToken: is not a config key of this program; did you mean llm-platform:rayAuthToken?"),
        ("llm-platform:hugging_face_token: {secure: v1}", "3: llm-platform:hugging_face_token: is not a config key of this program; did you mean llm-platform:huggingFaceToken?"),
        (
            "llm-platform:huggingFaceToken: hf_abcdefghijk",
            ("3: llm-platform:huggingFaceToken: is a secret in plain text; change it where it is from, remove it here, and run: "
            "pulumi config set --secret llm-platform:huggingFaceToken"),
        ),
    ],
)  # fmt: skip
def test_refuses_config_that_nobody_reads(key: str, sentence: str) -> None:
    """A key beside the platform that this program does not read is a mistake, and a secret is encrypted."""
    assert said(("config:\n", f"config:\n  {key}\n")) == [sentence]


@pytest.mark.parametrize(
    "key",
    ["aws:region: us-west-2", "kubernetes:context: here", "llm-platform:redisPassword: {secure: v1:abc}"],
)
def test_leaves_the_config_of_others_alone(key: str) -> None:
    """Other providers have keys of their own, and secrets are keys of this program."""
    assert said(("config:\n", f"config:\n  {key}\n")) == []


def test_refuses_encrypted_values_within_the_platform() -> None:
    """They would make the whole platform a secret that no rule can read; nothing more is said about the place."""
    assert said(('accountId: "111122223333"', "accountId: {secure: v1:abc}"), ("prefix: llama-8b", "prefix: 5")) == [
        ("5: accountId: is encrypted, and the platform holds no secrets; remove it and use a key of its own: "
        f"pulumi config set --secret KEY, with {OWN_KEYS}"),
        '24: models.0.source.prefix: 5 is not text; write it in quotes: "5"',
    ]  # fmt: skip


def test_names_the_secrets_it_holds() -> None:
    """Which secrets are set is known without decrypting them."""
    text = changed(("config:\n", "config:\n  llm-platform:rayAuthToken: {secure: v1}\n  aws:region: x\n"))

    assert stack_file.parse(text, NAME).secrets == ("rayAuthToken",)


@pytest.mark.parametrize(
    "text", [TEXT, "\ufeff" + TEXT, TEXT.replace("\n", "\r\n"), "---\n" + TEXT, TEXT + "...\n"]
)
def test_reads_the_same_settings_from_every_encoding(text: str, tmp_path: Path) -> None:
    """A byte order mark, line ends of Windows and the marks of a document change nothing."""
    path = tmp_path / NAME
    path.write_bytes(text.encode())

    assert stack_file.settings_of(stack_file.read(path)) == stack_file.settings_of(
        stack_file.parse(TEXT, NAME)
    )


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            b"config:\n  a: \xff\n",
            "Pulumi.test.yaml:2: is not UTF-8 text (byte 14 is 0xff); save it as UTF-8",
        ),
        (b"\x89PNG\r\n", "Pulumi.test.yaml:1: is not UTF-8 text (byte 1 is 0x89); save it as UTF-8"),
        (
            b"a: " + b"x" * 600_000,
            "Pulumi.test.yaml:1: is larger than 512 KiB; a stack of a hundred models takes about 70",
        ),
    ],
)
def test_says_why_bytes_are_no_stack_file(content: bytes, sentence: str, tmp_path: Path) -> None:
    """Binary and endless files are refused before they are parsed."""
    path = tmp_path / NAME
    path.write_bytes(content)

    assert refusal(path) == sentence


def test_names_the_stacks_that_are_there(tmp_path: Path) -> None:
    """A stack that is not there is most often a name mistyped."""
    for name in ("dev", "prod"):
        (tmp_path / f"Pulumi.{name}.yaml").touch()

    assert refusal(tmp_path / "Pulumi.prd.yaml") == "Pulumi.prd.yaml: no such stack; there are: dev, prod"
    assert refusal(tmp_path / "none" / "Pulumi.x.yaml") == "Pulumi.x.yaml: no such stack; there are: none"


def test_says_why_a_path_cannot_be_read(tmp_path: Path) -> None:
    """A folder in the place of the file is said in the system's words."""
    (tmp_path / NAME).mkdir()

    assert refusal(tmp_path / NAME) == f"Pulumi.test.yaml: cannot be read: {os.strerror(21)}"


def test_a_path_with_strange_names_stays_on_one_line() -> None:
    """A key with a line break or a terminal code cannot change what the reader sees."""
    [sentence, *_] = said(("        tensorParallel: 1\n", '        "a\\n\\e[31mb": 1\n'))

    assert sentence.startswith('28: models.0."a\\n\\u001b[31mb": is not a setting; allowed here: name, source')  # fmt: skip


def test_a_hundred_problems_are_enough() -> None:
    """A wrong indent at the top breaks every line; the rest is counted."""
    found = said_of("config:\n  llm-platform:platform:\n" + "".join(f"    k{i}: 1\n" for i in range(300)))

    assert len(found) == 101
    assert found[-1] == "… and 203 more"
