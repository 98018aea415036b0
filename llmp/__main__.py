"""`llmp`, or `python -m llmp`."""

import sys

import typer

from llmp.preview import preview

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Know an LLM serving stack before it costs money.",
)
app.command()(preview)


@app.callback()
def _commands() -> None:
    """Keep `llmp preview` a subcommand while there is only one."""


def main() -> None:
    """Entry point of the console script."""
    sys.exit(app())


if __name__ == "__main__":
    main()
