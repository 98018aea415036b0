"""`llmp`, or `python -m llmp`."""

import signal
import sys

import typer

from llmp.bench import bench, compare
from llmp.check import check
from llmp.comment import comment
from llmp.pins import pins
from llmp.preflight import preflight
from llmp.preview import preview
from llmp.serve import serve
from llmp.simulate import simulate
from llmp.size import size
from llmp.touched import stacks_touched
from llmp.words import EXIT_INTERRUPTED

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Know an LLM serving stack before it costs money.",
)
for command in (
    preview, check, size, simulate, serve, bench, compare, preflight, pins, stacks_touched, comment,
):  # fmt: skip
    app.command()(command)


def main() -> None:
    """Entry point of the console script."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `llmp preview | head` ends quietly, like any filter
    try:
        sys.exit(app())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
