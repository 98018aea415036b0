"""An embedded Kubernetes control plane: real etcd and API server, on loopback, with a state folder of its own.

    with ControlPlane(folder) as plane:
        plane.api.apply({...})

It ends with the `with` block, and also when this process is killed. `ControlPlane(folder, parts=CLUSTER)` adds the
controller manager, the scheduler and simulated nodes. `keep()` leaves it running after this process, and
`ControlPlane(folder).stop()` ends it from any other.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal import crd_install, keeper
from rehearsal.api import Api
from rehearsal.errors import ControlPlaneError, RehearsalError
from rehearsal.parts import API_ONLY, CONTEXT, PARTS
from rehearsal.processes import end_leftovers, wait_until
from tools import cache
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
        message = f"Not built yet: {', '.join(missing)}. Run `make tools` first (once, about 20 minutes on two cores)."
        raise RehearsalError(message)
    return {name: path for name, path in found.items() if path}


class ControlPlane:
    """One control plane, by its state folder. Several with different folders run side by side."""

    def __init__(
        self,
        state: Path,
        *,
        parts: tuple[str, ...] = API_ONLY,
        context: str = CONTEXT,
        address: str = LOOPBACK,
    ) -> None:
        """Take a folder for state and logs (made when missing), and the name of the kubeconfig's context."""
        self.state = state.resolve()
        self.parts = parts
        self.context = context
        self.address = address
        self._keeper: subprocess.Popen[bytes] | None = None

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file, as JSON, with one context and an administrator's token."""
        return self.state / "kubeconfig"

    @property
    def url(self) -> str:
        """The API server's address; empty before the first start."""
        return str(keeper.read_state(self.state).get("url", ""))

    @cached_property
    def api(self) -> Api:
        """A client of the API server. Raises ControlPlaneError when there is no running one."""
        self.check()
        return Api.from_kubeconfig(self.kubeconfig)

    def __enter__(self) -> Self:
        """Start, tied to this process."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and wait until nothing runs."""
        self.stop()

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
        binaries = tool_paths(PARTS[name].tool for name in self.parts if PARTS[name].tool)
        self.state.mkdir(parents=True, exist_ok=True)
        self._forget_api()
        command = [
            sys.executable, "-m", "rehearsal.keeper",
            "--state", str(self.state), "--context", self.context, "--address", self.address,
            "--binaries", json.dumps({name: str(path) for name, path in binaries.items()}),
            *self.parts,
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
        end_leftovers(keeper.read_state(self.state).get("pids", {}).values(), str(self.state))
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
