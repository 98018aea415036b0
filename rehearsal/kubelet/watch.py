"""Keeps the objects of one kind at hand: a list, then the server's own stream of changes."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from rehearsal.api import Api, Manifest
from rehearsal.errors import RehearsalError

# The server ends a stream after this long; a stream that says nothing for longer is dead.
STREAM_SECONDS = 60
PAUSE_SECONDS = 0.5
_OK = 200

Changed = Callable[[Manifest, bool], None]


def key(item: Manifest) -> str:
    """Namespace and name."""
    metadata = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


class Watch:
    """The objects under one path, by namespace and name. `changed(object, gone)` is called for each change."""

    def __init__(self, api: Api, path: str, changed: Changed, **query: str) -> None:
        self._api = api
        self._path = path
        self._query = query
        self._changed = changed
        self._objects: dict[str, dict[str, Any]] = {}
        self.listed = threading.Event()

    def start(self) -> None:
        """Follow in a thread that ends with the process."""
        threading.Thread(target=self._follow, name=f"watch {self._path}", daemon=True).start()

    def get(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One object, or None."""
        return self._objects.get(f"{namespace}/{name}")

    def all(self) -> list[dict[str, Any]]:
        """All objects now."""
        return list(self._objects.values())

    def _follow(self) -> None:
        while True:
            with contextlib.suppress(RehearsalError, OSError, http.client.HTTPException, ValueError):
                version = self._list()
                while version:
                    version = self._stream(version)
            time.sleep(PAUSE_SECONDS)

    def _list(self) -> str:
        content = self._api.request("GET", self._path, **self._query)
        found = {key(item): item for item in content.get("items") or []}
        gone = [item for name, item in self._objects.items() if name not in found]
        fresh = [item for name, item in found.items() if self._is_new(name, item)]
        self._objects = found
        self.listed.set()
        for item in gone:
            self._changed(item, True)
        for item in fresh:
            self._changed(item, False)
        return str(content["metadata"]["resourceVersion"])

    def _is_new(self, name: str, item: Manifest) -> bool:
        known = self._objects.get(name)
        return known is None or known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]

    def _stream(self, version: str) -> str:
        """Take changes until the server ends the stream; the version to go on from, or nothing to list again."""
        query = {
            **self._query,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(STREAM_SECONDS),
        }
        connection = self._connect()
        try:
            headers = {"Authorization": f"Bearer {self._api.token}", "Accept": "application/json"}
            connection.request("GET", f"{self._path}?{urlencode(query)}", headers=headers)
            answer = connection.getresponse()
            if answer.status != _OK:
                return ""
            while line := answer.readline():
                change = json.loads(line)
                if change["type"] == "ERROR":  # the version is too old to go on from
                    return ""
                version = change["object"]["metadata"]["resourceVersion"]
                self._take(change["type"], change["object"])
            return version
        finally:
            connection.close()

    def _take(self, kind: str, item: dict[str, Any]) -> None:
        if kind == "BOOKMARK":
            return
        if kind == "DELETED":
            self._objects.pop(key(item), None)
        else:
            self._objects[key(item)] = item
        self._changed(item, kind == "DELETED")

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self._api.ca_file))
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as in Api: the server makes its own certificate
        address = urlsplit(self._api.url)
        return http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=STREAM_SECONDS + 15, context=context
        )
