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
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from components import conventions
from components.settings import stack_file
from components.settings.problems import SettingsError
from rehearsal import charts, crd_install, keeper, leftovers, session_plan, stack_copy
from rehearsal.api import Api
from rehearsal.aws.cloud import Cloud, Held
from rehearsal.aws.server import attached
from rehearsal.control_plane import ROOT, ControlPlane
from rehearsal.engine import Engine, Result, has_state, project_name
from rehearsal.errors import BadInputError, RehearsalError
from rehearsal.parts import CLUSTER, CONTEXT
from rehearsal.processes import beside, free_port
from rehearsal.session_plan import Plan
from rehearsal.simulated_operators import KUBERAY
from rehearsal.substitution import Substitution
from tools import crds
from tools.table import ToolsError

Say = Callable[[str], None]

PROGRAM = ROOT / "__main__.py"
CRDS_STAMP = "crds-installed"
DOORS = "doors.json"
FIRST_PORT, PORTS_TRIED = 8000, 20
SERVE_PORT = conventions.SERVE_PORT
GONE_SECONDS = 30.0
HASTE_SECONDS = 2  # of grace for a pod that ends in a `down`
# An existing cluster has these because its operators live there.
OPERATOR_NAMESPACES = (
    conventions.KUBERAY_NAMESPACE,
    conventions.MONITORING_NAMESPACE,
    conventions.KEDA_NAMESPACE,
)


def state_root() -> Path:
    """Where rehearsals keep their state: $LLMP_REHEARSAL, or `.rehearsal` in the checkout (not in git)."""
    return Path(os.environ.get("LLMP_REHEARSAL") or ROOT / ".rehearsal").expanduser().resolve()


