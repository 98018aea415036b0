"""Words for the terminal: progress and errors on stderr, results on stdout, both at once and not when a buffer is full."""

from __future__ import annotations

import sys


def say(text: str, who: str = "tools") -> None:
    """A line of progress, or an error, with who says it."""
    print(f"{who}: {text}", file=sys.stderr, flush=True)  # noqa: T201 - this module is where words go out


def show(text: str) -> None:
    """A line of the result."""
    print(text, flush=True)  # noqa: T201 - this module is where words go out
