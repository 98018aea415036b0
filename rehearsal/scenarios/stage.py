"""A stack to play scenarios on: control plane, AWS account, an editable copy of the program, the engine with the pack.

`Stage` simulates pods and operators. Everything lies in one folder, and what it started ends with `stop`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from components import conventions
from rehearsal import charts, leftovers, stack_copy
from rehearsal.api import Api, label
from rehearsal.aws import eks_provider, inventory
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call
from rehearsal.aws.server import Aws, attached
from rehearsal.control_plane import ControlPlane
from rehearsal.engine import Engine, Result
from rehearsal.errors import (
    ApiError,
    ApiUnreachableError,
    ControlPlaneError,
    EngineError,
    RehearsalError,
)
from rehearsal.parts import CLUSTER
from rehearsal.scenarios.program_copy import ProgramCopy
from rehearsal.simulated_operators import LOAD_BALANCER
from tools import crds
from tools.table import ToolsError

Say = Callable[[str], None]

PLATFORM = "llm-platform:platform"
SECRETS = ("huggingFaceToken", "rayAuthToken", "redisPassword", "endpointKeys")
# The providers of the program are told so, which 4.34 understands; the older one of `make tools` only knows the variable.
PATCH_FORCE = {"PULUMI_K8S_ENABLE_PATCH_FORCE": "true"}
# What servers and controllers write into an object by themselves.
OWN_METADATA = ("labels", "annotations", "finalizers")
NO_SPEC = ("status", "metadata")


class Stage:
    """One stack of the program, played on this machine."""

    def __init__(self, folder: Path, stack: str, say: Say) -> None:
        """Take a folder, which is made when missing and emptied on `start`."""
        self.folder, self.stack, self.say = folder.resolve(), stack, say
        self.is_up = False
        self._plane: ControlPlane | None = None
        self._aws: Aws | None = None
        self._engine: Engine | None = None
        self._services: ServeServices | None = None
        self.program: ProgramCopy = None  # type: ignore[assignment]  # made by `start`
        self.content: dict[str, Any] = {}

    # Life.

    def start(self) -> None:
        """Start control plane and AWS account from nothing. Does nothing when they run."""
        if self._engine:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.program = ProgramCopy(self.folder / "program")
        self.content = yaml.safe_load(self.program.stack_file(self.stack).read_text(encoding="utf-8"))
        self._unguard()
        self.say(f"starting control plane and AWS account of {self.stack} in {self.folder}")
        self._aws = Aws(self.folder / "aws", str(self.settings["accountId"]))
        self._aws.start()
        self._plane = ControlPlane(self.folder / "plane", parts=CLUSTER)
        self._plane.start()
        self._services = ServeServices(self._plane.api)
        self._services.start()
        self._engine = self._make_engine(self._plane, self._aws)

    def _unguard(self) -> None:
        """Take the guards off first, as the documented way down says."""
        if not self.settings["cluster"].get("create"):
            message = f"The stack {self.stack} makes no cluster, so it has no AWS half to rehearse; use prod, dev or multinode."
            raise RehearsalError(message)
        stack_copy.take_guards_off(self.settings)
        self.write()

    def _make_engine(self, plane: ControlPlane, aws: Aws) -> Engine:
        try:
            folder, _used = charts.write(self.folder / "charts", crds.ensure())
        except ToolsError as error:
            raise RehearsalError(str(error)) from error
        engine = Engine(
            self.program.entry,
            self.stack,
            self.folder / "engine",
            plane.kubeconfig,
            stack_file=self.program.stack_file(self.stack),
            secrets={f"llm-platform:{name}": stack_copy.STAND_IN_SECRET for name in SECRETS},
            policy_packs=[self.program.pack],
        )
        engine = attached(engine, aws.endpoint, aws.folder, self.region)
        env = {
            **engine.env,
            **PATCH_FORCE,
            charts.FOLDER: str(folder),
            eks_provider.KUBECONFIG: str(plane.kubeconfig),
        }
        return dataclasses.replace(engine, env=env)

    def stop(self) -> None:
        """End all processes; files stay."""
        if self._services:
            self._services.stop()
        if self._plane:
            self._plane.stop()
        if self._aws:
            self._aws.stop()
        self._plane = self._aws = self._engine = self._services = None
        self.is_up = False

    # The stack file.

    @property
    def settings(self) -> dict[str, Any]:
        """The platform's settings; `write` after a change."""
        settings: dict[str, Any] = self.content["config"][PLATFORM]
        return settings

    @property
    def region(self) -> str:
        """The stack's AWS region."""
        return str(self.settings["region"])

    def write(self) -> None:
        """Write the changed stack file."""
        self.program.stack_file(self.stack).write_text(yaml.safe_dump(self.content, sort_keys=False))

    @property
    def models(self) -> list[str]:
        """The stack's models."""
        return [str(row["name"]) for row in self.settings["models"]]

    @property
    def live_models(self) -> tuple[str, ...]:
        """Those whose pods run for real, so that they answer."""
        return ()

    @property
    def namespace(self) -> str:
        """The models' namespace."""
        return conventions.SERVING_NAMESPACE

    def ask_model(self, model: str) -> int:
        """The HTTP status of one chat completion. Raises RehearsalError for a model without real pods."""
        raise RehearsalError(f"{model} has simulated pods, so nothing answers")

    # What scenarios act on and look at.

    @property
    def plane(self) -> ControlPlane:
        """The control plane."""
        if self._plane is None:
            raise RehearsalError("the stage is not started")
        return self._plane

    @property
    def api(self) -> Api:
        """The API server."""
        return self.plane.api

    @property
    def cloud(self) -> Cloud:
        """The AWS account, seen from outside the engine."""
        if self._aws is None:
            raise RehearsalError("the stage is not started")
        return self._aws.cloud(self.region)

    @property
    def engine(self) -> Engine:
        """The engine, with the policy pack."""
        if self._engine is None:
            raise RehearsalError("the stage is not started")
        return self._engine

    @property
    def engine_log(self) -> Path:
        """What the engine prints, as it prints it."""
        return self.engine.work / "engine.log"

    def ask(self, operation: str, answer: str = "@", **arguments: Any) -> Any:
        """Ask AWS something, or change something by hand."""
        return self.cloud.call(Call(operation, arguments, answer), {})

    def ensure_up(self) -> None:
        """Bring the stack up unless it is."""
        self.start()
        if not self.is_up:
            self.say(f"pulumi up of {self.stack}")
            self.up()

    def ensure_down(self) -> None:
        """Take the stack down unless it is, so that a scenario begins with nothing."""
        self.start()
        if self.engine.recorded():
            self.say(f"pulumi destroy of {self.stack}")
            self.engine.destroy()
        self.is_up = False

    def up(self) -> Result:
        """`pulumi up` with the policy pack."""
        result = self.engine.up()
        self.is_up = True
        return result

    def publish(self, chart: str, version: str) -> None:
        """Give a stub chart another version, as its publisher would; Helm takes the version of what it finds."""
        path = self.folder / "charts" / chart / "Chart.yaml"
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "version": version}))

    def shorten_deletes(self, seconds: int) -> None:
        """Let a deletion that waits in vain fail after some seconds; the engine's own time is ten minutes."""
        self.start()
        self.program.edit(
            "components/kubernetes_object.py",
            "pulumi.ResourceOptions(version=PROVIDER_VERSION), opts)",
            "pulumi.ResourceOptions(version=PROVIDER_VERSION), opts)\n"
            f'        options.custom_timeouts = pulumi.CustomTimeouts(delete="{seconds}s")',
        )
        self.say(f"deletions of single objects wait {seconds} s instead of 10 minutes")

    def forget(self) -> None:
        """Forget connections to a control plane that was started anew."""
        if self._services:
            self._services.stop()
        self._services = ServeServices(self.plane.api)
        self._services.start()

    def failure(self, operation: Callable[[], Result]) -> str:
        """The words of an operation that must fail; empty when it did not."""
        try:
            operation()
        except EngineError as error:
            return str(error)
        return ""

    def checkpoint(self) -> dict[str, Any]:
        """The engine's state file."""
        return self.engine._checkpoint()  # noqa: SLF001 - the file itself, read without starting an engine

    def recorded(self) -> list[dict[str, Any]]:
        """What the engine's state holds, from its file."""
        return list(self.checkpoint().get("resources") or [])

    def existing(self) -> dict[str, int]:
        """How many of each kind exist in the AWS account."""
        return Counter(kind for kind, _ in inventory.existing(self.cloud))

    def objects(self) -> dict[str, str]:
        """Every object of ours in the API server with a digest of what was asked for (not of its status)."""
        return {label(item): _digest(item) for item in leftovers.managed(self.api)}

    def picture(self) -> dict[str, Any]:
        """All of it at one moment: two pictures are equal when nothing was changed."""
        return {
            "objects": self.objects(),
            "AWS": sorted(inventory.existing(self.cloud)),
            "state": {row["urn"]: row.get("inputs") for row in self.recorded()},
        }


