"""Starts the policy pack as the engine does, and speaks to it as the engine does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
MANDATORY, ADVISORY = analyzer_pb2.MANDATORY, analyzer_pb2.ADVISORY
LEVELS = {"advisory": ADVISORY, "mandatory": MANDATORY, "disabled": analyzer_pb2.DISABLED}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource as the engine sends it."""

    type: str
    name: str
    properties: struct_pb2.Struct
    urn: str
    parent: str = ""
    dependencies: tuple[str, ...] = ()


def resource(type_: str, name: str, props: Mapping[str, Any]) -> Resource:
    """A resource from plain properties."""
    struct = struct_pb2.Struct()
    json_format.ParseDict(dict(props), struct)
    return Resource(type_, name, struct, f"urn:pulumi:test::llm-platform::{type_}::{name}")


@dataclass(slots=True)
class Pack:
    """A running pack."""

    stub: analyzer_pb2_grpc.AnalyzerStub
    process: subprocess.Popen[str]

    def configure(self, config: Mapping[str, Mapping[str, Any]]) -> None:
        """Hand over the pack's config, as `--policy-pack-config` does."""
        given = {}
        for name, entry in config.items():
            properties = struct_pb2.Struct()
            json_format.ParseDict(
                {key: value for key, value in entry.items() if key != "enforcementLevel"}, properties
            )
            level = LEVELS[entry.get("enforcementLevel", "mandatory")]
            given[name] = analyzer_pb2.PolicyConfig(enforcementLevel=level, properties=properties)
        self.stub.ConfigureStack(
            analyzer_pb2.AnalyzerStackConfigureRequest(stack="test", project="llm-platform")
        )
        self.stub.Configure(analyzer_pb2.ConfigureAnalyzerRequest(policyConfig=given))

    def analyze(self, item: Resource) -> list[Any]:
        """Diagnostics on one resource, before it is made."""
        request = analyzer_pb2.AnalyzeRequest(
            type=item.type, properties=item.properties, urn=item.urn, name=item.name,
            options=analyzer_pb2.AnalyzerResourceOptions(),
        )  # fmt: skip
        return list(self.stub.Analyze(request).diagnostics)

    def analyze_stack(self, items: Sequence[Resource]) -> list[Any]:
        """Diagnostics on the whole stack."""
        resources = [
            analyzer_pb2.AnalyzerResource(
                type=item.type, properties=item.properties, urn=item.urn, name=item.name, parent=item.parent,
                dependencies=list(item.dependencies), options=analyzer_pb2.AnalyzerResourceOptions(),
            )
            for item in items
        ]  # fmt: skip
        return list(self.stub.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources)).diagnostics)


@contextmanager
def running(
    folder: Path = ROOT / "policies", stack_config: Mapping[str, str] | None = None, *, dry_run: bool = True
) -> Iterator[Pack]:
    """The pack in a process of its own: `python -u -m pulumi.policy <engine> .` in its folder."""
    environment = {
        **os.environ, "PULUMI_PROJECT": "llm-platform", "PULUMI_STACK": "test",
        "PULUMI_DRY_RUN": "true" if dry_run else "false", "PULUMI_CONFIG": json.dumps(dict(stack_config or {})),
    }  # fmt: skip
    environment.pop("PYTHONPATH", None)
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:1", "."], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        port = process.stdout.readline().strip() if process.stdout else ""
        if not port.isdigit():
            process.kill()
            message = f"the pack did not start: {port}{process.communicate()[1]}"
            raise RuntimeError(message)
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield Pack(analyzer_pb2_grpc.AnalyzerStub(channel), process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
