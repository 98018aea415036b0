"""The AWS of a rehearsal: calls to the moto server, and the file for what moto has no API for."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import botocore.session
import jmespath  # type: ignore[import-untyped]
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from components.manifests.iam import partition_of
from rehearsal.aws import shapes
from rehearsal.aws.row import Call, Values

ENDPOINT = "LLMP_AWS_ENDPOINT"
STATE = "LLMP_AWS_STATE"
# Codes that mean: there is no such thing. Most end in NotFound.
GONE = frozenset(
    {
        "404",
        "NoSuchEntity",
        "NoSuchBucket",
        "NoSuchBucketPolicy",
        "NoSuchLifecycleConfiguration",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchTagSet",
        "ServerSideEncryptionConfigurationNotFoundError",
        "OwnershipControlsNotFoundError",
        "ResourceNotFoundException",
        "NonExistentQueue",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "ReplicationGroupNotFoundFault",
    }
)


class AwsError(Exception):
    """AWS refused a call. `code` is its own error code."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        super().__init__(f"{operation}: {code}: {message}")
        self.code = code

    @property
    def gone(self) -> bool:
        """Whether it means that there is no such thing."""
        return self.code in GONE or "NotFound" in self.code or self.code.endswith("NotAttached")


class Held:
    """What the stand-in keeps: one file for each resource, so that every change is one step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, token: str, identity: str) -> Path:
        name = urllib.parse.quote(identity, safe="")
        if len(name) > 120:  # noqa: PLR2004 - file names end at 255 bytes
            name = name[:80] + hashlib.sha256(name.encode()).hexdigest()[:16]
        return self.folder / token.rpartition(":")[2] / f"{name}.json"

    def read(self, token: str, identity: str) -> dict[str, Any] | None:
        """What is kept of a resource, or None."""
        try:
            content = json.loads(self._path(token, identity).read_text())
        except FileNotFoundError:
            return None
        return dict(content)

    def write(self, token: str, identity: str, content: Values) -> None:
        """Keep a resource."""
        path = self._path(token, identity)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{secrets.token_hex(4)}")
        temporary.write_text(json.dumps({**content, "id": identity}, indent=1))
        temporary.replace(path)

    def remove(self, token: str, identity: str) -> bool:
        """Forget a resource; False when it was not there."""
        path = self._path(token, identity)
        existed = path.exists()
        path.unlink(missing_ok=True)
        return existed

    def all(self, token: str = "") -> Iterator[dict[str, Any]]:
        """Everything kept, of one type or of all; each with its `type` and `id`."""
        for path in sorted(self.folder.glob(f"{token.rpartition(':')[2] or '*'}/*.json")):
            try:
                yield {"type": path.parent.name, **json.loads(path.read_text())}
            except (FileNotFoundError, ValueError):
                continue  # deleted meanwhile


@dataclass
class Cloud:
    """One account in one region."""

    endpoint: str
    region: str
    held: Held
    account: str = ""
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def from_environment(cls, region: str) -> Cloud:
        """The cloud that the rehearsal's environment names. Raises KeyError without one."""
        return cls(os.environ[ENDPOINT], region, Held(Path(os.environ[STATE])))

    def given(self) -> Values:
        """What every template may use. The random parts are new each time."""
        return {
            "account": self.account,
            "region": self.region,
            # S3 refuses the name of its first region as a location.
            "location": None if self.region == "us-east-1" else self.region,
            "partition": partition_of(self.region),
            "random": secrets.token_hex(4)[:7],
            "number": secrets.token_hex(9)[:17],
        }

    def client(self, service: str) -> Any:
        """The botocore client of a service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = botocore.session.get_session().create_client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint,
                    aws_access_key_id="rehearsal",
                    aws_secret_access_key="rehearsal",  # noqa: S106 - moto takes any
                    config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
                )
            return self._clients[service]

    def call(self, call: Call, values: Values) -> Any:
        """Make a call and give back what its row wants of the answer. Raises AwsError."""
        service, _, operation = call.operation.partition(".")
        client = self.client(service)
        model = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation])
        filled = shapes.fill(call.template, values)
        try:
            arguments = (
                shapes.to_shape({} if filled is shapes.MISSING else filled, model.input_shape)
                if model.input_shape
                else {}
            )
            # moto's state has no locks of its own.
            with self._lock:
                answer = getattr(client, operation)(**arguments)
        except ClientError as error:
            row = error.response.get("Error", {})
            raise AwsError(call.operation, str(row.get("Code")), str(row.get("Message"))) from error
        except (BotoCoreError, shapes.ShapeError) as error:
            raise AwsError(call.operation, type(error).__name__, str(error)) from error
        return jmespath.search(shapes.fill_path(call.answer, values), answer)

    def exists(self, call: Call, values: Values) -> bool:
        """Whether a call finds something."""
        try:
            return bool(self.call(call, values))
        except AwsError as error:
            if error.gone:
                return False
            raise
