"""`llmp preview`: what `pulumi up` would make of a stack, without engine, cloud or network."""

import gc
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain, put

STDOUT = Path("-")

if TYPE_CHECKING:
    from preview.build import Preview


def preview(
    stack: Annotated[str, typer.Option(help="Stack: the S of Pulumi.S.yaml.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all of it as JSON; - for standard output.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write one YAML file per Kubernetes object into this folder.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the pull request comment; - for standard output.")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="JSON of the base branch's preview: the comment says what changes.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the program; this repository's if unset.")
    ] = None,
) -> None:
    """Show every resource of a stack, its models, and what is wrong with it.

    Exit code 0: good; 1: a mandatory rule is broken; 2: the stack file cannot be used.
    """
    if json_file == markdown == STDOUT:
        complain("--json - and --markdown - would both write to standard output; give one of them a file")
        raise typer.Exit(EXIT_BAD_INPUT)
    result = built(stack, folder)
    against = _base(base) if base else None
    to_stdout = STDOUT in (json_file, markdown)
    if json_file:
        from preview.as_json import as_json  # noqa: PLC0415 - as below

        put(json.dumps(as_json(result), indent=1) + "\n", json_file)
    if markdown:
        from preview.markdown import as_markdown  # noqa: PLC0415 - as below

        put(as_markdown(result, against), markdown)
    if out:
        _write(result, out)
    if not to_stdout:
        from preview.text import print_report  # noqa: PLC0415 - as below

        print_report(result, Console(highlight=False, markup=False, soft_wrap=True))
    raise typer.Exit(EXIT_FINDING if result.refused else 0)


def _write(result: "Preview", out: Path) -> None:
    from preview.files import write_objects  # noqa: PLC0415 - as below

    try:
        count = write_objects(result, out)
    except OSError as error:
        complain(f"--out {out}: cannot be written: {error.strerror}; name a folder")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    complain(f"{count} objects written to {out}")


def built(stack: str, folder: Path | None) -> "Preview":
    """The preview of a stack; a stack file that cannot be used is said on standard error and ends the command with 2."""
    gc.disable()  # a quarter of the time to import the SDKs goes into collecting what is all kept; the process is short
    # Imported here so that `llmp --help` and bad arguments do not wait for the provider SDKs.
    from pulumi import RunError  # noqa: PLC0415

    from components import guard  # noqa: F401, PLC0415 - puts the rules on the path
    from components.settings.problems import SettingsError  # noqa: PLC0415
    from preview.build import ROOT, build  # noqa: PLC0415

    program = (folder or ROOT) / "__main__.py"
    if not program.is_file():
        complain(f"--folder {folder}: there is no __main__.py; name the folder of the program")
        raise typer.Exit(EXIT_BAD_INPUT)
    try:
        return build(stack, folder or ROOT)
    except (SettingsError, RunError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None


def _base(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and isinstance(content.get("resources"), list):
            return content
        reason = "it has no list of resources"
    except (OSError, ValueError) as error:
        reason = str(error)
    complain(f"--base {path}: is not what `llmp preview --json` writes: {reason}")
    raise typer.Exit(EXIT_BAD_INPUT)
