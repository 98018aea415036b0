"""The models of a rehearsal as their users see them: where they answer, with which key, and a first question."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.errors import RehearsalError
from rehearsal.stack_copy import STAND_IN_SECRET

ASK_SECONDS = 60.0
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI endpoint of a model on this machine."""

    model: str
    port: int
    key: str = ""

    @property
    def url(self) -> str:
        """Its base address."""
        return f"http://127.0.0.1:{self.port}/v1"

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """One request. Raises RehearsalError with what came back."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, headers)  # noqa: S310 - own URL
        try:
            with urllib.request.urlopen(request, timeout=ASK_SECONDS) as answer:  # noqa: S310 - own URL
                content: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")[:300]
            raise RehearsalError(f"{self.model} at {self.url}/{path}: HTTP {error.code}: {text}") from error
        except (OSError, ValueError) as error:
            raise RehearsalError(f"{self.model} at {self.url}/{path}: {error}") from error
        return content

    def first_answer(self, seconds: float = PATIENCE_SECONDS) -> str:
        """The name under which it serves and its words for a short prompt. Raises RehearsalError when none come."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                name = str(self.ask("models")["data"][0]["id"])
                self.ask("completions", {"model": name, "prompt": "hello", "max_tokens": 8})
            except RehearsalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return name

    def curl(self, name: str) -> str:
        """A command for a person's terminal."""
        key = f" -H 'Authorization: Bearer {self.key}'" if self.key else ""
        body = json.dumps({"model": name, "prompt": "hello", "max_tokens": 8})
        return f"curl {self.url}/completions{key} -H 'Content-Type: application/json' -d '{body}'"


def endpoints(doors: Mapping[str, int], platform: Mapping[str, Any]) -> list[Endpoint]:
    """The endpoints of the live models. Where the stack's endpoint asks for keys, the stand-in is the key."""
    place = platform.get("endpoint")
    key = STAND_IN_SECRET if isinstance(place, dict) and place.get("keys") else ""
    return [Endpoint(name, port, key) for name, port in doors.items()]
