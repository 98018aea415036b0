"""An embedded Kubernetes control plane: real etcd and API server, on loopback, with a state folder of its own.

    with ControlPlane(folder) as plane:
        plane.api.apply({...})

It ends with the `with` block, and also when this process is killed. `ControlPlane(folder, parts=CLUSTER)` adds the
controller manager, the scheduler and simulated nodes. `keep()` leaves it running after this process, and
`ControlPlane(folder).stop()` ends it from any other.

`namespace=True` puts all of it into a network of its own, where pods can have addresses (`namespace.py`); where the
machine does not allow that it says so, and leaves out the parts that cannot do without.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from rehearsal import crd_install, doorway, keeper, namespace
from rehearsal.api import Api
from rehearsal.errors import ControlPlaneError, RehearsalError
from rehearsal.parts import API_ONLY, CONTEXT, PARTS
from rehearsal.places import KUBECONFIG, KUBECONFIG_INSIDE
from rehearsal.processes import end_leftovers, wait_until
from tools import cache, terminal
from tools.lifetime import Startable
from tools.table import find

ROOT = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1"
START_SECONDS = 300.0
STOP_SECONDS = 40.0


def tool_paths(names: Iterable[str]) -> dict[str, Path]:
    """Where the named tools are. Raises RehearsalError naming those that are missing and how to get them."""
    found = {name: cache.locate(find(name)) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        message = f"Not built yet: {', '.join(missing)}. Run `make tools` first (once, about 25 minutes on two cores)."
        raise RehearsalError(message)
    return {name: path for name, path in found.items() if path}


class ControlPlane(Startable):
    """One control plane, by its state folder. Several with different folders run side by side."""

    def __init__(
        self,
        state: Path,
        *,
        parts: tuple[str, ...] = API_ONLY,
        context: str = CONTEXT,
        address: str = LOOPBACK,
        namespace: bool = False,
        present: tuple[str, ...] = (),
        facts: Mapping[str, str] | None = None,
    ) -> None:
        """Take a folder for state and logs (made when missing), and the name of the kubeconfig's context.

        Args:
            state: the folder.
            parts: names of rows of `parts.PARTS`.
            context: the name of the kubeconfig's context.
            address: where it listens when it has no namespace.
            namespace: whether it gets a network of its own.
            present: operators among the parts that run without a release of their chart.
            facts: `account` and `region` of the AWS that is played.
        """
        self.state = state.resolve()
        self.parts = parts
        self.context = context
        self.address = address
        self.namespace = namespace
        self.present = present
        self.facts = dict(facts or {})
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file, as JSON, with one context and an administrator's token."""
        return self.state / KUBECONFIG

    @property
    def kubeconfig_inside(self) -> Path:
        """The same for processes in its namespace; equal to the other where there is none."""
        return self.state / KUBECONFIG_INSIDE

    @property
    def namespaced(self) -> bool:
        """Whether the running control plane has a namespace of its own."""
        return bool(keeper.read_state(self.state).get("namespace"))

    def running_parts(self) -> set[str]:
        """The names of the parts that run now; operators come and go with their charts."""
        return set(keeper.read_state(self.state).get("pids", {}))

    def address_of(self, name: str, *, inside: bool = False) -> str:
        """`HOST:PORT` of a part, for anyone on this machine or for processes inside. Raises ControlPlaneError."""
        last = keeper.read_state(self.state)
        port = last.get("ports", {}).get(name)
        if port is None:
            raise ControlPlaneError(f"The control plane in {self.state} has no port named {name}.")
        if not last.get("namespace"):
            return f"{self.address}:{port}"
        if inside:
            return f"{namespace.ADDRESS}:{port}"
        door = last.get("doors", {}).get(name)
        if door is None:
            raise ControlPlaneError(
                f"There is no door to {name}; there are: {', '.join(last.get('doors', {}))}."
            )
        return f"{LOOPBACK}:{door}"

    def inside(self, command: list[str]) -> list[str]:
        """The same command, to be run in the control plane's namespace where it has one."""
        last = keeper.read_state(self.state)
        return namespace.command(last["keeper"], command) if last.get("namespace") else list(command)

    def open_door(self, port: int, target: str) -> int:
        """Let a port of this machine lead inside, to `NAMESPACE/SERVICE:PORT` or `ADDRESS:PORT`; gives back the port.

        A Service's door leads to whatever endpoint is ready. Port 0 takes any free one. Raises ControlPlaneError.
        """
        if not self.namespaced:
            raise ControlPlaneError(
                f"The control plane in {self.state} has no namespace of its own, so no process pods and no doors."
            )
        with doorway.listen(port) as listener:
            doorway.hand_in(self.state, listener, target)
            return int(listener.getsockname()[1])

    @property
    def url(self) -> str:
        """The API server's address; empty before the first start."""
        return str(keeper.read_state(self.state).get("url", ""))

    @cached_property
    def api(self) -> Api:
        """A client of the API server. Raises ControlPlaneError when there is no running one."""
        self.check()
        return Api.from_kubeconfig(self.kubeconfig)

    def running(self) -> bool:
        """Whether a keeper holds this state folder."""
        if not (self.state / keeper.LOCK_NAME).exists():
            return False
        lock = keeper.hold_lock(self.state)
        if lock is None:
            return True
        os.close(lock)
        return False

    def _settled(self) -> bool:
        """Whether it runs; one that is just ending is waited for first."""
        wait_until(lambda: not (self.running() and keeper.read_state(self.state).get("ending")), STOP_SECONDS)
        return self.running()

    def check(self) -> None:
        """Raise ControlPlaneError, with the end of the log, when a process has died or nothing runs."""
        last = keeper.read_state(self.state)
        if self.running() and not last.get("error"):
            return
        killed = "The keeper of the control plane was killed" if last.get("pids") else "No control plane runs"
        raise ControlPlaneError(last.get("error") or f"{killed} in {self.state}.")

    def start(self) -> bool:
        """Start and wait until ready; False when it already runs. It is tied to this process until `keep()`.

        Raises RehearsalError when tools are missing, ControlPlaneError with the log's end when a process dies.
        """
        if self._settled():
            return False
        parts, namespaced = self._possible_parts()
        binaries = tool_paths(PARTS[name].tool for name in parts if PARTS[name].tool)
        self.state.mkdir(parents=True, exist_ok=True)
        self._forget_api()
        settings = {
            "context": self.context,
            "address": self.address,
            "parts": parts,
            "binaries": {name: str(path) for name, path in binaries.items()},
            "namespace": namespaced,
            "present": self.present,
            "facts": self.facts,
        }
        command = [
            sys.executable, "-m", "rehearsal.keeper",
            "--state", str(self.state), "--settings", json.dumps(settings),
        ]  # fmt: skip
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
        self._keeper = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        try:
            self._await_ready(self._keeper)
        except BaseException:
            self.stop()
            raise
        return True

    def _possible_parts(self) -> tuple[list[str], bool]:
        """The parts that can run here, and whether they get a namespace. Raises RehearsalError for a missing fact."""
        if "moto" in self.parts and not {"account", "region"} <= self.facts.keys():
            raise RehearsalError("A control plane with AWS needs the facts `account` and `region`.")
        reason = namespace.missing() if self.namespace else "it was not asked for"
        kept = [name for name in self.parts if not (reason and PARTS[name].namespace)]
        if reason and self.namespace:
            terminal.say(
                f"no network namespace of its own: {reason}. It runs on {self.address} instead; "
                f"not covered then: {namespace.NOT_COVERED}.",
                "rehearsal",
            )
        return kept, not reason

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        stdout = process.stdout
        if stdout is None or not select.select([stdout], [], [], START_SECONDS)[0]:
            message = f"The control plane in {self.state} said nothing for {START_SECONDS:.0f} s."
            raise ControlPlaneError(message)
        line = stdout.readline()
        content = (
            json.loads(line)
            if line.strip()
            else {"error": f"The keeper of {self.state} ended without a word."}
        )
        if "error" in content:
            raise ControlPlaneError(content["error"])

    def keep(self) -> None:
        """Leave it running when this process ends; nothing to do when another process started it."""
        process = self._keeper
        if process is None:
            return
        self._forget_api()
        if process.stdin and process.stdout:
            with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile; check() says why
                process.stdin.write(b"keep\n")
                process.stdin.close()
            process.stdout.close()
        self._keeper = None
        # It is not ours any more; Python would otherwise warn that a child still runs.
        process.returncode = 0

    def stop(self) -> bool:
        """End all processes, however they were started; False when nothing ran. State and logs stay.

        Raises ControlPlaneError when something does not end.
        """
        was_running = self.running()
        if self._keeper is not None:
            self._stop_own(self._keeper)
        elif was_running:
            self._signal_keeper(signal.SIGTERM)
        if not wait_until(lambda: not self.running(), STOP_SECONDS):
            self._signal_keeper(signal.SIGKILL)
            if not wait_until(lambda: not self.running(), STOP_SECONDS):
                message = f"The control plane in {self.state} does not end."
                raise ControlPlaneError(message)
        last = keeper.read_state(self.state)
        if not last.get("namespace"):  # there the kernel has ended all, and its numbers mean nothing here
            end_leftovers(last.get("pids", {}).values(), str(self.state))
        self._forget_api()
        return was_running

    def _forget_api(self) -> None:
        api: Api | None = self.__dict__.pop("api", None)
        if api is not None:
            api.close()

    def _stop_own(self, process: subprocess.Popen[bytes]) -> None:
        for stream in (process.stdin, process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._keeper = None

    def _signal_keeper(self, number: signal.Signals) -> None:
        pid = keeper.read_state(self.state).get("keeper")
        if isinstance(pid, int):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def apply_crds(self, files: Iterable[Path]) -> list[str]:
        """Install CRD files and wait until their kinds are served; gives back their names."""
        return crd_install.install(self.api, files)
