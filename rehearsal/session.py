"""A stack kept up on this machine: `up`, `down` and `status`, in any order and however the last one ended.

Everything about it lies in one folder: the control plane's state and the engine's. A lock keeps two commands on the
same stack apart; the system drops it when a command is killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from components import conventions
from rehearsal import crd_install, leftovers, stack_copy
from rehearsal.control_plane import ROOT, ControlPlane
from rehearsal.engine import Engine, Result, project_name
from rehearsal.errors import RehearsalError
from rehearsal.parts import CLUSTER
from tools import crds
from tools.table import ToolsError

Say = Callable[[str], None]

PROGRAM = ROOT / "__main__.py"
CRDS_STAMP = "crds-installed"
GONE_SECONDS = 30.0
# An existing cluster has these because its operators live there.
OPERATOR_NAMESPACES = (
    conventions.KUBERAY_NAMESPACE,
    conventions.MONITORING_NAMESPACE,
    conventions.KEDA_NAMESPACE,
)


def state_root() -> Path:
    """Where rehearsals keep their state: $LLMP_REHEARSAL, or `.rehearsal` in the checkout (not in git)."""
    return Path(os.environ.get("LLMP_REHEARSAL") or ROOT / ".rehearsal").expanduser().resolve()


@dataclass(frozen=True)
class Session:
    """One stack of one program on the embedded control plane. `say` takes lines of progress."""

    stack: str
    say: Say
    program: Path = PROGRAM

    def __post_init__(self) -> None:
        """Refuse a stack name that is no plain file name: it names a folder that `down` deletes."""
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", self.stack):
            message = f"{self.stack!r} is not a stack's name: letters, digits, '.', '_' and '-' only."
            raise RehearsalError(message)

    @property
    def folder(self) -> Path:
        """The folder of everything about this stack's rehearsal."""
        return state_root() / self.stack

    @property
    def stack_file(self) -> Path:
        """The user's stack file."""
        return self.program.parent / f"Pulumi.{self.stack}.yaml"

    def plane(self, context: str = "rehearsal") -> ControlPlane:
        """The control plane of this stack."""
        return ControlPlane(self.folder / "plane", parts=CLUSTER, context=context)

    def engine(self) -> Engine:
        """The engine of this stack."""
        return Engine(self.program, self.stack, self.folder / "engine", self.folder / "plane" / "kubeconfig")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands on this stack out. Raises RehearsalError when one is at work."""
        state_root().mkdir(parents=True, exist_ok=True)
        with (state_root() / f".{self.stack}.lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                message = (
                    f"Another rehearsal command is at work on the stack {self.stack}; wait for it or end it."
                )
                raise RehearsalError(message) from error
            yield

    def context(self) -> str:
        """The kubeconfig context that the stack names. Raises RehearsalError for a stack without one."""
        copied = stack_copy.read(self.stack_file)
        for note in copied.notes:
            self.say(note)
        project = project_name(self.program.parent / "Pulumi.yaml")
        return stack_copy.existing_context(copied.content, project)

    def up(self) -> Result:
        """Start what is not running, then let the engine make the stack. Raises RehearsalError."""
        with self.locked():
            plane = self.plane(self.context())
            started = plane.start()
            if started:
                self.say(f"control plane ready at {plane.url}")
            with _stopped_on_failure(plane, started=started):
                self._prepare(plane)
                engine = self.engine()
                self._recover(engine)
                self.say("pulumi up")
                result = engine.up()
            plane.keep()
            return result

    def down(self) -> bool:
        """Destroy the stack, look that nothing is left, and end all processes. False when nothing was up.

        Raises RehearsalError, with everything still there, when something of ours is left.
        """
        with self.locked():
            if not self.folder.exists():
                return False
            engine = self.engine()
            if engine.has_state():
                plane = self.plane(self.context())
                if plane.start():
                    self.say(f"control plane started again at {plane.url}")
                self._recover(engine)
                self.say("pulumi destroy")
                engine.destroy()
                self._require_nothing_left(plane)
            self._end()
            return True

    def discard(self) -> bool:
        """End all processes and delete their state without asking the engine. False when there was nothing."""
        with self.locked():
            if not self.folder.exists():
                return False
            self._end()
            return True

    def _end(self) -> None:
        self.plane().stop()
        shutil.rmtree(self.folder)

    def _prepare(self, plane: ControlPlane) -> None:
        """Install CRDs and make the operators' namespaces, as the operators of a real cluster would have."""
        try:
            collected = crds.ensure()
        except ToolsError as error:
            raise RehearsalError(str(error)) from error
        for note in collected.notes:
            self.say(note)
        stamp = plane.state / CRDS_STAMP
        if stamp.exists() and stamp.read_text() == collected.folder.name:
            return
        self.say(f"installing {len(collected.files)} CRDs")
        plane.apply_crds(collected.files)
        if collected.notes:
            crd_install.loosen(plane.api)
        for name in OPERATOR_NAMESPACES:
            plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stamp.write_text(collected.folder.name)

    def _recover(self, engine: Engine) -> None:
        if engine.recover():
            self.say("the last run was cut off; its state was refreshed from the cluster")

    def _require_nothing_left(self, plane: ControlPlane) -> None:
        expected = frozenset(OPERATOR_NAMESPACES)
        left = leftovers.find(plane.api, expected)
        deadline = time.monotonic() + GONE_SECONDS
        while left and all(row.going for row in left) and time.monotonic() < deadline:
            time.sleep(1)
            left = leftovers.find(plane.api, expected)
        if not left:
            self.say("nothing of this program is left in the API server")
            return
        rows = "\n".join(f"    {row}" for row in left)
        message = (
            f"These objects are left after destroy:\n{rows}\n"
            f"The control plane still runs: KUBECONFIG={plane.kubeconfig}. "
            f"`python -m rehearsal down --stack {self.stack} --discard` ends it without them."
        )
        plane.keep()
        raise RehearsalError(message)

    def state(self) -> dict[str, str]:
        """Facts about the stack as it is now, for people."""
        plane = self.plane()
        running = plane.running()
        facts = {
            "stack": self.stack,
            "control plane": f"runs at {plane.url}" if running else "does not run",
            "state": str(self.folder) if self.folder.exists() else "none",
        }
        if running:
            facts["KUBECONFIG"] = str(plane.kubeconfig)
        if self.folder.exists():
            facts["resources in the engine's state"] = str(len(self.engine().recorded()))
        return facts


