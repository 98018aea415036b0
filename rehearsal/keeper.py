"""The process that owns an embedded control plane: starts its parts, watches them, ends them.

It is a process of its own for three reasons. Its standard input is a pipe from whoever started it, so it notices
on every system when that one is gone, SIGKILL included. Children tied to its main thread end with it. And a
control plane can stay when the command that started it ends: after the word `keep` the pipe no longer matters.

It holds a lock on `keeper.lock` as long as it lives. The lock, not a pid, says whether a control plane runs.

With `--namespace` it first steps into namespaces of its own (`namespace.py`), of which it is the first process.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from rehearsal import doorway, namespace, operator_parts, parts
from rehearsal.api import Api
from rehearsal.errors import ApiError, ApiUnreachableError, ControlPlaneError, RehearsalError
from rehearsal.places import Part, Places, Release
from rehearsal.processes import STOP_SECONDS, end_leftovers, free_port, start, stop_all, tail, wait_until
from tools import terminal

STATE_NAME = "plane.json"
LOCK_NAME = "keeper.lock"
READY_SECONDS = 90.0
PROGRESS_SECONDS = 5.0
POLL_SECONDS = 0.2
LOCK_SECONDS = 1.0
BUSY_STATUS = 3
TEND_SECONDS = 1.0
RESTARTS = 3  # of an operator, before it counts as broken
STEADY_SECONDS = 60.0  # how long it must run for that to be counted anew
# Go lets a heap double before it collects; at half of that the API server and Karpenter keep 200 MB less.
GARBAGE = {"GOGC": "50"}
NO_PROXY_WORDS = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


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


@dataclass(frozen=True)
class Arguments:
    """What a keeper is told when it is started."""

    state: Path
    context: str
    address: str
    parts: list[str]
    binaries: dict[str, Path]
    namespace: bool = False
    present: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)


@dataclass
class Operator:
    """What the keeper knows about a part that comes and goes with its chart."""

    part: Part
    started: float = 0.0
    restarts: int = 0
    release: Release | None = None


class Keeper:
    """Starts, watches and ends the processes of one state folder."""

    def __init__(self, arguments: Arguments) -> None:
        """Choose ports, those of the last run where they are free, so that addresses stay."""
        last = read_state(arguments.state)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.arguments = arguments
        self.stopping = False
        self.pid = os.getpid()
        self.listeners: dict[str, socket.socket] = {}
        self.operators: dict[str, Operator] = {}
        self.fixed: list[str] = []
        for name in arguments.parts:
            if parts.PARTS[name].chart:
                self.operators[name] = Operator(parts.PARTS[name])
            else:
                self.fixed.append(name)
        if not last.get("namespace"):
            end_leftovers(last.get("pids", {}).values(), str(arguments.state))
        if arguments.namespace:
            self._step_inside(last)
        address = namespace.ADDRESS if arguments.namespace else arguments.address
        ports = {name: free_port(address, last.get("ports", {}).get(name, 0)) for name in parts.PORTS}
        doors = {name: listener.getsockname()[1] for name, listener in self.listeners.items()}
        self.places = Places(
            arguments.state,
            arguments.context,
            address,
            ports,
            arguments.binaries,
            tuple(arguments.parts),
            doors,
            arguments.facts,
        )
        self.tended = 0.0

    def _step_inside(self, last: dict[str, Any]) -> None:
        """Open the doors on the machine, then go inside with them."""
        wanted = [name for name in parts.DOORS if name in self.arguments.parts]
        ports = {name: free_port(doorway.LOOPBACK, last.get("doors", {}).get(name, 0)) for name in wanted}
        self.listeners = {name: doorway.listen(port) for name, port in ports.items()}
        self.pid = namespace.enter()
        self.fixed.insert(0, "doorway")

    def start(self) -> None:
        """Start the parts one after another, each when the one before it is ready. Raises ControlPlaneError."""
        parts.write_access(self.places)
        self._note()
        for name in (*self.fixed, *self.operators):
            self.places.log(name).unlink(missing_ok=True)
        for name in self.fixed:
            self._start(parts.PARTS[name])
            self._wait_ready(name)
            if name == "doorway":
                self._open_doors()

    def _start(self, part: Part) -> None:
        env = {word: value for word, value in os.environ.items() if word.lower() not in NO_PROXY_WORDS}
        env = {**GARBAGE, **env, **part.env(self.places)}
        self.running[part.name] = start(part.command(self.places), self.places.log(part.name), env)
        self._note()

    def _open_doors(self) -> None:
        for name, listener in self.listeners.items():
            target = f"{self.places.address}:{self.places.ports[name]}"
            doorway.hand_in(self.places.state, listener, target)
            listener.close()

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
        for name in self.fixed:
            if name in self.running and (how := self._ended(name)):
                raise ControlPlaneError(self._failure(name, how))

    def _ended(self, name: str) -> str:
        """How a part has ended by itself; empty while it runs."""
        code = self.running[name].poll()
        if code is None:
            return ""
        return f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"

    def tend(self) -> None:
        """Let the operators run that should, and collect what orphans leave. Raises ControlPlaneError."""
        if time.monotonic() - self.tended < TEND_SECONDS:
            return
        self.tended = time.monotonic()
        if self.arguments.namespace:
            self._reap()
        if not self.operators:
            return
        try:
            found = _releases(self.api)
            self.places.releases.clear()
            self.places.releases.update(found)
            for operator in self.operators.values():
                self._tend_one(operator)
        except (ApiError, ApiUnreachableError):
            return  # busy or just ending: the next turn asks again

    @cached_property
    def api(self) -> Api:
        """A client of the API server, once that runs."""
        return Api.from_kubeconfig(self.places.kubeconfig_inside)

    def _tend_one(self, operator: Operator) -> None:
        name, release = operator.part.name, self.places.releases.get(operator.part.chart)
        wanted = release is not None or name in self.arguments.present
        if name in self.running:
            if not wanted or release != operator.release:
                stop_all([self.running.pop(name)])
                self._note()
            elif how := self._ended(name):
                self._restart_or_give_up(operator, how)
        elif wanted and all(_served(self.api, crd) for crd in operator.part.needs):
            operator.started, operator.release = time.monotonic(), release
            self._start(operator.part)

    def _restart_or_give_up(self, operator: Operator, how: str) -> None:
        """Take an ended operator off the list, so that the next turn starts it; its log goes on."""
        name = operator.part.name
        steady = time.monotonic() - operator.started > STEADY_SECONDS
        operator.restarts = 1 if steady else operator.restarts + 1
        if operator.restarts > RESTARTS:
            raise ControlPlaneError(self._failure(name, f"{how}, for the {operator.restarts}th time"))
        with self.places.log(name).open("a") as log:
            log.write(f"--- {name} {how}; start {operator.restarts} of {RESTARTS} after that ---\n")
        self.running.pop(name)
        self._note()

    def _reap(self) -> None:
        """Collect the processes whose parents are gone: here they are children of this one."""
        own = {process.pid for process in self.running.values()}
        while True:
            try:
                # Looked at first: the exit codes of own children are asked for elsewhere.
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid in own:
                return
            os.waitpid(found.si_pid, 0)

    def _failure(self, name: str, how: str) -> str:
        log = self.places.log(name)
        return f"{name} {how}. The end of {log}:\n{tail(log)}"

    def stop(self, error: str = "") -> None:
        """End all parts, those first that write to others; after an error there is nothing to wait for."""
        self._note(error, ending=True)
        seconds = 0.0 if error else STOP_SECONDS
        for names in (
            self.running.keys() - parts.STOPPED_LAST,
            parts.STOPPED_LAST[:1],
            parts.STOPPED_LAST[1:],
        ):
            stop_all([self.running[name] for name in names if name in self.running], seconds)
        self.running.clear()
        self._note(error)

    def _note(self, error: str = "", *, ending: bool = False) -> None:
        write_state(
            self.places.state,
            {
                "keeper": self.pid,
                "pids": {name: process.pid for name, process in self.running.items()},
                "parts": self.arguments.parts,
                "namespace": self.arguments.namespace,
                "ports": self.places.ports,
                "doors": self.places.doors,
                "url": self.places.url,
                "context": self.places.context,
                "error": error,
                "ending": ending,
            },
        )


def _releases(api: Api) -> dict[str, Release]:
    """The releases of stub charts, by the chart's name."""
    return {
        item["metadata"]["labels"][operator_parts.STUB_LABEL]: Release(
            item["metadata"]["namespace"], json.loads(item.get("data", {}).get("values.json", "{}"))
        )
        for item in api.items("/api/v1/configmaps", labelSelector=operator_parts.STUB_LABEL)
        if not item["metadata"].get("deletionTimestamp")
    }


