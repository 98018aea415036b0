"""The drain benchmark's client and its counting, against a server that cuts, refuses and finishes on order."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bench import drain
from bench.local import streams
from bench.stacks import local_model
from components.manifests import ray_environment

PIECE = 'data: {"choices":[{"index":0,"text":" a"}],"usage":null}\n\n'
DONE = "data: [DONE]\n\n"


def usage(tokens: int) -> str:
    """The last message of a stream."""
    return f'data: {{"choices":[],"usage":{{"prompt_tokens":2,"completion_tokens":{tokens}}}}}\n\n'


# What a server sends, and whether it ends its chunks properly -> what the client has to call it.
ANSWERS = {
    "whole": (PIECE * 3 + usage(3) + DONE, True, streams.FINISHED),
    "connection lost": (PIECE * 2, False, streams.CUT),
    "ends early without a word": (PIECE * 2, True, streams.CUT),
    "ends early with a word": (PIECE * 2 + usage(2) + DONE, True, streams.CUT),
    "an error inside": (PIECE + 'data: {"error":{"message":"engine died"}}\n\n' + DONE, True, streams.CUT),
    "nothing": ("", True, streams.REFUSED),
    "connection lost at once": ("", False, streams.REFUSED),
}


class Server(ThreadingHTTPServer):
    """Answers all the same way."""

    answer, proper, status = "", True, 200


class Handler(BaseHTTPRequestHandler):
    """One stream in chunks that break at every fifth byte, also within `data: `."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The health check."""
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """The stream."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.status)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        text = self.server.answer.encode()
        for at in range(0, len(text), 5):
            part = text[at : at + 5]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        if self.server.proper:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def log_message(self, *_arguments: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """On a free port."""
    with Server(("127.0.0.1", 0), Handler) as one:
        thread = threading.Thread(target=one.serve_forever)
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def send(server: Server, folder: Path, closed: str = "", **changes: Any) -> list[dict[str, Any]]:
    """Rows of two long streams of three tokens and the short requests."""
    doors = folder / "doors.json"
    doors.write_text(json.dumps([f"http://127.0.0.1:{server.server_address[1]}"]))
    plan = {"count": 2, "tokens": 3, "spread": 0.1, "doors": str(doors), "model": "tiny", "seed": 0}
    plan |= {"seconds": 20, "short_tokens": 3, "short_every": 0.1, **changes}
    done = subprocess.run(
        [sys.executable, str(Path(streams.__file__))],
        input=json.dumps(plan) + "\n" + closed,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()[1:]]


@pytest.mark.parametrize("kind", ANSWERS)
def test_what_became_of_a_stream(kind: str, server: Server, tmp_path: Path) -> None:
    """Finished only if every token came; cut if some came; refused if none did."""
    server.answer, server.proper, expected = ANSWERS[kind]
    rows = send(server, tmp_path)
    assert [row["long"] for row in rows].count(True) == 2
    assert {row["end"] for row in rows} == {expected}
    assert all(bool(row["why"]) == (expected != streams.FINISHED) for row in rows)


def test_a_refusal_keeps_its_status(server: Server, tmp_path: Path) -> None:
    """The person who reads the report sees why."""
    server.answer, server.status = "Service Unavailable", 503
    rows = send(server, tmp_path)
    assert {(row["end"], row["why"]) for row in rows} == {(streams.REFUSED, "503 Service Unavailable")}


def test_counts_of_a_case() -> None:
    """Long and short apart, and the ages of those in flight at the harm."""
    case = drain.CASES["spot"]
    whole = {"long": True, "end": "finished", "why": ""}
    rows = [
        {**whole, "began": 0.0, "ended": 60.0},
        {**whole, "began": 10.0, "ended": 70.0},
        {"long": True, "began": 40.0, "ended": 55.0, "end": "cut", "why": "lost"},
        {**whole, "began": 50.5, "ended": 100.0},  # begins after the harm
        {"long": False, "began": 51.0, "ended": 51.0, "end": "refused", "why": "503"},
    ]
    outcome = drain.outcome_of(case, rows, harmed=50.0, whole=12.0, left=None)
    assert (outcome.streams.sent, outcome.streams.finished, outcome.streams.cut) == (4, 3, 1)
    assert (outcome.short.sent, outcome.short.refused) == (1, 1)
    assert (outcome.in_flight, outcome.ages) == (3, (10.0, 40.0, 50.0))
    assert outcome.streams.seconds == (49.5, 60.0, 60.0)
    assert outcome.errors == {"long cut: lost": 1, "short refused: 503": 1}


def test_haproxy_keeps_a_stream_as_long_as_a_request_may_take() -> None:
    """By default it cuts all streams 120 s after any replica came or went: seen on the pod that stayed."""
    name = "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"
    direct, routed = local_model("direct"), local_model("routed")
    emitted = {variable["name"]: variable["value"] for variable in ray_environment.common(direct)}
    assert float(emitted[name]) >= direct.timeouts.request
    assert name not in {variable["name"] for variable in ray_environment.common(routed)}
