"""Ray's OpenAI ingress with keys where the stack asks for them, and with `retry-after` on overload.

Serve calls `__serve_build_asgi_app__` where a class has it and serves what it returns (ray.serve.ingress, Ray 2.58 and
2.60). Should a later Ray not call it, the ingress reports itself unhealthy, and so never serves without its guard.
"""

from __future__ import annotations

from typing import Any

from endpoint_keys import App, KeyFile, RequireKey, RetryAfter
from ray.serve.llm.ingress import OpenAiIngress


class KeyedIngress(OpenAiIngress):
    """OpenAI ingress; `keys_file` names the mounted keys, and without it everybody may call."""

    def __init__(self, *args: Any, keys_file: str | None = None, **kwargs: Any) -> None:
        """Take what Ray's ingress takes, and the file of keys (`ingress_extra_kwargs`)."""
        super().__init__(*args, **kwargs)
        self._keys_file = keys_file
        self._guarded = False

    async def __serve_build_asgi_app__(self) -> App:
        """Put the guard before the application that Serve has made of this class's methods."""
        self._guarded = True
        return RetryAfter(RequireKey(self.app, KeyFile(self._keys_file)) if self._keys_file else self.app)

    async def check_health(self) -> None:
        """Serve does not route to a replica whose check fails, and restarts it."""
        await super().check_health()
        if not self._guarded:
            raise RuntimeError("this Ray does not call __serve_build_asgi_app__: keys would not be checked")
