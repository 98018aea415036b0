"""The process that owns an embedded control plane: starts its parts, watches them, ends them.

It is a process of its own for three reasons. Its standard input is a pipe from whoever started it, so it notices
on every system when that one is gone, SIGKILL included. Children tied to its main thread end with it. And a
control plane can stay when the command that started it ends: after the word `keep` the pipe no longer matters.

It holds a lock on `keeper.lock` as long as it lives. The lock, not a pid, says whether a control plane runs.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from rehearsal import parts
from rehearsal.errors import ControlPlaneError, RehearsalError
from rehearsal.processes import STOP_SECONDS, end_leftovers, free_port, start, stop_all, tail, wait_until
from tools import terminal

STATE_NAME = "plane.json"
LOCK_NAME = "keeper.lock"
READY_SECONDS = 90.0
PROGRESS_SECONDS = 5.0
POLL_SECONDS = 0.2
LOCK_SECONDS = 1.0
BUSY_STATUS = 3


def write_state(state: Path, content: dict[str, Any]) -> None:
    """Replace the state file in one step, so that a reader never sees half of it."""
    temporary = state / f".{STATE_NAME}.new"
    temporary.write_text(json.dumps(content, indent=1))
    temporary.replace(state / STATE_NAME)


def read_state(state: Path) -> dict[str, Any]:
    """What a keeper last wrote about its control plane; empty when there was none."""
    try:
        content = json.loads((state / STATE_NAME).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


class Keeper:
    """Starts, watches and ends the processes of one state folder."""

    def __init__(
        self, state: Path, names: list[str], context: str, address: str, binaries: dict[str, Path]
    ) -> None:
        """Choose ports, those of the last run where they are free, so that addresses stay."""
        last = read_state(state)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.names = names
        self.stopping = False
        ports = {name: free_port(address, last.get("ports", {}).get(name, 0)) for name in parts.PORTS}
        self.places = parts.Places(state, context, address, ports, binaries)
        end_leftovers(last.get("pids", {}).values(), str(state))

    def start(self) -> None:
        """Start the parts one after another, each when the one before it is ready. Raises ControlPlaneError."""
        parts.write_access(self.places)
        self._note()
        for name in self.names:
            log = self.places.log(name)
            log.unlink(missing_ok=True)
            self.running[name] = start(parts.PARTS[name].command(self.places), log)
            self._note()
            self._wait_ready(name)

    def _wait_ready(self, name: str) -> None:
        part, started, told = parts.PARTS[name], time.monotonic(), time.monotonic()
        while not part.ready(self.places):
            self.check()
            now = time.monotonic()
            if now - started > READY_SECONDS:
                raise ControlPlaneError(self._failure(name, f"is not ready after {READY_SECONDS:.0f} s"))
            if now - told > PROGRESS_SECONDS:
                told = now
                terminal.say(f"waiting for {name}, {now - started:.0f} s", "rehearsal")
            if self.stopping:
                raise KeyboardInterrupt
            time.sleep(POLL_SECONDS / 2)

    def check(self) -> None:
        """Raise ControlPlaneError, with the end of its log, when a part has ended by itself."""
        for name, process in self.running.items():
            code = process.poll()
            if code is not None:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
                raise ControlPlaneError(self._failure(name, how))

    def _failure(self, name: str, how: str) -> str:
        log = self.places.log(name)
        return f"{name} {how}. The end of {log}:\n{tail(log)}"

    def stop(self, error: str = "") -> None:
        """End all parts, etcd last because the others write to it; after an error there is nothing to wait for."""
        self._note(error, ending=True)
        seconds = 0.0 if error else STOP_SECONDS
        running = list(self.running.values())
        stop_all(running[1:], seconds)
        stop_all(running[:1], seconds)
        self.running.clear()
        self._note(error)

    def _note(self, error: str = "", *, ending: bool = False) -> None:
        write_state(
            self.places.state,
            {
                "keeper": os.getpid(),
                "pids": {name: process.pid for name, process in self.running.items()},
                "parts": self.names,
                "ports": self.places.ports,
                "url": self.places.url,
                "context": self.places.context,
                "error": error,
                "ending": ending,
            },
        )


def _watch(keeper: Keeper) -> None:
    """Until asked to stop, or the starter is gone without having said `keep`, or a part ends (raises)."""
    tied = True
    while not keeper.stopping:
        keeper.check()
        if not tied:
            time.sleep(POLL_SECONDS)
        elif select.select([sys.stdin.fileno()], [], [], POLL_SECONDS)[0]:
            words = os.read(sys.stdin.fileno(), 100)
            if b"keep" in words:
                tied = False
                _let_go()
            elif not words:
                return


def _let_go() -> None:
    """Point the standard streams away from the command that started this, which is about to end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _report(content: dict[str, str]) -> None:
    try:
        terminal.show(json.dumps(content))
    except OSError:
        _let_go()


def hold_lock(state: Path) -> int | None:
    """The descriptor of the held lock of a state folder, or None when a keeper has it."""
    descriptor = os.open(state / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def main() -> int:
    """Keep one control plane; says on stdout in one JSON line whether it is ready."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--context", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--binaries", required=True, help="JSON: name to path")
    parser.add_argument("parts", nargs="+")
    arguments = parser.parse_args()
    # Tried for a second, for whoever asks whether something runs holds the lock for an instant. Never closed here:
    # the system does it when this process is gone, and only then does nothing run.
    if not wait_until(lambda: hold_lock(arguments.state) is not None, LOCK_SECONDS):
        _report({"error": f"A control plane already runs in {arguments.state}."})
        return BUSY_STATUS
    binaries = {name: Path(path) for name, path in json.loads(arguments.binaries).items()}
    keeper = Keeper(arguments.state, arguments.parts, arguments.context, arguments.address, binaries)

    def ask_to_stop(_signal: int, _frame: FrameType | None) -> None:
        keeper.stopping = True

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    error = ""
    try:
        keeper.start()
        _report({"ready": keeper.places.url})
        _watch(keeper)
    except RehearsalError as failure:
        error = str(failure)
        _report({"error": error})
    except KeyboardInterrupt:
        pass
    finally:
        keeper.stop(error)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