@contextlib.contextmanager
def _stopped_on_failure(plane: ControlPlane, *, started: bool) -> Iterator[None]:
    """End a control plane that this command started when the command does not reach its end."""
    try:
        yield
    except RehearsalError:
        plane.check()  # a dead control plane is the reason of whatever else went wrong
        # Left running on purpose: the objects there show what went wrong.
        plane.keep()
        raise
    except BaseException:
        if started:
            plane.stop()
        raise


def counts(result: Result) -> str:
    """The changes of a result in words: `12 created, 3 unchanged`."""
    words = {
        "create": "created",
        "update": "updated",
        "delete": "deleted",
        "replace": "replaced",
        "same": "unchanged",
    }
    rows = [f"{number} {words.get(name, name)}" for name, number in sorted(result.changes.items()) if number]
    return ", ".join(rows) or "nothing to do"


def kinds(result: Result) -> list[tuple[str, int]]:
    """How many resources of each type the engine's state holds, in the order of their names."""
    numbers: dict[str, int] = {}
    for row in result.resources:
        numbers[row["type"]] = numbers.get(row["type"], 0) + 1
    return sorted(numbers.items())


def as_json(result: Result) -> str:
    """The counts of a result for scripts."""
    return json.dumps(
        {"changes": dict(result.changes), "kinds": dict(kinds(result)), "seconds": result.seconds}
    )
