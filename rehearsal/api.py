"""A small client of the Kubernetes API: server-side apply, get, list, delete, and discovery.

The standard library is enough for JSON over HTTPS, and it gives the server's exact words, which a generated client
wraps. Nothing here knows our objects.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from rehearsal.errors import ApiError, ApiUnreachableError

Manifest = Mapping[str, Any]

FIELD_MANAGER = "llm-platform"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"
REQUEST_SECONDS = 30.0
NOT_FOUND = 404
CONFLICT = 409
CLIENT_ERROR = 400


@dataclass(frozen=True)
class Resource:
    """Where objects of a kind live: `apis/apps/v1`, `deployments`, namespaced or not."""

    prefix: str
    plural: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...] = ()

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of all objects, of those in a namespace, or of one."""
        parts = [self.prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        return "/" + "/".join(parts)


def label(manifest: Manifest) -> str:
    """How an object is named in messages: `Deployment llm-serving/web`."""
    metadata = manifest.get("metadata", {})
    name = metadata.get("name", "(no name)")
    namespace = metadata.get("namespace")
    return (
        f"{manifest.get('kind', '(no kind)')} {namespace}/{name}"
        if namespace
        else f"{manifest.get('kind')} {name}"
    )


class _Connection(http.client.HTTPSConnection):
    """A connection whose server's certificate has another name than the address that is connected to."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext, server_name: str) -> None:
        super().__init__(host, port, timeout=REQUEST_SECONDS, context=context)
        self._names = (context, server_name)

    def connect(self) -> None:
        """Connect and check the certificate for the server's name."""
        http.client.HTTPConnection.connect(self)
        context, name = self._names
        self.sock = context.wrap_socket(self.sock, server_hostname=name or self.host)


@dataclass
class Api:
    """An API server's address and a token. Each thread has its own connection, so several may share one Api."""

    url: str
    token: str
    ca_file: Path
    server_name: str = ""  # what its certificate says, where that is not the address
    _resources: dict[str, dict[str, Resource]] = field(default_factory=dict, repr=False)
    _context: ssl.SSLContext | None = field(default=None, repr=False)
    _local: threading.local = field(default_factory=threading.local, repr=False)
    _open: list[http.client.HTTPSConnection] = field(default_factory=list, repr=False)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Api:
        """Read a kubeconfig that a control plane of this package wrote (JSON, one context)."""
        content = json.loads(path.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        return cls(
            cluster["server"],
            user["token"],
            Path(cluster["certificate-authority"]),
            cluster.get("tls-server-name", ""),
        )

    def __enter__(self) -> Self:
        """For a `with` block, which closes the connections at its end."""
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def request(
        self, method: str, path: str, body: Any = None, content_type: str = JSON, **query: str
    ) -> dict[str, Any]:
        """One request. `body` is sent as JSON, or unchanged when it is bytes.

        Raises ApiError with the server's message, and ApiUnreachableError when nothing answers.
        """
        status, content = self._send(method, path, body, content_type, query)
        if status >= CLIENT_ERROR:
            raise ApiError(status, str(content.get("message") or content))
        return content

    def _send(
        self, method: str, path: str, body: Any, content_type: str, query: Mapping[str, str]
    ) -> tuple[int, dict[str, Any]]:
        target = f"{path}?{urlencode(query)}" if query else path
        headers = {"Authorization": f"Bearer {self.token}", "Accept": JSON, "Content-Type": content_type}
        payload = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        status, text = self._exchange(method, target, payload, headers)
        try:
            content = json.loads(text)
        except ValueError:
            content = {"message": text.strip()}
        return status, content if isinstance(content, dict) else {"message": text.strip()}

    def _exchange(
        self, method: str, target: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[int, str]:
        """Send over this thread's open connection; a second try on a new one, for the server may have closed it.

        Every request here may be sent twice: applies, reads and deletes all say what should be, not what to add.
        """
        for last in (False, True):
            connection = self._connection()
            try:
                connection.request(method, target, payload, dict(headers))
                answer = connection.getresponse()
                return answer.status, answer.read().decode(errors="replace")
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                if last:
                    message = f"The API server at {self.url} does not answer: {error}"
                    raise ApiUnreachableError(message) from error
        raise AssertionError

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            address = urlsplit(self.url)
            connection = _Connection(
                address.hostname or "", address.port, context=self._tls(), server_name=self.server_name
            )
            self._local.connection = connection
        if connection not in self._open:
            self._open.append(connection)  # also one that was closed: it opens itself again
        return connection

    def close(self) -> None:
        """Close the connections of all threads; the next request opens a new one."""
        while self._open:
            self._open.pop().close()

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            try:
                self._context = ssl.create_default_context(cafile=str(self.ca_file))
            except OSError as error:
                message = f"The API server's certificate {self.ca_file} cannot be read: {error}"
                raise ApiUnreachableError(message) from error
            # The server makes its own certificate, without the key identifiers that the strict mode of 3.13 wants.
            self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return self._context

    def ready(self) -> bool:
        """Whether the server says that it is ready."""
        try:
            status, _ = self._send("GET", "/readyz", None, JSON, {})
        except ApiUnreachableError:
            return False
        return status < CLIENT_ERROR

    def resource(self, api_version: str, kind: str) -> Resource | None:
        """Where objects of a kind live, or None when the server does not know the kind."""
        known = self._resources.get(api_version, {})
        if kind not in known:
            known = {row.kind: row for row in self.discover(api_version)}
            self._resources[api_version] = known
        return known.get(kind)

    def discover(self, api_version: str) -> list[Resource]:
        """The kinds of one API version, without subresources; empty when the server does not have it."""
        prefix = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
        try:
            content = self.request("GET", f"/{prefix}")
        except ApiError as error:
            if error.status == NOT_FOUND:
                return []
            raise
        return [
            Resource(prefix, row["name"], row["kind"], row["namespaced"], tuple(row["verbs"]))
            for row in content["resources"]
            if "/" not in row["name"]
        ]

    def all_resources(self) -> Iterator[Resource]:
        """Every kind that the server can list, each once, in its preferred version."""
        versions = ["v1"]
        versions += [
            row["preferredVersion"]["groupVersion"] for row in self.request("GET", "/apis")["groups"]
        ]
        for version in versions:
            for row in self.discover(version):
                if "list" in row.verbs:
                    yield row

    def locate(self, manifest: Manifest) -> str:
        """The URL path of an object. Raises ApiError (404) for a kind that the server does not know."""
        version, kind = str(manifest.get("apiVersion")), str(manifest.get("kind"))
        row = self.resource(version, kind)
        if row is None:
            raise ApiError(NOT_FOUND, f'no matches for kind "{kind}" in version "{version}"')
        metadata = manifest.get("metadata", {})
        return row.path(metadata.get("namespace") or "default", metadata.get("name"))

    def apply(self, manifest: Manifest, *, dry_run: bool = False) -> dict[str, Any]:
        """Server-side apply with strict field validation. Raises ApiError with the server's message."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", self.locate(manifest), dict(manifest), APPLY, **query)

    def dry_run(self, manifest: Manifest) -> list[str]:
        """What the server has against an object, in its own words; empty when it would take it."""
        try:
            self.apply(manifest, dry_run=True)
        except ApiError as error:
            return [error.message]
        return []

    def get(self, path: str) -> dict[str, Any] | None:
        """One object, or None when there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """The objects of a list. Their kind and API version are filled in, which the server leaves out."""
        content = self.request("GET", path, **query)
        common = {"apiVersion": content["apiVersion"], "kind": content["kind"].removesuffix("List")}
        return [{**common, **item} for item in content.get("items") or []]

    def delete(self, path: str, grace_seconds: int | None = None) -> None:
        """Delete an object; one that is not there is fine."""
        query = {} if grace_seconds is None else {"gracePeriodSeconds": str(grace_seconds)}
        try:
            self.request("DELETE", path, **query)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise

    def patch_status(self, path: str, status: Manifest) -> None:
        """Merge fields into an object's status, as its controller would."""
        self.request("PATCH", f"{path}/status", {"status": status}, MERGE)
