"""`python -m tools.serving build | path | python`: the environment of the real Ray Serve LLM and vLLM."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from tools.serving import environment
from tools.table import ToolsError
from tools.terminal import say, show


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.serving", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the environment and the tiny model, if they are not there")
    commands.add_parser("path", help="print the environment's folder; exit code 1 when it is not there")
    commands.add_parser("python", help="print its Python; exit code 1 when it is not there")
    return parser


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 good, 1 with a sentence on stderr, 130 when interrupted."""
    command = _parser().parse_args(argv).command
    signal.signal(signal.SIGTERM, _terminated)
    try:
        found = environment.ensure() if command == "build" else environment.locate()
        if found is None:
            say("The serving environment is not built. Run `make serving-env` first.", "tools.serving")
            return 1
        show(str(found.python if command == "python" else found.folder))
    except ToolsError as error:
        say(str(error), "tools.serving")
        return 1
    except KeyboardInterrupt:
        say("interrupted; run the same command again to go on", "tools.serving")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
