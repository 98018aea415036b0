"""Stands where the Pulumi engine's resource monitor stands, and writes down every registration.

It answers as the engine does in a preview: inputs come back, ids and computed values stay unknown. The names it builds
on (`MockMonitor`, `run_in_stack`, `set_mocks`) are not a stable interface of the SDK, so they are used here only, and
requirements.txt pins it.
"""

import asyncio
import runpy
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import mocks, rpc, settings
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.stack import run_in_stack
from pulumi.runtime.sync_await import _sync_await

UNKNOWN = {"$unknown": True}
SECRET = {"$secret": True}
STACK_TYPE = "pulumi:pulumi:Stack"


@dataclass(frozen=True, slots=True)
class Registration:
    """One resource as the program registered it.

    ``inputs`` are plain values; computed ones are ``{"$unknown": True}``, secrets ``{"$secret": True}``.
    ``request`` is the engine's own message, for tests that look at further options.
    """

    urn: str
    type: str
    name: str
    parent: str | None
    dependencies: tuple[str, ...]
    inputs: dict[str, Any]
    request: resource_pb2.RegisterResourceRequest = field(repr=False, compare=False)

    @property
    def provider(self) -> str:
        """URN of the explicit provider, or empty."""
        reference = str(self.request.provider)
        return reference.rpartition("::")[0] if reference else ""


Computed = Callable[[Registration], tuple[str, Mapping[str, Any]]]


class CapturingMonitor(mocks.MockMonitor):
    """Answers the SDK and keeps every registration in order.

    ``computed`` gives ids and outputs as an update would; without it everything computed stays unknown, as in a preview.
    """

    def __init__(self, computed: Computed | None = None) -> None:
        super().__init__(_NoCalls())
        self.registrations: list[Registration] = []
        self.outputs: dict[str, Any] = {}
        self.calls: list[str] = []
        self._computed = computed
        self._lock = threading.Lock()  # the SDK calls from worker threads

    def make_urn(self, parent: str, type_: str, name: str) -> str:
        """URN with the whole chain of parent types, as the engine makes it (the stock mock keeps only one)."""
        chain = parent.split("::")[2] if parent else ""
        qualified = type_ if chain in ("", STACK_TYPE) else f"{chain}${type_}"
        return "::".join((f"urn:pulumi:{pulumi.get_stack()}", pulumi.get_project(), qualified, name))

    def RegisterResource(
        self, request: resource_pb2.RegisterResourceRequest
    ) -> resource_pb2.RegisterResourceResponse:
        """Keep the registration; answer with the inputs, and with unknown or computed values beside them."""
        urn = self.make_urn(request.parent, request.type, request.name)
        if request.type == STACK_TYPE:
            return resource_pb2.RegisterResourceResponse(urn=urn)
        parent = None if not request.parent or f"::{STACK_TYPE}::" in request.parent else request.parent
        inputs = {key: plain(value) for key, value in sorted(request.object.fields.items())}
        registration = Registration(
            urn, request.type, request.name, parent, tuple(sorted(request.dependencies)), inputs, request
        )
        with self._lock:
            self.registrations.append(registration)
        return self._answer(registration)

    def _answer(self, registration: Registration) -> resource_pb2.RegisterResourceResponse:
        request = registration.request
        response = resource_pb2.RegisterResourceResponse(urn=registration.urn)
        if not request.remote:
            response.object.CopyFrom(request.object)
        if self._computed and (request.custom or request.remote):
            identity, outputs = self._computed(registration)
            response.id = identity
            # Not the SDK's serializer: it would leave an open event loop in each of its worker threads.
            response.object.update(dict(outputs))
        return response

    def RegisterResourceOutputs(
        self, request: resource_pb2.RegisterResourceOutputsRequest
    ) -> empty_pb2.Empty:
        """Keep the stack's exports."""
        if f"::{STACK_TYPE}::" in request.urn:
            self.outputs = {key: plain(value) for key, value in request.outputs.fields.items()}
        return empty_pb2.Empty()

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> Any:
        """Refuse: a function call is a call to the cloud, and a preview makes none."""
        return self._refuse(request.tok)

    def Call(self, request: resource_pb2.ResourceCallRequest) -> Any:
        """Refuse, as for Invoke."""
        return self._refuse(request.tok)

    def _refuse(self, token: str) -> Any:
        self.calls.append(token)
        message = (
            f"the program calls {token} in a preview; values must come from settings or resource outputs"
        )
        raise RuntimeError(message)


class _NoCalls(mocks.Mocks):
    """The monitor answers by itself; nothing gets here."""

    def call(self, args: mocks.MockCallArgs) -> Any:
        raise NotImplementedError(args.token)

    def new_resource(self, args: mocks.MockResourceArgs) -> Any:
        raise NotImplementedError(args.name)


def plain(value: struct_pb2.Value) -> Any:
    """A protobuf value as plain data: whole numbers as int, unknowns and secrets marked, references as their URN."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _plain_struct(value.struct_value)
    if kind == "list_value":
        return [plain(item) for item in value.list_value.values]
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    if kind == "string_value":
        return dict(UNKNOWN) if value.string_value == rpc.UNKNOWN else value.string_value
    return value.bool_value if kind == "bool_value" else None


def _plain_struct(struct: struct_pb2.Struct) -> Any:
    signature = (
        struct.fields[rpc._special_sig_key].string_value if rpc._special_sig_key in struct.fields else None
    )
    if signature == rpc._special_secret_sig:
        return dict(SECRET)
    if signature == rpc._special_resource_sig:
        return struct.fields["urn"].string_value
    return {key: plain(item) for key, item in sorted(struct.fields.items())}


def run(
    program: Callable[[], None],
    stack: str,
    config: Mapping[str, str],
    *,
    project: str = "llm-platform",
    secrets: tuple[str, ...] = (),
    computed: Computed | None = None,
) -> CapturingMonitor:
    """Run a Pulumi program against a capturing monitor; can be called many times in one process.

    Args:
        program: the body, called as the language host would.
        stack: name of the stack.
        config: full config keys (`project:key`) to text, as the engine hands them over (objects as JSON).
        project: name of the project.
        secrets: keys of ``config`` that are secret.
        computed: gives ids and outputs as after an update; without it the run is a preview.

    Raises:
        pulumi.RunError: the program refused to run.
    """
    monitor = CapturingMonitor(computed)
    loop = (
        asyncio.new_event_loop()
    )  # a run before this one, or asyncio.run, may have left none or a closed one
    asyncio.set_event_loop(loop)
    try:
        pulumi.runtime.set_all_config(dict(config), list(secrets))
        mocks.set_mocks(monitor.mocks, project, stack, preview=computed is None, monitor=monitor)
        settings.set_root_resource(None)  # type: ignore[arg-type] # the SDK's own default
        _sync_await(run_in_stack(program))
    finally:
        loop.close()
        asyncio.set_event_loop(None)
    return monitor


def program_file(path: Path) -> Callable[[], None]:
    """The program in a file, run as `__main__` as the language host does."""

    def program() -> None:
        runpy.run_path(str(path), run_name="__main__")

    return program