@contextlib.contextmanager
def locked(root: Path, name: str, what: str = "the stack") -> Iterator[None]:
    """Keep other commands on a stack, or on a part of one, below `root` out. Raises RehearsalError when one is at work."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / f".{name}.lock").open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"Another rehearsal command is at work on {what} {name}; wait for it or end it."
            raise RehearsalError(message) from error
        yield


@dataclass(frozen=True)
class Session:
    """One stack of one program on the embedded control plane. `say` takes lines of progress.

    `wanted` names the models whose pods run as processes (`session_plan.choose`), `time_factor` shortens long times of
    those models, `packs` are the policy packs that the engine asks. `root` is the folder of all stacks' states.
    """

    stack: str
    say: Say
    program: Path = PROGRAM
    wanted: tuple[str, ...] | None = None
    time_factor: float = 1.0
    packs: tuple[Path, ...] = ()
    root: Path = field(default_factory=state_root)

    def __post_init__(self) -> None:
        """Refuse a stack name that is no plain file name: it names a folder that `down` deletes."""
        if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", self.stack):
            message = f"{self.stack!r} is not a stack's name: letters, digits, '.', '_' and '-' only."
            raise BadInputError(message)

    @property
    def folder(self) -> Path:
        """The folder of everything about this stack's rehearsal."""
        return self.root / self.stack

    @property
    def stack_file(self) -> Path:
        """The user's stack file."""
        return self.program.parent / f"Pulumi.{self.stack}.yaml"

    @property
    def copy(self) -> Path:
        """The stack file of the engine, made anew from the user's by each `up`."""
        return self.folder / self.stack_file.name

    @property
    def plan(self) -> Plan:
        """What the last `up` has chosen. Raises RehearsalError when there was none."""
        found = session_plan.read(self.folder)
        if found is None:
            raise RehearsalError(f"The stack {self.stack} was not brought up here.")
        return found

    @property
    def live(self) -> tuple[str, ...]:
        """The models that answer, from pods that run as processes; empty where all pods are simulated."""
        return self.plan.live

    def settings(self) -> dict[str, Any]:
        """The platform's settings in the engine's stack file; `write` takes them back after a change."""
        return stack_copy.platform_of(self._content(), self._project())

    def write(self, settings: Mapping[str, Any]) -> None:
        """Put changed settings into the engine's stack file; the next `engine().up()` makes them true."""
        content = self._content()
        content["config"][f"{self._project()}:platform"] = settings
        self.copy.write_text(yaml.safe_dump(content, sort_keys=False))

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = yaml.safe_load(self.copy.read_text())
        return content

    def _project(self) -> str:
        return project_name(self.program.parent / "Pulumi.yaml")

    def plane(self) -> ControlPlane:
        """The control plane of this stack."""
        plan = session_plan.read(self.folder) or Plan(CONTEXT, CLUSTER)
        return ControlPlane(
            self.folder / "plane",
            parts=plan.parts,
            context=plan.context,
            namespace=plan.namespace,
            present=plan.present,
            facts=plan.facts,
        )

    def engine(self) -> Engine:
        """The engine of this stack, with all that stands in for what is not here."""
        plan, plane = self.plan, self.plane()
        env = {charts.FOLDER: str(self.folder / "charts")} if plan.created else {}
        if KUBERAY in plan.real:
            folder = str(session_plan.weights()) if plan.live else ""
            env |= Substitution(plan.live, folder, self.time_factor).environment()
        engine = Engine(
            self.program,
            self.stack,
            self.folder / "engine",
            plane.kubeconfig,
            stack_file=self.copy,
            secrets=self._secrets(),
            env=env,
            policy_packs=self.packs,
        )
        if not plan.created:
            return engine
        return attached(engine, f"http://{plane.address_of('moto')}", self.folder / "aws", plan.region)

    def _secrets(self) -> dict[str, str]:
        """Stand-ins for the secrets of the user's file, and for those that the stack needs and nobody has set."""
        given = stack_copy.read(self.stack_file).secrets if self.stack_file.is_file() else {}
        try:
            needed = stack_file.settings_of(stack_file.read(self.copy)).needed_secrets
        except SettingsError:
            return given  # another program's settings; or wrong ones, of which ours speaks better
        return {f"{self._project()}:{name}": stack_copy.STAND_IN_SECRET for name in needed} | given

    def cloud(self) -> Cloud:
        """The AWS account of the stack, seen from outside the engine. Raises RehearsalError when it has none."""
        plan = self.plan
        if not plan.created:
            raise RehearsalError(f"The stack {self.stack} makes no cluster, so it has no AWS account here.")
        endpoint = f"http://{self.plane().address_of('moto')}"
        return Cloud(endpoint, plan.region, Held(self.folder / "aws" / "held"), plan.account)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Keep other commands on this stack out. Raises RehearsalError when one is at work."""
        return locked(self.root, self.stack)

    def up(self) -> Result:
        """Start what is not running, then let the engine make the stack. Raises RehearsalError."""
        with self.locked():
            plan = self._renew()
            plane = self.plane()
            started = plane.start()
            if started:
                self.say(f"control plane ready at {plane.url}")
            with _stopped_on_failure(plane, started=started):
                self._prepare(plane, plan)
                engine = self.engine()
                self._recover(engine, plan, started=started)
                self.say("pulumi up")
                result = engine.up()
                self._open_doors(plane, plan)
            plane.keep()
            return result

    def _renew(self) -> Plan:
        """Copy the user's stack file for the engine and choose the parts. What is up keeps those it has."""
        copied = stack_copy.read(self.stack_file)
        for note in copied.notes:
            self.say(note)
        platform = stack_copy.platform_of(copied.content, self._project())
        plan = session_plan.choose(platform, self.wanted)
        kept = session_plan.read(self.folder)
        if kept and kept != plan and (self._has_state() or self.plane().running()):
            if (self.wanted is not None and self.wanted != kept.live) or kept.context != plan.context:
                raise RehearsalError(
                    f"The stack {self.stack} is up with other parts or models; take it down first: "
                    f"`make down STACK={self.stack}`."
                )
            plan = kept
        self.folder.mkdir(parents=True, exist_ok=True)
        plan.write(self.folder)
        self.copy.write_text(copied.text)
        if plan.created:
            settings = self.settings()
            for sentence in stack_copy.take_guards_off(settings):
                self.say(sentence)
            self.write(settings)
        return plan

    def down(self) -> bool:
        """Destroy the stack, look that nothing is left, and end all processes. False when nothing was up.

        Raises RehearsalError, with everything still there, when something of ours is left.
        """
        with self.locked():
            if not self.folder.exists():
                return False
            if session_plan.read(self.folder) and self._has_state():
                plane = self.plane()
                started = plane.start()
                if started:
                    self.say(f"control plane started again at {plane.url}")
                engine = self.engine()
                self._recover(engine, self.plan, started=started)
                self.say("pulumi destroy")
                with hastened(plane):
                    engine.destroy()
                self._require_nothing_left(plane)
            self._end()
            return True

    def _has_state(self) -> bool:
        return has_state(self.folder / "engine")

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

    def _prepare(self, plane: ControlPlane, plan: Plan) -> None:
        """Where charts come from; or, in a cluster that is there already, what its operators have put into it."""
        try:
            collected = crds.ensure()
        except ToolsError as error:
            raise RehearsalError(str(error)) from error
        for note in collected.notes:
            self.say(note)
        operators = "kuberay" in plan.parts
        if plan.created:
            charts.write(self.folder / "charts", collected, operators=operators)
        else:
            self._install(plane, collected, operators=operators)

    def _install(self, plane: ControlPlane, collected: crds.Collected, *, operators: bool) -> None:
        files = collected.all_files if operators else collected.files
        stamp = plane.state / CRDS_STAMP
        if stamp.exists() and stamp.read_text() == collected.folder.name:
            return
        self.say(f"installing {len(files)} CRDs")
        plane.apply_crds(files)
        if collected.notes:
            crd_install.loosen(plane.api)
        for name in OPERATOR_NAMESPACES:
            plane.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        stamp.write_text(collected.folder.name)

    def _recover(self, engine: Engine, plan: Plan, *, started: bool) -> None:
        """After a run that was cut off, or an AWS account that ended with its process, ask what is really there."""
        if plan.created and started:
            shutil.rmtree(self.folder / "aws" / "held", ignore_errors=True)
            if engine.recorded():
                self.say("the AWS account began anew with its process; the state is refreshed from it")
                engine.refresh()
                return
        if engine.recover():
            self.say("the last run was cut off; its state was refreshed from the cluster")

    def _open_doors(self, plane: ControlPlane, plan: Plan) -> None:
        """One port of this machine for each model that answers; those that are open stay."""
        path = plane.state / DOORS
        doors = self.doors()
        if plan.live and set(doors) != set(plan.live):
            first = FIRST_PORT
            for name in plan.live:
                doors[name] = _open_door(plane, first, service_of(plane, name))
                first = doors[name] + 1
            path.write_text(json.dumps({"keeper": _keeper(plane), "doors": doors}))

    def doors(self) -> dict[str, int]:
        """The port of this machine at which each live model answers; empty when the control plane began anew."""
        plane = self.plane()
        try:
            content = json.loads((plane.state / DOORS).read_text())
        except (OSError, ValueError):
            return {}
        return dict(content["doors"]) if content["keeper"] == _keeper(plane) else {}

    def _expected(self) -> frozenset[str]:
        return frozenset() if self.plan.created else frozenset(OPERATOR_NAMESPACES)

    def left(self, plane: ControlPlane) -> list[leftovers.Leftover]:
        """What is left of the stack in the API server and in AWS."""
        found = leftovers.find(plane.api, self._expected())
        if self.plan.created:
            found += leftovers.in_aws(self.cloud())
        return found

    def _require_nothing_left(self, plane: ControlPlane) -> None:
        left = self.left(plane)
        deadline = time.monotonic() + GONE_SECONDS
        while left and all(row.going for row in left) and time.monotonic() < deadline:
            time.sleep(1)
            left = self.left(plane)
        if not left:
            where = "the API server and in AWS" if self.plan.created else "the API server"
            self.say(f"nothing of this program is left in {where}")
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
            facts["parts"] = ", ".join(sorted(plane.running_parts()))
            for name, port in self.doors().items():
                facts[f"model {name}"] = f"answers at http://127.0.0.1:{port}/v1"
        if self.folder.exists():
            facts["resources in the engine's state"] = str(len(self._recorded()))
        return facts

    def _recorded(self) -> list[str]:
        state = self.folder / "engine"
        return Engine(self.program, self.stack, state, self.plane().kubeconfig).recorded()


