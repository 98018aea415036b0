"""Streams that are watched to their last token, as a strict client behind a load balancer: `python streams.py < PLAN`.

`vllm bench serve` cannot say whether a stream was cut: it calls one that carries an error finished, and a read that
happens to end right after "data:" or the space behind it breaks its parser, which looks like a cut. Here a stream is
finished when the usage at its end counts as many tokens as were asked for, and [DONE] follows.

The load balancer is played too: a request goes to a random one of the addresses whose health check passed within the
last second, as with endpoints behind a Service. The plan comes as one line of JSON on stdin; when stdin closes, no new
request begins. Rows of JSON go to stdout, one for each request, when all have ended. Runs in the serving environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp

FINISHED, CUT, REFUSED = "finished", "cut", "refused"
_HEALTH_PERIOD, _HEALTH_TIMEOUT = 1.0, 3.0


@dataclass(kw_only=True)
class Row:
    """What became of one request; times are the machine's monotonic clock."""

    long: bool
    asked: int
    began: float
    door: str = ""
    first: float | None = None
    last: float | None = None  # when the last piece came
    pieces: int = 0
    ended: float = 0.0
    tokens: int = 0
    end: str = REFUSED
    why: str = ""


class Doors:
    """The addresses of a file, which may change, and those of them that pass their health check."""

    def __init__(self, file: Path, session: aiohttp.ClientSession) -> None:
        self._file, self._session = file, session
        self.healthy: list[str] = []
        self.open = asyncio.Event()

    async def watch(self) -> None:
        """Ask all of them every second."""
        while True:
            doors = json.loads(self._file.read_text())
            passed = await asyncio.gather(*(self._passes(door) for door in doors))
            self.healthy = [door for door, well in zip(doors, passed, strict=True) if well]
            if self.healthy:
                self.open.set()
            await asyncio.sleep(_HEALTH_PERIOD)

    async def _passes(self, door: str) -> bool:
        limit = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT)
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with self._session.get(f"{door}/-/healthz", timeout=limit) as answer:
                return answer.status == 200  # noqa: PLR2004
        return False


async def stream(session: aiohttp.ClientSession, door: str, model: str, row: Row) -> None:
    """One request, read to its end."""
    row.door = door
    body = {"model": model, "prompt": f"{row.began} counts", "max_tokens": row.asked, "ignore_eos": True}
    body |= {"temperature": 0, "stream": True, "stream_options": {"include_usage": True}}
    try:
        async with session.post(f"{door}/v1/completions", json=body) as answer:
            if answer.status != 200:  # noqa: PLR2004
                row.why = f"{answer.status} {(await answer.text())[:120]}"
                return
            await _read(answer, row)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        row.why = f"{type(error).__name__}: {error}"[:160]
    finally:
        row.ended = time.monotonic()
        if row.end != FINISHED and row.first is not None:
            row.end = CUT


async def _read(answer: aiohttp.ClientResponse, row: Row) -> None:
    async for line in answer.content:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            row.end = FINISHED if row.tokens == row.asked else REFUSED
            row.why = "" if row.end == FINISHED else (row.why or f"[DONE] after {row.tokens} tokens")
            return
        row.pieces, row.last = row.pieces + 1, time.monotonic()
        if row.first is None:
            row.first = row.last
        if b"completion_tokens" in data or b'"error"' in data:  # the rest need not be parsed
            _last(json.loads(data), row)
    row.why = row.why or "the stream ended without [DONE]"


def _last(message: dict[str, Any], row: Row) -> None:
    if "error" in message:
        row.why = f"an error in the stream: {message['error']}"[:160]
    elif message.get("usage"):
        row.tokens = message["usage"]["completion_tokens"]


@dataclass(frozen=True)
class Sender:
    """What every request needs: the plan, where it may go, whom it tells."""

    plan: dict[str, Any]
    doors: Doors
    rows: list[Row]
    session: aiohttp.ClientSession
    chance: random.Random

    async def send(self, *, long: bool, at: float = 0.0) -> None:
        """One stream, from a moment of the monotonic clock on."""
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        row = Row(long=long, asked=self.plan["tokens" if long else "short_tokens"], began=time.monotonic())
        self.rows.append(row)
        if self.doors.healthy:
            await stream(self.session, self.chance.choice(self.doors.healthy), self.plan["model"], row)
        else:
            row.ended, row.why = time.monotonic(), "no address passes its health check"


async def run(plan: dict[str, Any], rows: list[Row]) -> None:
    """Long streams begin at random moments of `spread` seconds, short ones regularly until stdin closes."""
    limits = aiohttp.ClientTimeout(total=plan["seconds"], sock_connect=10)
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:
        doors = Doors(Path(plan["doors"]), session)
        watching = asyncio.create_task(doors.watch())
        closed = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        await doors.open.wait()
        began = time.monotonic()
        print(json.dumps({"began": began}), flush=True)  # noqa: T201 - the result
        chance = random.Random(plan["seed"])  # noqa: S311 - moments of a load, no secret
        sender = Sender(plan, doors, rows, session, chance)
        moments = [chance.uniform(0, plan["spread"]) for _ in range(plan["count"])]
        tasks = [asyncio.create_task(sender.send(long=True, at=began + moment)) for moment in moments]
        while not closed.done():
            tasks.append(asyncio.create_task(sender.send(long=False)))
            await asyncio.wait([closed], timeout=plan["short_every"])
        await asyncio.gather(*tasks)
        watching.cancel()


def main() -> int:
    """Read the plan, send, print the rows."""
    rows: list[Row] = []
    asyncio.run(run(json.loads(sys.stdin.readline()), rows))
    for row in rows:
        print(json.dumps(asdict(row)))  # noqa: T201 - the result
    return 0


if __name__ == "__main__":
    sys.exit(main())
