"""Who may call the endpoint: bearer keys out of a mounted secret. ASGI, standard library only.

`RequireKey` stands before Ray's OpenAI ingress (routed mode, `keyed_ingress.py`) and before vLLM's own application
(direct mode, vLLM's `middleware` argument). vLLM's own VLLM_API_KEY takes one key and guards /v1 only: /invocations,
/score and /tokenize answer without it (vllm 0.29 entrypoints/serve/middleware/authenticate.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEYS_FILE = os.environ.get("LLM_PLATFORM_KEYS_FILE", "/etc/llm-platform/keys/keys")
REREAD_SECONDS = 10.0  # a changed secret reaches the file within about a minute; no restart is needed
OPEN_PATHS = frozenset({"/health", "/ping"})  # liveness only; they answer with no content
RETRY_AFTER_SECONDS = 5


class KeyFile:
    """Digests of the keys in a file, separated by commas or line ends; lines that start with # are remarks.

    Digests have one length, so comparing them tells nothing about a key's.
    """

    def __init__(self, path: str = KEYS_FILE, clock: Callable[[], float] = time.monotonic) -> None:
        """Read nothing yet: the file is read when the first request comes."""
        self._path = Path(path)
        self._clock = clock
        self._read_at = float("-inf")
        self._digests: tuple[bytes, ...] = ()

    def accepts(self, key: str) -> bool:
        """Whether the file holds the key. Every key is compared, in constant time, whichever one matches."""
        wanted = _digest(key)
        matches = [hmac.compare_digest(wanted, digest) for digest in self._current()]
        return any(matches)

    def _current(self) -> tuple[bytes, ...]:
        now = self._clock()
        if now - self._read_at >= REREAD_SECONDS:
            self._read_at = now
            try:
                self._digests = tuple(_digest(key) for key in keys_of(self._path.read_text()))
            except (OSError, UnicodeError):
                self._digests = ()  # without a file that can be read nobody gets in
        return self._digests


class RequireKey:
    """ASGI application that answers 401 to whoever shows no key of the file, and passes the rest on."""

    def __init__(self, app: App, keys: KeyFile | None = None) -> None:
        """Guard `app`; vLLM makes it with the application alone, so the file has a default."""
        self.app = app
        self.keys = keys or KeyFile()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through what is no request (lifespan), what asks for liveness, CORS preflights, and known keys."""
        if (
            scope["type"] not in ("http", "websocket")
            or self._is_open(scope)
            or self.keys.accepts(_bearer(scope))
        ):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send)

    def __getattr__(self, name: str) -> Any:
        """Routes and state of the application, which Ray reads to name its metrics."""
        return getattr(self.__dict__["app"], name)

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return scope.get("method") == "OPTIONS" or path in OPEN_PATHS


class RetryAfter:
    """ASGI application that tells callers when to come back: Ray's ingress answers overload without `retry-after`."""

    def __init__(self, app: App) -> None:
        """Watch the answers of `app`."""
        self.app = app

    def __getattr__(self, name: str) -> Any:
        """Routes and state of the application, which Ray reads to name its metrics."""
        return getattr(self.__dict__["app"], name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the header to 429 and 503 where it is missing."""

        async def send_with_header(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] in (429, 503):
                headers = list(message.get("headers", ()))
                if not any(name.lower() == b"retry-after" for name, _ in headers):
                    headers.append((b"retry-after", str(RETRY_AFTER_SECONDS).encode()))
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, send_with_header)


def keys_of(text: str) -> list[str]:
    """The keys in a text, whose lines that start with # are remarks."""
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    parts = (part.strip() for line in lines for part in line.split(","))
    return [part for part in parts if part]


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _bearer(scope: Scope) -> str:
    """The key of `authorization: Bearer KEY`, or an empty text, which no file holds."""
    values = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
    scheme, _, key = values[0].decode("latin-1").partition(" ") if len(values) == 1 else ("", "", "")
    return key.strip() if scheme.lower() == "bearer" else ""


async def _refuse(send: Send) -> None:
    """401 in the shape of OpenAI's errors, so that its SDKs raise AuthenticationError."""
    error = {"message": "A known key is needed: authorization: Bearer KEY", "type": "invalid_request_error",
             "param": None, "code": "invalid_api_key"}  # fmt: skip
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
