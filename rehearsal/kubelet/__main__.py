"""`python -m rehearsal.kubelet --kubeconfig FILE --state DIR`: run process pods until SIGTERM.

It has to run in the rehearsal's network namespace, where the bridge is.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from rehearsal.api import Api
from rehearsal.kubelet.node import Options, follow
from rehearsal.kubelet.sandbox import SandboxError
from tools import terminal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rehearsal.kubelet", description=__doc__)
    parser.add_argument(
        "--kubeconfig", type=Path, required=True, help="the API server and an administrator's token"
    )
    parser.add_argument(
        "--state", type=Path, required=True, help="folder for logs, claims and the pods' files"
    )
    parser.add_argument("--bridge", default="10.244.0.1", help="address of the pods' bridge (%(default)s)")
    parser.add_argument("--bridge-name", help="its name, when it is not the interface with that address")
    parser.add_argument(
        "--time-factor", type=float, default=1.0, help="divide graces by this, so that a rehearsal is shorter"
    )
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run; 0 after SIGTERM, 1 with a sentence when this is not the right place."""
    arguments = _parser().parse_args(argv)
    stopped = threading.Event()

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    options = Options(
        arguments.state.resolve(), arguments.bridge, arguments.bridge_name, max(arguments.time_factor, 0.001)
    )
    options.state.mkdir(parents=True, exist_ok=True)
    try:
        follow(Api.from_kubeconfig(arguments.kubeconfig), options, stopped)
    except (SandboxError, OSError) as error:
        terminal.say(str(error), "kubelet")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
