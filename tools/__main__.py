"""`python -m tools build [NAME…]`, `path NAME`, `list`, `crds`: the tools of the rehearsal, found or built."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from tools import build, cache, crds
from tools.table import TOOLS, ToolsError, find
from tools.terminal import say, show


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="find or build tools (all, or those named) and the CRDs")
    builder.add_argument("names", nargs="*", metavar="NAME")
    path = commands.add_parser("path", help="print where a tool is; exit code 1 when it is not there")
    path.add_argument("name")
    commands.add_parser("list", help="print each tool, its version and where it is")
    commands.add_parser("crds", help="collect the CRDs of the operators and print their folder")
    return parser


def _build(names: list[str]) -> None:
    wanted = [find(name) for name in names] if names else list(TOOLS)
    for tool in wanted:
        show(f"{tool.name} {build.ensure(tool)}")
    if not names:
        _crds()


def _crds() -> None:
    collected = crds.ensure()
    show(str(collected.folder))
    for note in collected.notes:
        say(note)


def _path(name: str) -> None:
    tool = find(name)
    found = cache.locate(tool)
    if found is None:
        message = (
            f"{tool.name} is not built and not on PATH in version {tool.versions[0]}. Run `make tools` first."
        )
        raise ToolsError(message)
    show(str(found))


def _list() -> None:
    for tool in TOOLS:
        show(f"{tool.name:25} {tool.versions[0]:10} {cache.locate(tool) or 'not built'}")


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 good, 1 with a sentence on stderr, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        match arguments.command:
            case "build":
                _build(arguments.names)
            case "path":
                _path(arguments.name)
            case "list":
                _list()
            case _:
                _crds()
    except ToolsError as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept, run it again to go on.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
