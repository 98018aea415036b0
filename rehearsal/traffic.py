r"""Users' traffic on one model, at a constant small rate, through the ready endpoints of its Service.

    python -m rehearsal.traffic --kubeconfig F --service llm-serving/llama-8b-serve-svc --model llama-8b \\
        --seconds 60 --log requests.jsonl

Each request goes over a connection of its own to an endpoint that is ready at that moment, as kube-proxy would choose
it. Every second one streams, every eighth for longer. Whenever the file of `--burst` appears, some long streams begin at
once, so that what is about to happen meets streams under way. Two JSON lines per request are kept, when its answer begins
and when it ends, so that a cut can be explained; the last line on stdout is the summary. It ends by itself, and earlier
when the file of `--until` appears.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.api import Api
from rehearsal.doorway import Services
from rehearsal.errors import RehearsalError
from tools import terminal

PORT = 8000
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 120.0
PROGRESS_SECONDS = 5.0
# Requests a second. A vLLM worker spins for a second after each step (shm_broadcast.py, SpinCondition): with one request
# a second two replicas take both cores, and a raylet that starts beside them dies waiting for its agents (15 s).
RATE = 0.5
FINISHED, CUT, REFUSED = "finished", "cut", "refused"
END = b"[DONE]"
LONG_EVERY = 8  # an even number: these are streams
BURST = 4  # streams: those that take the fewest connections put two on each of two replicas
GOOD = 200
HEARD_SECONDS = 0.1  # pieces of an answer that come closer together are noted once


@dataclass
class Request:
    """What became of one request. Times are seconds since the traffic began."""

    number: int
    stream: bool
    began: float
    tokens: int = 24
    address: str = ""
    status: int = 0
    bytes: int = 0
    ended: float = 0.0
    result: str = ""
    why: str = ""
    heard: list[float] = field(default_factory=list)  # when pieces of a good answer came

    def hear(self, now: float) -> None:
        """Note that a piece of the answer came."""
        if not self.heard or now - self.heard[-1] >= HEARD_SECONDS:
            self.heard.append(now)


@dataclass(frozen=True)
class Target:
    """Where and what to ask."""

    service: str  # namespace/name
    model: str
    key: str = ""
    tokens: int = 24
    stream_tokens: int = 48
    long_tokens: int = 800
    burst_tokens: int = 1900

    def tokens_of(self, number: int) -> int:
        """How many tokens the request of a number asks for."""
        if number % LONG_EVERY == 0:
            return self.long_tokens
        return self.stream_tokens if number % 2 == 0 else self.tokens


def body(target: Target, tokens: int, *, stream: bool) -> dict[str, Any]:
    """A chat completion of a fixed length, so that requests can be compared."""
    return {
        "model": target.model,
        "messages": [{"role": "user", "content": "Count."}],
        "max_tokens": tokens,
        "min_tokens": tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": stream,
    }


def ask(
    request: Request,
    target: Target,
    address: str,
    port: int = PORT,
    begun: Callable[[], None] = lambda: None,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Send one request to an address and note what became of it; `begun` is called when its answer begins.

    Refused: no answer began, or an error status. Cut: an answer began and did not come to its proper end.
    """
    request.address = address
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if target.key:
        headers["Authorization"] = f"Bearer {target.key}"
    connection = http.client.HTTPConnection(address, port, timeout=CONNECT_SECONDS)
    try:
        connection.connect()
        connection.sock.settimeout(ANSWER_SECONDS)
        payload = json.dumps(body(target, request.tokens, stream=request.stream))
        connection.request("POST", "/v1/chat/completions", payload, headers)
        answer = connection.getresponse()
        request.status = answer.status
        begun()
        _take(request, answer, now)
    except (OSError, http.client.HTTPException) as error:
        request.result = CUT if request.status == GOOD else REFUSED
        request.why = f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def _take(request: Request, answer: http.client.HTTPResponse, now: Callable[[], float]) -> None:
    """Read to the end. An answer without its length and end (`[DONE]`, whole JSON) was cut."""
    content = b""
    while piece := answer.read1(65536):
        content += piece
        request.bytes = len(content)
        if request.status == GOOD:
            request.hear(now())
    if request.status != GOOD:
        request.result, request.why = (
            REFUSED,
            f"HTTP {request.status}: {content[:200].decode(errors='replace')}",
        )
        return
    problem = _unfinished(content, stream=request.stream)
    request.result, request.why = (CUT, problem) if problem else (FINISHED, "")


def _unfinished(content: bytes, *, stream: bool) -> str:
    if stream:
        if b'"error"' in content.rpartition(END)[0]:
            return f"an error in the stream: {content[-300:].decode(errors='replace')}"
        return "" if END in content[-40:] else f"the stream ended without {END.decode()}"
    try:
        json.loads(content)
    except ValueError:
        return "the answer ended in the middle"
    return ""


