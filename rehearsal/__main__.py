"""`python -m rehearsal up|down|status --stack local`: a stack on this machine, by the real Pulumi engine."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from rehearsal.errors import RehearsalError
from rehearsal.session import PROGRAM, Session, as_json, counts, kinds
from rehearsal.simulated_operators import simulated_names
from tools import terminal
from tools.table import ToolsError

NOT_AWS = (
    "Nodes and pods are simulated: no image is pulled, no container runs, no model answers.",
    "The status of what operators own is written by stand-ins for {operators}.",
    "No chart is installed; of each operator only the CRDs are there, as on a cluster that has it.",
    "Network policies and disruption budgets are accepted but nothing enforces them.",
    "Nothing of AWS is made: no nodes, load balancers, buckets, identities.",
)


def say(text: str) -> None:
    """One line of progress on stderr."""
    terminal.say(text, "rehearsal")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rehearsal", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (
        ("up", "bring the stack up and leave it up"),
        ("down", "destroy the stack, check that nothing is left, end all processes"),
        ("status", "say what is up"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--stack", default="local")
        command.add_argument("--program", type=Path, default=PROGRAM, help="another program's __main__.py")
        if name == "up":
            command.add_argument(
                "--json", action="store_true", help="print the counts as JSON instead of text"
            )
        if name == "down":
            command.add_argument(
                "--discard",
                action="store_true",
                help="end the processes and forget the state without destroying",
            )
    return parser


def _up(session: Session, *, json_wanted: bool) -> None:
    started = time.monotonic()
    result = session.up()
    if json_wanted:
        terminal.show(as_json(result))
        return
    plane = session.plane()
    terminal.show(f"Stack {session.stack} is up after {time.monotonic() - started:.0f} s: {counts(result)}.")
    terminal.show(f"{result.changed} changes. The engine's state holds:")
    for kind, number in kinds(result):
        terminal.show(f"  {number:3}  {kind}")
    terminal.show(
        f"\nLook at it:\n  export KUBECONFIG={plane.kubeconfig}\n  kubectl get all --all-namespaces"
    )
    terminal.show("\nWhat is different on AWS:")
    for line in NOT_AWS:
        terminal.show(f"  * {line.format(operators=', '.join(simulated_names()))}")
    terminal.show(f"\nEnd it with `make down STACK={session.stack}`.")


def _down(session: Session, *, discard: bool) -> None:
    started = time.monotonic()
    was_up = session.discard() if discard else session.down()
    if not was_up:
        terminal.show(f"Nothing is up for the stack {session.stack}.")
        return
    how = "ended without destroying it" if discard else "destroyed, nothing of it is left"
    terminal.show(f"Stack {session.stack} is down after {time.monotonic() - started:.0f} s: {how}.")


def _status(session: Session) -> None:
    for name, value in session.state().items():
        terminal.show(f"{name}: {value}")


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """Run one command; 0 good, 1 with sentences on stderr, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        session = Session(arguments.stack, say, arguments.program.resolve())
        match arguments.command:
            case "up":
                _up(session, json_wanted=arguments.json)
            case "down":
                _down(session, discard=arguments.discard)
            case _:
                _status(session)
    except (RehearsalError, ToolsError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; its processes are ended, the state is kept.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
