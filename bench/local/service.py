"""One model of a stack, answering on loopback: started, waited for, and ended with everything it started."""

from __future__ import annotations

import contextlib
import time
import urllib.error
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.local.plan import LOOPBACK, Plan, plan_for
from bench.local.ray import LocalError, RayNode, ServeApi, free_ports, remove, request_json, session_folder
from tools.lifetime import Startable

Say = Callable[[str], None]

_FIRST_ANSWER_SECONDS = 300


class LocalService(Startable):
    """`with LocalService(objects, environment) as service:` the OpenAI API is at `service.url`."""

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]],
        environment: Path,
        *,
        model: str | None = None,
        port: int | None = None,
        weights: Path | None = None,
        keys: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        say: Say = lambda _text: None,
    ) -> None:
        self.folder = session_folder()
        self.programs = environment / "bin"
        self._say = say
        self.plan: Plan = plan_for(
            objects,
            weights=weights or environment / "tiny",
            port=port or free_ports(1)[0],
            model=model,
            folder=self.folder,
        )
        if change:
            change(self.plan.document)
        self._variables = {**self.plan.environment, **(variables or {})}
        (self.folder / "code").mkdir()
        for name, text in self.plan.code.items():
            (self.folder / "code" / name).write_text(text)
        (self.folder / "keys").write_text("".join(f"{key}\n" for key in keys))
        self.keep_logs = False
        self.head: RayNode
        self.api: ServeApi

    @property
    def url(self) -> str:
        """Base address of the OpenAI API."""
        return f"http://{LOOPBACK}:{self.plan.port}/v1"

    @property
    def application(self) -> str:
        """Name of the Serve application."""
        return str(self.plan.document["applications"][0]["name"])

    @property
    def environment(self) -> dict[str, str]:
        """Variables of every process of the service."""
        return dict(self._variables)

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set further variables before the start."""
        self._variables |= variables

    def start(self) -> None:
        """Start Ray, apply the document, and wait for the first answer.

        Raises:
            LocalError: it does not come up; says why.
        """
        started = time.monotonic()
        self._say("starting Ray on loopback")
        self.head = RayNode(self.programs, self.folder, self._variables, self.plan.resources)
        self.api = ServeApi(self.head)
        self.api.wait_for_dashboard()
        self._say(f"Ray runs ({time.monotonic() - started:.0f} s); applying the Serve document")
        self.api.deploy(self.plan.document)
        self.wait_until_it_answers(started)

    def wait_until_it_answers(
        self, started: float | None = None, seconds: float = _FIRST_ANSWER_SECONDS
    ) -> None:
        """Wait until the application runs and its model is listed.

        Raises:
            LocalError: it failed, or takes longer than `seconds`.
        """
        started = time.monotonic() if started is None else started
        said = ""
        while time.monotonic() - started < seconds:
            if not self.head.alive():
                raise LocalError(f"Ray ended; see {self.head.log}")
            state, message = self._state()
            if state == "RUNNING" and self._answers():
                self._say(f"answering after {time.monotonic() - started:.0f} s")
                return
            if state == "DEPLOY_FAILED":
                raise LocalError(f"The application failed to deploy: {message}")
            words = f"{state.lower()}: {self._counts()}" if state else "waiting for Serve"
            if words != said:
                self._say(f"{words} ({time.monotonic() - started:.0f} s)")
                said = words
            time.sleep(0.5)
        raise LocalError(f"No answer after {seconds:.0f} s; logs are in {self.folder}: {self._state()}")

    def _state(self) -> tuple[str, str]:
        with contextlib.suppress(OSError, ValueError):
            application = self.api.status()["applications"].get(self.application, {})
            return application.get("status", ""), application.get("message", "")
        return "", ""

    def _counts(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            counts = self.api.replicas(self.application)
            return ", ".join(f"{name} {states}" for name, states in sorted(counts.items()))
        return ""

    def _answers(self) -> bool:
        try:
            request_json(f"{self.url}/models", timeout=5)
        except urllib.error.HTTPError as error:
            return error.code == 401  # noqa: PLR2004 - it answers, and asks for a key
        except (OSError, ValueError):
            return False
        return True

    def stop(self) -> None:
        """End everything and remove the session's folder."""
        if hasattr(self, "head"):
            self.head.stop()
        if not self.keep_logs:
            remove(self.folder)