@dataclass
class Traffic:
    """One run. `requests` grows as they end."""

    services: Services
    target: Target
    log: Path
    port: int = PORT
    started: float = field(default_factory=time.monotonic)
    requests: list[Request] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self, number: int, burst_tokens: int = 0) -> None:
        """One request from its start to its last line in the log; a stream of a burst says how long it is."""
        tokens = burst_tokens or self.target.tokens_of(number)
        request = Request(number, bool(burst_tokens) or number % 2 == 0, self._now(), tokens)
        namespace, _, name = self.target.service.partition("/")
        try:
            with self._lock:
                addresses = self.services.addresses(namespace, name)
            if addresses:
                ask(request, self.target, addresses[0], self.port, lambda: self._keep(request), self._now)
            else:
                request.result, request.why = REFUSED, "no endpoint of the Service is ready"
        except RehearsalError as error:
            request.result, request.why = REFUSED, f"endpoints unknown: {error}"
        request.ended = self._now()
        with self._lock:
            self.requests.append(request)
        self._keep(request)

    def _keep(self, request: Request) -> None:
        with self._lock, self.log.open("a") as sink:
            sink.write(json.dumps(asdict(request)) + "\n")

    def _now(self) -> float:
        return round(time.monotonic() - self.started, 3)

    def run(
        self, seconds: float, rate: float, until: Path | None = None, burst: Path | None = None
    ) -> dict[str, Any]:
        """Send at the rate until the time is over or the file is there, wait for the last answers; the summary."""
        threads, number, told = [], 0, 0.0

        def send(*arguments: int) -> None:
            thread = threading.Thread(target=self.one, args=arguments, daemon=True)
            thread.start()
            threads.append(thread)

        bursts = itertools.count(-1, -1)  # their numbers are below those of the steady traffic
        while self._now() < seconds and not (until and until.exists()):
            if burst and burst.exists():
                burst.unlink()
                for _ in range(BURST):
                    send(next(bursts), self.target.burst_tokens)
            send(number)
            number += 1
            if self._now() - told > PROGRESS_SECONDS:
                told = self._now()
                terminal.say(f"{told:.0f} s: {_words(self.requests)}", "traffic")
            time.sleep(max(0.0, number / rate - self._now()))
        for thread in threads:
            thread.join(ANSWER_SECONDS + CONNECT_SECONDS)
        with self._lock:
            return summary([asdict(row) for row in self.requests])


def _words(requests: Iterable[Request]) -> str:
    counts = Counter(row.result for row in list(requests))
    return ", ".join(f"{counts[name]} {name}" for name in (FINISHED, CUT, REFUSED))


def summary(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts, the longest pause, and why others failed."""
    failed = [row for row in rows if row["result"] != FINISHED]
    return {
        **{kind: sum(row["result"] == kind for row in rows) for kind in (FINISHED, CUT, REFUSED)},
        "longest_pause": round(longest_pause(rows), 2),
        "streams": sum(bool(row["stream"]) for row in rows),
        "why": [f"{row['began']} s, {row['address']}: {row['result']}: {row['why']}" for row in failed][:20],
    }


def longest_pause(rows: list[Mapping[str, Any]]) -> float:
    """Seconds, the longest in which somebody waited and nobody got a piece of an answer.

    Who was refused has waited too: an outage lasts from the first request that met it to the next piece of an answer.
    """
    pieces = {moment for row in rows for moment in row["heard"]}
    pieces |= {row["ended"] for row in rows if row["result"] == FINISHED}
    heard = sorted({0.0, *pieces, max((row["ended"] for row in rows), default=0.0)})
    longest = 0.0
    for earlier, later in itertools.pairwise(heard):
        if later - earlier > longest:
            waited = [row["began"] for row in rows if row["began"] < later and row["ended"] > earlier]
            longest = max(longest, later - max(earlier, min(waited, default=later)))
    return longest


def rows(log: Path) -> list[dict[str, Any]]:
    """The last that a log says of each request whose answer has begun; one that goes on has no result yet."""
    lines = log.read_text().splitlines() if log.exists() else []
    last = {row["number"]: row for row in map(json.loads, lines)}
    return list(last.values())


def read(log: Path) -> dict[str, Any]:
    """The summary of a log, also of one whose run still goes on."""
    return summary([row for row in rows(log) if row["result"]])


def in_flight(log: Path) -> int:
    """How many streams of bursts are under way."""
    return sum(row["number"] < 0 and not row["result"] for row in rows(log))


def main(argv: list[str] | None = None) -> int:
    """Run it; the summary is the last line on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--service", required=True, help="NAMESPACE/NAME")
    parser.add_argument("--model", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--rate", type=float, default=RATE, help="requests a second")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--until", type=Path, help="end when this file appears")
    parser.add_argument("--burst", type=Path, help=f"whenever this file appears, {BURST} long streams begin")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--stream-tokens", type=int, default=48)
    parser.add_argument("--long-tokens", type=int, default=800, help=f"of every {LONG_EVERY}th request")
    arguments = parser.parse_args(argv)
    # Not among the arguments: those are seen by everybody on the machine.
    target = Target(
        arguments.service,
        arguments.model,
        os.environ.get("LLMP_ENDPOINT_KEY", ""),
        arguments.tokens,
        arguments.stream_tokens,
        arguments.long_tokens,
    )
    Api.from_kubeconfig(arguments.kubeconfig).close()  # a wrong file is said at once
    traffic = Traffic(Services(arguments.kubeconfig), target, arguments.log)
    result = traffic.run(arguments.seconds, arguments.rate, arguments.until, arguments.burst)
    terminal.show(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