class ServeServices(threading.Thread):
    """Makes the Service of each RayService as KubeRay would, where KubeRay is simulated.

    The engine waits a minute for it at each Ingress. It leads nowhere, and goes with its RayService.
    """

    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self.api, self.ended = api, threading.Event()

    def run(self) -> None:
        """Look every half second; what failed is tried again."""
        while not self.ended.wait(0.5):
            with contextlib.suppress(ApiError, ApiUnreachableError, ControlPlaneError):
                for item in self.api.items("/apis/ray.io/v1/rayservices"):
                    self._serve(item)

    def _serve(self, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}-serve-svc"
        if metadata.get("deletionTimestamp") or self.api.get(path):
            return
        owner = {
            "apiVersion": "ray.io/v1",
            "kind": "RayService",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": f"{metadata['name']}-serve-svc",
                    "namespace": metadata["namespace"],
                    "ownerReferences": [owner],
                },
                "spec": {"type": "ExternalName", "externalName": LOAD_BALANCER},
            }
        )

    def stop(self) -> None:
        """End it."""
        self.ended.set()
        self.join()


def _digest(item: dict[str, Any]) -> str:
    metadata = {key: item["metadata"].get(key) for key in OWN_METADATA}
    kept = {"metadata": metadata, **{key: value for key, value in item.items() if key not in NO_SPEC}}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]