def _keeper(plane: ControlPlane) -> int:
    """Which keeper runs; doors end with theirs."""
    return int(keeper.read_state(plane.state).get("keeper", 0))


def service_of(plane: ControlPlane, model: str) -> str:
    """`NAMESPACE/SERVICE:PORT` at which a model answers. Raises RehearsalError when KubeRay has made none."""
    for service in plane.api.items("/api/v1/services", labelSelector="ray.io/serve"):
        metadata = service["metadata"]
        if metadata["name"] == f"{model}-serve-svc":
            return f"{metadata['namespace']}/{metadata['name']}:{SERVE_PORT}"
    raise RehearsalError(f"KubeRay has made no Service for the model {model}.")


def _open_door(plane: ControlPlane, first: int, target: str) -> int:
    """Open the first free port from `first` on."""
    for port in range(first, first + PORTS_TRIED):
        if free_port("127.0.0.1", port) == port:
            return plane.open_door(port, target)
    return plane.open_door(0, target)


@contextlib.contextmanager
def hastened(plane: ControlPlane, seconds: int = HASTE_SECONDS) -> Iterator[None]:
    """Meanwhile cut the grace of pods that are being deleted: nobody's stream runs to its end in a `down`."""

    def cut(done: threading.Event) -> None:
        with Api.from_kubeconfig(plane.kubeconfig) as api:
            while not done.wait(1):
                with contextlib.suppress(RehearsalError):
                    for pod in api.items("/api/v1/pods"):
                        metadata = pod["metadata"]
                        if metadata.get("deletionGracePeriodSeconds", 0) > seconds:
                            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
                            api.delete(path, grace_seconds=seconds)

    with beside(cut):
        yield


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
