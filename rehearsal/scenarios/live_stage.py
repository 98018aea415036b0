"""A stage with the real KubeRay and Karpenter, and one model whose pods run as processes: Ray and vLLM answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal import stack_copy, traffic
from rehearsal.aws.cloud import Cloud
from rehearsal.control_plane import ControlPlane
from rehearsal.engine import Engine, Result
from rehearsal.errors import RehearsalError
from rehearsal.processes import start, stop_all
from rehearsal.scenarios.program_copy import ProgramCopy
from rehearsal.scenarios.stage import Say, Stage
from rehearsal.session import Session
from rehearsal.substitution import TIME_FACTOR

ANSWER_SECONDS = 60
TRAFFIC_SECONDS = 1800.0  # longer than any scenario; it ends with its block
END_SECONDS = 130.0
BURST_SECONDS, POLL_SECONDS = 20.0, 0.1


@dataclass
class Running:
    """Traffic while it runs; `result` is there after the block."""

    log: Path
    result: dict[str, Any]

    def so_far(self) -> dict[str, Any]:
        """The summary of the requests that have ended."""
        return traffic.read(self.log)

    def burst(self) -> int:
        """Begin some long streams, and return how many are under way once half are (the others wait behind them)."""
        self.log.with_suffix(".burst").touch()
        deadline = time.monotonic() + BURST_SECONDS
        while (now := traffic.in_flight(self.log)) < traffic.BURST // 2 and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return now


class LiveStage(Stage):
    """As `Stage`, by a `Session`. `model` is the one that answers; without one, pods are simulated."""

    def __init__(self, folder: Path, stack: str, say: Say, model: str = "") -> None:
        super().__init__(folder, stack, say)
        self.model = model
        self.variables: dict[str, str] = {}
        self._session: Session | None = None

    def start(self) -> None:
        """Copy the program; the session starts the rest with the first `up`."""
        if self._session:
            return
        # One that was killed has left its control plane, which no other command would find without this folder.
        ControlPlane(self.folder / "state" / self.stack / "plane").stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.program = ProgramCopy(self.folder / "program")
        self._session = Session(
            self.stack,
            self.say,
            self.program.entry,
            (self.model,) if self.model else (),
            TIME_FACTOR,
            (self.program.pack,),
            self.folder / "state",
        )

    def stop(self) -> None:
        """End all processes; the files stay, with logs and state."""
        if self._session:
            with contextlib.suppress(RehearsalError):
                self.plane.stop()
        self._session, self.is_up = None, False

    @property
    def session(self) -> Session:
        """The session. Raises RehearsalError before `start`."""
        if self._session is None:
            raise RehearsalError("the stage is not started")
        return self._session

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in the engine's stack file; `write` after a change."""
        if not self.content:
            self.content = self.session.settings()
        return self.content

    def write(self) -> None:
        """Write the changed stack file."""
        self.session.write(self.content)

    @property
    def live_models(self) -> tuple[str, ...]:
        """The models that answer."""
        return self.session.live

    @property
    def plane(self) -> ControlPlane:
        """The session's control plane."""
        return self.session.plane()

    @property
    def cloud(self) -> Cloud:
        """The session's AWS account."""
        return self.session.cloud()

    @property
    def engine(self) -> Engine:
        """The session's engine, with the variables that a scenario has set."""
        engine = self.session.engine()
        return dataclasses.replace(engine, env={**engine.env, **self.variables})

    def up(self) -> Result:
        """The session's `up` the first time, the engine's afterwards: the session's begins with the user's file."""
        first = not (self.session.folder / "plane").exists()
        result = self.session.up() if first else self.engine.up()
        if self.model and not self.session.live:
            raise RehearsalError(self.session.plan.why or "no model runs as processes")
        self.is_up = True
        return result

    def ensure_down(self) -> None:
        """Destroy what is up."""
        self.start()
        if self.is_up:
            self.engine.destroy()
            self.is_up = False

    def recorded(self) -> list[dict[str, Any]]:
        """What the engine's state holds; nothing before the first `up`."""
        return super().recorded() if self.session.folder.exists() else []

    def key(self) -> str:
        """The key that callers send, where the endpoint wants one."""
        return stack_copy.STAND_IN_SECRET if (self.settings.get("endpoint") or {}).get("keys") else ""

    def ask_model(self, model: str) -> int:
        """One chat completion through the door of this machine."""
        target = traffic.Target("", model, self.key())
        port = self.session.doors()[model]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/chat/completions",
            json.dumps(traffic.body(target, target.tokens, stream=False)).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {target.key}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310 - own address
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError as error:
            raise RehearsalError(f"{model} does not answer at port {port}: {error}") from error

    @contextlib.contextmanager
    def traffic(self, name: str) -> Iterator[Running]:
        """Users' traffic on the live model while the block runs, in the control plane's namespace."""
        folder = self.folder / "traffic"
        folder.mkdir(exist_ok=True)
        log, until, burst, output = (folder / f"{name}.{kind}" for kind in ("jsonl", "end", "burst", "log"))
        for path in (log, until, burst, output):
            path.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "rehearsal.traffic", "--kubeconfig", str(self.plane.kubeconfig_inside),
            "--service", f"{self.namespace}/{self.model}-serve-svc", "--model", self.model,
            "--seconds", str(TRAFFIC_SECONDS), "--log", str(log), "--until", str(until), "--burst", str(burst),
        ]  # fmt: skip
        running = Running(log, {})
        process = start(self.plane.inside(command), output, {**os.environ, "LLMP_ENDPOINT_KEY": self.key()})
        try:
            yield running
        finally:
            until.touch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            stop_all([process])
            running.result.update(running.so_far())
