"""Users' traffic: what became of each request, the burst, the pause."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rehearsal import traffic


class Answers(BaseHTTPRequestHandler):
    """Ends each answer as the path of its address says."""

    protocol_version = "HTTP/1.0"
    ways: dict[str, bytes] = {  # noqa: RUF012 - a table
        "good stream": b"data: {}\n\ndata: [DONE]\n\n",
        "cut stream": b"data: {}\n\n",
        "error in stream": b'data: {"error": "died"}\n\ndata: [DONE]\n\n',
        "good": b'{"choices": []}',
        "cut": b'{"choices": [',
    }
    way = "good"

    def do_POST(self) -> None:
        """Answer."""
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        status = 503 if self.way == "refused" else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(self.ways.get(self.way, b"no replica"))

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A model that answers in a chosen way."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    running.seen = []  # type: ignore[attr-defined]
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    ("way", "stream", "result"),
    [
        ("good stream", True, "finished"),
        ("cut stream", True, "cut"),
        ("error in stream", True, "cut"),
        ("good", False, "finished"),
        ("cut", False, "cut"),
        ("refused", False, "refused"),
    ],
)
def test_a_request_is_finished_cut_or_refused(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, *, way: str, stream: bool, result: str
) -> None:
    """Only an answer with its proper end is finished; the key is sent."""
    monkeypatch.setattr(Answers, "way", way)
    request = traffic.Request(0, stream, 0.0)
    traffic.ask(request, traffic.Target("ns/svc", "m", "secret"), "127.0.0.1", server.server_port)

    assert (request.result, bool(request.why)) == (result, result != "finished")
    assert len(request.heard) == (way != "refused")
    assert server.seen == ["Bearer secret"]  # type: ignore[attr-defined]


def test_nobody_there_is_refused() -> None:
    """A closed port is no cut: no answer began."""
    request = traffic.Request(0, stream=True, began=0.0)
    traffic.ask(request, traffic.Target("ns/svc", "m"), "127.0.0.1", 1)

    assert request.result == "refused"
    assert "ConnectionRefusedError" in request.why


class Nowhere:
    """A Service without a ready endpoint."""

    def addresses(self, _namespace: str, _name: str) -> list[str]:
        """None."""
        return []


def test_traffic_keeps_one_line_per_request_and_ends_by_itself(tmp_path: Path) -> None:
    """At 20 requests a second for half a second about ten are sent, each with its reason in the log."""
    log = tmp_path / "requests.jsonl"
    run = traffic.Traffic(Nowhere(), traffic.Target("ns/svc", "m"), log)  # type: ignore[arg-type]
    result = run.run(0.5, 20)
    rows = [json.loads(line) for line in log.read_text().splitlines()]

    assert 8 <= len(rows) <= 11
    assert result["refused"] == len(rows) == traffic.read(log)["refused"]
    assert {row["why"] for row in rows} == {"no endpoint of the Service is ready"}
    assert {row["stream"] for row in rows} == {True, False}


def test_a_burst_is_seen_under_way_until_its_streams_end(tmp_path: Path) -> None:
    """The log tells twice of each: when its answer begins and when it ends; the summary counts only what has ended."""
    log = tmp_path / "requests.jsonl"
    row = {"stream": True, "began": 1.0, "ended": 0.0, "address": "a", "why": "", "result": "", "heard": []}
    lines = [{**row, "number": number} for number in (-2, -1, 0)]
    lines.append({**row, "number": -2, "ended": 3.0, "result": "finished"})
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert traffic.in_flight(log) == 1
    assert traffic.read(log)["finished"] == 1
    assert traffic.read(log)["streams"] == 1


def test_a_burst_is_sent_when_its_file_appears(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four long streams begin beside the steady traffic, once, and the file is gone."""
    monkeypatch.setattr(Answers, "way", "good stream")
    port = server.server_port

    class Here:
        """The model at its port."""

        def addresses(self, _namespace: str, _name: str) -> list[str]:
            return ["127.0.0.1"]

    log, burst = tmp_path / "requests.jsonl", tmp_path / "burst"
    burst.touch()
    run = traffic.Traffic(Here(), traffic.Target("ns/svc", "m"), log, port=port)  # type: ignore[arg-type]
    run.run(0.5, 4, burst=burst)
    rows = traffic.rows(log)

    assert sorted(row["number"] for row in rows if row["number"] < 0) == [-4, -3, -2, -1]
    assert {row["tokens"] for row in rows if row["number"] < 0} == {1900}
    assert {row["result"] for row in rows if row["number"] < 0} == {"finished"}
    assert not burst.exists()


@pytest.mark.parametrize(
    ("rows", "pause"),
    [
        pytest.param([], 0.0, id="nobody asked"),
        pytest.param([(0.0, 1.0, [0.96]), (9.0, 9.5, [9.46])], 0.96, id="nobody waited in between"),
        pytest.param([(0.0, 9.0, [1.0, 2.0, 8.5, 9.0])], 6.5, id="a stream stood still"),
        pytest.param(
            [(0.0, 9.0, [1.0, 8.5, 9.0]), (2.0, 4.0, [3.0, 4.0])], 4.5, id="somebody else was served"
        ),
        pytest.param([(1.0, 1.0, []), (3.0, 3.0, []), (5.0, 6.0, [6.0])], 5.0, id="refused at once, twice"),
        pytest.param([(1.0, 2.0, [2.0]), (3.0, 10.0, [])], 7.0, id="cut, and nothing after it"),
    ],
)
def test_a_pause_is_while_somebody_waits(rows: list[tuple[float, float, list[float]]], pause: float) -> None:
    """From the first that waits to the next piece of anybody's answer; a failed answer ends none."""
    kept = [
        {"began": began, "ended": ended, "heard": heard, "result": "finished" if heard else "cut"}
        for began, ended, heard in rows
    ]
    assert traffic.longest_pause(kept) == pause


def test_some_streams_last_while_others_come_and_go() -> None:
    """Every eighth request is a long stream, or a change would hardly ever meet one under way."""
    target = traffic.Target("ns/svc", "m", tokens=1, stream_tokens=2, long_tokens=3)

    assert [target.tokens_of(number) for number in range(10)] == [3, 1, 2, 1, 2, 1, 2, 1, 3, 1]
