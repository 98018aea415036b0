"""`llmp stacks-touched`: which stacks the commits since a base touch."""

import json
from pathlib import Path
from typing import Annotated

import typer

from llmp.words import EXIT_BAD_INPUT, complain


def stacks_touched(
    *,
    base: Annotated[str, typer.Option(help="Commit or branch to compare with, like origin/main.")],
    branch: Annotated[
        str | None, typer.Option(help="Only stacks that delivery/ updates from this branch.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON list instead of one stack a line.")
    ] = False,
    folder: Annotated[Path, typer.Option(help="Folder of the program, in a git checkout.")] = Path(),
) -> None:
    """List the stacks whose `pulumi up` could make something else since BASE. Only commits count.

    Exit code 0: said, even if it is none; 2: git cannot compare with BASE.
    """
    # Imported here so that `llmp --help` stays quick.
    from preview.touched import UnknownBase, changed_since, delivered, stacks_in, touched  # noqa: PLC0415

    try:
        changed = changed_since(base, folder)
    except UnknownBase as error:
        complain(f"--base {base}: {error}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    stacks = stacks_in(folder)
    found = stacks if changed is None else touched(changed, stacks)
    if branch is not None:
        branches = delivered(folder)
        found = [stack for stack in found if branches.get(stack) == branch]
    typer.echo(json.dumps(found) if as_json else "\n".join(found), nl=bool(found) or as_json)
