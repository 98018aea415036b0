"""`llmp check`: the rules on manifests of anybody, without a cluster."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from llmp.words import EXIT_BAD_INPUT, complain


class Environment(StrEnum):
    """How strict hygiene is taken."""

    PROD = "prod"
    DEV = "dev"


class Format(StrEnum):
    """What is written to standard output."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"


class RuleProfile(StrEnum):
    """General rules, or also those that this program's own stacks keep."""

    GENERAL = "general"
    HOUSE = "house"


def check(
    paths: Annotated[
        list[str],
        typer.Argument(help="Files and folders of YAML and JSON, stack files; - for standard input."),
    ],
    env: Annotated[
        Environment | None, typer.Option(help="Environment; a stack file's own, else prod, if unset.")
    ] = None,
    engine: Annotated[
        list[str] | None,
        typer.Option(help="Version to assume where no image tells: vllm=0.29.0, ray=2.60.0."),
    ] = None,
    output: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.TEXT,
    profile: Annotated[RuleProfile, typer.Option(help="Which rules.")] = RuleProfile.GENERAL,
) -> None:
    """Check manifests, `helm template` and `kustomize build` output, and stack files.

    Exit code 0: no error found; 1: an error was found; 2: something could not be read (the rest was checked),
    or nothing was there to check.
    """
    _put_rules_on_path()
    from guardrails.checking import check_paths  # noqa: PLC0415 - needs the path, and `--help` does not wait for it
    from guardrails.core import Profile  # noqa: PLC0415
    from guardrails.reports import FORMATS  # noqa: PLC0415
    from guardrails.world import EngineDefaults  # noqa: PLC0415

    versions = _versions(engine or [])
    stdin = sys.stdin.buffer.read() if "-" in paths else None
    try:
        result = check_paths(
            paths,
            stdin=stdin,
            env=env.value if env else None,
            engine=EngineDefaults(vllm=versions.get("vllm"), ray=versions.get("ray")),
            profile=Profile(profile.value),
        )
    except Exception as error:  # noqa: BLE001 - a fault of a rule is ours: one sentence, and no verdict
        complain(f"a rule could not judge these files; please report it: {type(error).__name__}: {error}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    for line in (*result.notes, *(str(unread) for unread in result.unread)):
        complain(line)
    if result.is_empty:
        complain(f"{' '.join(paths)}: nothing to check: no YAML or JSON with an object in it was found there")
    _write(FORMATS[output.value](result))
    raise typer.Exit(result.exit_code)


def _put_rules_on_path() -> None:
    policies = str(Path(__file__).resolve().parent.parent / "policies")
    if policies not in sys.path:
        sys.path.append(policies)


def _versions(given: list[str]) -> dict[str, str]:
    """Versions by engine.

    Raises:
        typer.Exit: an entry is not NAME=VERSION; said on standard error.
    """
    versions = {}
    for entry in given:
        name, equals, version = entry.partition("=")
        if name not in ("vllm", "ray") or not equals or not version[:1].isdigit():
            complain(f"--engine {entry}: is not vllm=VERSION or ray=VERSION, as in vllm=0.29.0")
            raise typer.Exit(EXIT_BAD_INPUT)
        versions[name] = version
    return versions


def _write(text: str) -> None:
    """To standard output, in UTF-8 wherever it goes; a reader that has gone away is no fault."""
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
