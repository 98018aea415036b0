"""`python -m rehearsal up|down|status --stack local`: a stack on this machine, by the real Pulumi engine."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rehearsal import agents
from rehearsal.answers import endpoints
from rehearsal.engine import Result
from rehearsal.errors import BadInputError, RehearsalError
from rehearsal.session import PROGRAM, Session, as_json, counts, kinds
from rehearsal.session_plan import Plan
from rehearsal.simulated_operators import simulated_names
from tools import terminal
from tools.table import ToolsError

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


def _acted(plan: Plan) -> list[str]:
    return agents.played(plan.real) if "agents" in plan.parts else simulated_names(plan.real)


# What a rehearsal is not, each with when it holds.
DIFFERENT: tuple[tuple[Callable[[Plan], bool], str], ...] = (
    (
        lambda plan: not plan.live,
        "Pods are simulated: no image is pulled, no container runs, no model answers.",
    ),
    (
        lambda plan: bool(plan.live),
        "Ray's pods of {live} are processes of this machine, with Ray and vLLM for CPUs; other pods are simulated.",
    ),
    (lambda plan: "karpenter" not in plan.parts, "Nodes are simulated, and large enough for every pod."),
    (
        lambda plan: "karpenter" in plan.parts,
        "Nodes are launched by the real Karpenter in a simulated EC2, which is never out of capacity.",
    ),
    (
        lambda plan: bool(plan.real),
        "The operators that run are {real}; KubeRay is 1.5.0, the newest as a Go module.",
    ),
    (lambda _plan: True, "Stand-ins do the work of: {acted}."),
    (
        lambda plan: not plan.created,
        "No chart is installed; of each operator only the CRDs are there, as on a cluster that has it.",
    ),
    (
        lambda plan: plan.created,
        "Each chart is a stub of the same name and values, with the real one's CRDs.",
    ),
    (lambda _plan: True, "Network policies are accepted but nothing enforces them."),
    (lambda plan: not plan.created, "Nothing of AWS is made: no nodes, load balancers, buckets, identities."),
    (
        lambda plan: plan.created,
        "AWS is moto on this machine, behind stand-ins for the AWS and EKS providers: nothing is paid, secrets are stand-ins.",
    ),
)


def different(plan: Plan) -> list[str]:
    """What is not as on AWS, in sentences."""
    words = {
        "live": ", ".join(plan.live),
        "real": ", ".join(sorted(plan.real)),
        "acted": ", ".join(_acted(plan)),
    }
    return [text.format(**words) for holds, text in DIFFERENT if holds(plan)]


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
                "--live",
                type=_names,
                metavar="MODEL,…",
                help="models whose pods run as processes, or none (unset: all where the stack has a cluster already)",
            )
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


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(filter(None, text.split(",")))


def _up(session: Session, *, json_wanted: bool) -> None:
    started = time.monotonic()
    result = session.up()
    asked = _first_answers(session, started)
    if json_wanted:
        terminal.show(as_json(result))
        return
    plan = session.plan
    terminal.show(f"Stack {session.stack} is up after {time.monotonic() - started:.0f} s: {counts(result)}.")
    terminal.show(f"{result.changed} changes. The engine's state holds:")
    for kind, number in kinds(result):
        terminal.show(f"  {number:3}  {kind}")
    _show_ways_in(session, asked)
    _show_differences(plan, result)
    terminal.show(f"\nEnd it with `make down STACK={session.stack}`.")


def _first_answers(session: Session, started: float) -> list[str]:
    """Ask each live model once; gives back a command for each."""
    commands = []
    for endpoint in endpoints(session.doors(), session.settings()):
        name = endpoint.first_answer()
        say(f"{endpoint.model} has answered, {time.monotonic() - started:.0f} s after the start")
        commands.append(endpoint.curl(name))
    return commands


def _show_ways_in(session: Session, commands: list[str]) -> None:
    if commands:
        terminal.show("\nAsk it:")
        for command in commands:
            terminal.show(f"  {command}")
    kubeconfig = session.plane().kubeconfig
    terminal.show(f"\nLook at it:\n  export KUBECONFIG={kubeconfig}\n  kubectl get all --all-namespaces")


def _show_differences(plan: Plan, result: Result) -> None:
    terminal.show("\nWhat is different on AWS:")
    why = [f"{plan.why[0].upper()}{plan.why[1:]}."] if plan.why else []
    for line in (*why, *different(plan)):
        terminal.show(f"  * {line}")
    if result.substituted:
        terminal.show("\nWhat the rehearsal changed in the models:")
        for line in result.substituted:
            terminal.show(f"  * {line}")


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
    """Run one command; 0 good, 1 failed and 2 bad input, both with sentences on stderr, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        live = getattr(arguments, "live", None)
        session = Session(arguments.stack, say, arguments.program.resolve(), wanted=live)
        match arguments.command:
            case "up":
                _up(session, json_wanted=arguments.json)
            case "down":
                _down(session, discard=arguments.discard)
            case _:
                _status(session)
    except BadInputError as error:
        say(str(error))
        return BAD_INPUT
    except (RehearsalError, ToolsError) as error:
        say(str(error))
        return FAILED
    except KeyboardInterrupt:
        say("interrupted; its processes are ended, the state is kept.")
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
