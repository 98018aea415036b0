"""`llmp comment`: the one comment of a stack on a pull request, kept up to date through GitHub's own `gh`."""

import json
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain


def comment(
    stack: Annotated[str, typer.Option(help="Stack: the S of Pulumi.S.yaml.")],
    repository: Annotated[str, typer.Option(help="The repository, like acme/llm-platform.")],
    pull_request: Annotated[int, typer.Option(help="Number of the pull request.")],
    file: Annotated[Path, typer.Option(help="The report: what `llmp preview --markdown` wrote.")],
    problems: Annotated[
        Path | None,
        typer.Option(help="What the preview said on standard error, shown where there is no report."),
    ] = None,
) -> None:
    """Write the report into the comment that is there already, or make it. Needs `gh` and its GH_TOKEN.

    Exit code 0: done; 1: GitHub refused; 2: there is neither a report nor a reason.
    """
    # Imported here so that `llmp --help` stays quick; the guard puts the rules on the path.
    from components import guard  # noqa: F401, PLC0415
    from preview.comment import body_of, ours  # noqa: PLC0415
    from preview.markdown import MARKER  # noqa: PLC0415

    report, reason = _read(file), _read(problems) or ""
    if report is None and not reason:
        complain(f"--file {file}: there is no report, and --problems says no reason")
        raise typer.Exit(EXIT_BAD_INPUT)
    marker = MARKER.format(stack=stack)
    body = body_of(marker, stack, report, reason)
    pages = _gh(
        "api", "--paginate", "--slurp", f"repos/{repository}/issues/{pull_request}/comments?per_page=100"
    )
    there = ours((entry for page in json.loads(pages) for entry in page), marker)
    place = f"comments/{there}" if there else f"{pull_request}/comments"
    _gh(
        "api",
        "--method",
        "PATCH" if there else "POST",
        f"repos/{repository}/issues/{place}",
        "--input",
        "-",
        body=body,
    )
    complain(f"comment of stack {stack} {'updated' if there else 'made'}")


def _read(path: Path | None) -> str | None:
    return path.read_text(encoding="utf-8") if path and path.is_file() else None


def _gh(*arguments: str, body: str | None = None) -> str:
    """Run `gh`.

    Raises:
        typer.Exit: it is not there, or GitHub refused; said on standard error.
    """
    given = json.dumps({"body": body}) if body is not None else ""
    try:
        done = subprocess.run(["gh", *arguments], input=given, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        complain("`gh` is not on PATH; it is on every runner of GitHub Actions")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    if done.returncode:
        complain(f"gh {' '.join(arguments)}: {done.stderr.strip()}")
        raise typer.Exit(EXIT_FINDING)
    return done.stdout
