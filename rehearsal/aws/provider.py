"""`pulumi-resource-aws` for a rehearsal: the engine's protocol on one side, `resources.py` on the other.

The engine starts it as it starts the real one: a process that prints its port and serves until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, cast

import grpc  # type: ignore[import-untyped]
from google.protobuf import any_pb2, empty_pb2, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from rehearsal.aws import sdk_types
from rehearsal.aws.cloud import AwsError, Cloud
from rehearsal.aws.resources import HalfMadeError, Resources, changed_names, replacing
from rehearsal.aws.row import Call, Row, Values
from rehearsal.aws.table import ROWS

VERSION = "7.51.1"  # of the SDK in requirements.txt; a test compares them
THREADS = 32
MESSAGE_BYTES = 400 << 20
KIND = provider_pb2.PropertyDiff

# Functions that a program or component may ask for; the program itself asks for none.
FUNCTIONS: dict[str, Callable[[Cloud], Values]] = {
    "aws:index/getPartition:getPartition": lambda cloud: {
        "partition": cloud.given()["partition"], "dnsSuffix": "amazonaws.com", "id": cloud.given()["partition"],
    },
    "aws:index/getRegion:getRegion": lambda cloud: {"region": cloud.region, "id": cloud.region},
    "aws:index/getCallerIdentity:getCallerIdentity": lambda cloud: {
        "accountId": cloud.account, "id": cloud.account, "arn": f"arn:aws:iam::{cloud.account}:root", "userId": "rehearsal",
    },
}  # fmt: skip


class Aws(provider_pb2_grpc.ResourceProviderServicer):
    """The provider. One process serves one configured provider resource."""

    def __init__(self) -> None:
        self.resources: Resources | None = None

    def Handshake(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's names
        """Say what this provider can do."""
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """The version of the SDK whose types are checked."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def CheckConfig(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Take the configuration; a region is needed."""
        config = plain(request.news)
        failures = [] if config.get("region") else [failure("region", "the stand-in needs a region")]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, _context: Any) -> Any:  # noqa: N802
        """Another region or account is another cloud."""
        changed = changed_names(plain(request.olds), plain(request.news))
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=sorted(changed & {"region"}),
            diffs=sorted(changed),
        )

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Reach the account, and refuse one that is not allowed."""
        config = _config(plain(request.args))
        cloud = Cloud.from_environment(str(config["region"]))
        cloud.account = str(cloud.call(Call("sts.get_caller_identity", answer="Account"), {}))
        allowed = config.get("allowedAccountIds")
        if allowed and cloud.account not in allowed:
            abort(context, f"AWS account ID not allowed: {cloud.account} (allowed: {', '.join(allowed)})")
        self.resources = Resources(cloud, (config.get("defaultTags") or {}).get("tags") or {})
        return provider_pb2.ConfigureResponse(
            acceptSecrets=False, supportsPreview=True, acceptResources=False
        )

    def _ready(self, context: Any) -> Resources:
        if self.resources is None:
            abort(context, "the provider is not configured yet")
        return self.resources

    def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Refuse what the type does not have, or what no row of the table can apply; fill in name and tags."""
        row = row_of(request.urn, context)
        news, olds = plain(request.news), plain(request.olds)
        failures = [failure(wrong.path, wrong.reason) for wrong in sdk_types.check(row.token, news)]
        if not failures:
            unknown = [name for name in news if not name.startswith("__") and not row.knows(name)]
            failures = [failure(name, "the rehearsal's stand-in has no way to apply it") for name in unknown]
        checked = self._ready(context).checked(row, name_of(request.urn), news, olds)
        return provider_pb2.CheckResponse(inputs=struct(checked), failures=failures)

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Compare the inputs; the row says which changes make a new resource."""
        row = row_of(request.urn, context)
        olds, news = plain(request.old_inputs) or plain(request.olds), plain(request.news)
        changed, replaces = changed_names(olds, news), replacing(row, olds, news)
        replaced = {path.partition(".")[0] for path in replaces}
        detailed = {
            name: KIND(kind=KIND.UPDATE_REPLACE if name in replaced else KIND.UPDATE, inputDiff=True)
            for name in changed
        }
        # Where the name is fixed the new one cannot stand beside the old one.
        fixed_name = bool(row.autoname) and row.autoname not in (news.get("__defaults") or [])
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=replaces,
            diffs=sorted(changed),
            detailedDiff=detailed,
            hasDetailedDiff=True,
            deleteBeforeReplace=bool(replaces) and fixed_name,
        )

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Make a resource, or say in a preview what is known of it."""
        row, inputs = row_of(request.urn, context), plain(request.properties)
        if request.preview:
            unknown = dict.fromkeys(set(sdk_types.outputs(row.token)) - set(inputs), sdk_types.UNKNOWN)
            return provider_pb2.CreateResponse(properties=struct({**unknown, **inputs}))
        try:
            identity, outputs = self._ready(context).create(row, inputs)
        except HalfMadeError as error:
            abort_half_made(context, error, inputs)
        except AwsError as error:
            abort(context, str(error))
        return provider_pb2.CreateResponse(id=identity, properties=struct(outputs))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Look what a resource is like now; no id means that it is gone."""
        row = row_of(request.urn, context)
        try:
            found = self._ready(context).read(
                row, request.id, plain(request.inputs), plain(request.properties)
            )
        except AwsError as error:
            abort(context, str(error))
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, inputs=struct(found[0]), properties=struct(found[1]))

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Change a resource in place."""
        row, outputs, news = row_of(request.urn, context), plain(request.olds), plain(request.news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=struct({**outputs, **news}))
        try:
            changed = self._ready(context).update(row, request.id, outputs, plain(request.old_inputs), news)
        except AwsError as error:
            abort(context, str(error))
        return provider_pb2.UpdateResponse(properties=struct(changed))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Delete a resource, unless something still uses it."""
        try:
            self._ready(context).delete(row_of(request.urn, context), request.id, plain(request.properties))
        except AwsError as error:
            abort(context, str(error))
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answer the few functions that are known."""
        function = FUNCTIONS.get(request.tok)
        if function is None:
            abort(context, f"the rehearsal's stand-in does not know the function {request.tok}")
        # `return` is a word of Python, so it cannot be written as an argument.
        return provider_pb2.InvokeResponse(**{"return": struct(function(self._ready(context).cloud))})

    def Cancel(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        """Calls are short; each is let come to its end."""
        return empty_pb2.Empty()


def plain(value: struct_pb2.Struct) -> Values:
    """A message as plain data, whole numbers as int."""
    return {name: _plain(item) for name, item in value.fields.items()}


def _plain(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return plain(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    if kind == "number_value":
        return int(value.number_value) if value.number_value.is_integer() else value.number_value
    return None if kind in (None, "null_value") else getattr(value, cast("str", kind))


def struct(values: Values) -> struct_pb2.Struct:
    """Plain data as a message."""
    message = struct_pb2.Struct()
    message.update(values)
    return message


def _config(config: Values) -> Values:
    """The provider's configuration; the SDK sends what is not text as JSON."""
    return {name: _from_json(value) for name, value in config.items()}


def _from_json(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    return json.loads(value)


def failure(path: str, reason: str) -> Any:
    """One complaint about one property."""
    return provider_pb2.CheckFailure(property=path, reason=reason)


def name_of(urn: str) -> str:
    """The resource's name in the program."""
    return urn.rpartition("::")[2]


def row_of(urn: str, context: Any) -> Row:
    """The row of a resource's type; the call ends when there is none."""
    token = urn.split("::")[2].rpartition("$")[2]
    row = ROWS.get(token)
    if row is None:
        abort(context, f"the rehearsal's stand-in for AWS has no row for {token}; add one to rehearsal/aws")
    return row


def abort(context: Any, message: str) -> NoReturn:
    """End a call with an error that the engine shows."""
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError(message)  # abort() has raised already


def abort_half_made(context: Any, error: HalfMadeError, inputs: Values) -> NoReturn:
    """Tell the engine of a resource that exists but is not complete, so that it goes into the state."""
    detail = provider_pb2.ErrorResourceInitFailed
    packed = any_pb2.Any()
    packed.Pack(
        detail(
            id=error.identity, properties=struct(error.outputs), reasons=[str(error)], inputs=struct(inputs)
        )
    )
    code = grpc.StatusCode.UNKNOWN.value[0]
    status = status_pb2.Status(code=code, message=str(error), details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    abort(context, str(error))


def end_with_parent() -> None:
    """End this process when the engine is gone, also after a SIGKILL."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def serve(servicer: Any, options: Iterable[tuple[str, int]] = ()) -> None:
    """Serve on a free port, which is the first line of the output."""
    limits = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_send_message_length", MESSAGE_BYTES),
    ]
    server = grpc.server(ThreadPoolExecutor(max_workers=THREADS), options=[*limits, *options])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    end_with_parent()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    serve(Aws())
