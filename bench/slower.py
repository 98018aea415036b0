"""An endpoint that is slower by a known share: a relay that hands on every byte of an answer that much later.

A byte that comes t after its request is handed on after factor * t, so the time to the first token, between tokens and
of whole answers all grow by the same share. Factor 1 is the relay's own cost, for a fair comparison. Connections carry
one request at a time, as HTTP/1.1 clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.local.plan import LOOPBACK

_CHUNK = 65536


class Slower:
    """`with Slower(url, 1.1) as slower:` answers at `slower.url`."""

    def __init__(self, url: str, factor: float) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or LOOPBACK, parts.port or 80)
        self._path = parts.path
        self._factor = factor
        self._ready, self._thread = threading.Event(), threading.Thread(target=self._run, daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._end: asyncio.Event
        self.url = ""

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, LOOPBACK, 0)
        self.url = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}{self._path}"
        self._ready.set()
        await self._end.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection and its own one to the endpoint; the end of one is the end of both."""
        try:
            behind_reader, behind_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        clock = _Clock(self._factor)
        directions = [
            asyncio.ensure_future(self._forward(reader, behind_writer, clock)),
            asyncio.ensure_future(self._back(behind_reader, writer, clock)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in directions:
                one.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*directions, return_exceptions=True)
            for end in (behind_writer, writer):
                end.close()

    @staticmethod
    async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: _Clock) -> None:
        while data := await reader.read(_CHUNK):
            clock.asked()
            writer.write(data)
            await writer.drain()

    @staticmethod
    async def _back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: _Clock) -> None:
        """Reading never waits for handing on, or the next bytes would seem to have come later than they did."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def hand_on() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(due - asyncio.get_running_loop().time())
                writer.write(data)
                await writer.drain()
                queue.task_done()

        handing = asyncio.ensure_future(hand_on())
        try:
            while data := await reader.read(_CHUNK):
                queue.put_nowait((clock.due(), data))
            await queue.join()
        finally:
            handing.cancel()


class _Clock:
    """When a byte that comes now is handed on."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._asked = 0.0
        self._answering = False

    def asked(self) -> None:
        """A part of a request; the first one after an answer starts its time."""
        if self._answering or not self._asked:
            self._asked, self._answering = asyncio.get_running_loop().time(), False

    def due(self) -> float:
        """For a part of the answer."""
        self._answering = True
        now = asyncio.get_running_loop().time()
        return self._asked + self._factor * (now - self._asked)
