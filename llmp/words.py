"""Where the commands' words go, and what their exit codes mean."""

import sys
from pathlib import Path
from typing import Final

import typer

EXIT_FINDING: Final = 1  # understood, and something is wrong
EXIT_BAD_INPUT: Final = 2  # not understood
EXIT_INTERRUPTED: Final = 130  # Ctrl-C, as shells count it


def complain(text: str) -> None:
    """Say something that is not the result: on standard error, never folded, so that `file:line` stays whole."""
    sys.stderr.write(text + "\n")


def put(text: str, path: Path) -> None:
    """Write a result to a file, or to standard output for `-`.

    Raises:
        typer.Exit: the file cannot be written; said on standard error.
    """
    if path == Path("-"):
        sys.stdout.write(text)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        complain(f"{path}: cannot be written: {error.strerror}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