def _served(api: Api, crd: str) -> bool:
    found = api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}") or {}
    return any(
        row["type"] == "Established" and row["status"] == "True"
        for row in found.get("status", {}).get("conditions") or []
    )


def _watch(keeper: Keeper) -> None:
    """Until asked to stop, or the starter is gone without having said `keep`, or a part ends (raises)."""
    tied = True
    while not keeper.stopping:
        keeper.check()
        keeper.tend()
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


def _arguments() -> Arguments:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--settings", required=True, help="JSON: the fields of Arguments but the state")
    given = parser.parse_args()
    settings = json.loads(given.settings)
    binaries = {name: Path(path) for name, path in settings.pop("binaries").items()}
    return Arguments(state=given.state, binaries=binaries, **settings)


def main() -> int:
    """Keep one control plane; says on stdout in one JSON line whether it is ready."""
    arguments = _arguments()
    # Tried for a second, for whoever asks whether something runs holds the lock for an instant. Never closed here:
    # the system does it when this process is gone, and only then does nothing run.
    if not wait_until(lambda: hold_lock(arguments.state) is not None, LOCK_SECONDS):
        _report({"error": f"A control plane already runs in {arguments.state}."})
        return BUSY_STATUS
    try:
        keeper = Keeper(arguments)
    except RehearsalError as failure:
        _report({"error": str(failure)})
        return 1

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
    except Exception:  # noqa: BLE001 - reported in full
        # A defect of ours. Whoever asks later why nothing runs must see it: this process may have no terminal.
        error = f"The keeper of the control plane failed:\n{traceback.format_exc()}"
        _report({"error": error})
    finally:
        keeper.stop(error)
    return 1 if error else 0


if __name__ == "__main__":
    sys.exit(main())
