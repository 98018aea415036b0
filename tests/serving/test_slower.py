"""The relay that makes an endpoint slower by a known share."""

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import urlopen

import pytest

from bench.slower import Slower

FIRST, REST = 0.2, 0.1  # seconds until the first part of an answer, and from there to the second


class TwoParts(BaseHTTPRequestHandler):
    """Answers in two parts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """A part after FIRST, the other one REST later."""
        self.send_response(200)
        self.send_header("content-length", "6")
        time.sleep(FIRST)
        self.end_headers()
        self.wfile.write(b"one")
        self.wfile.flush()
        time.sleep(REST)
        self.wfile.write(b"two")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of two parts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), TwoParts)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def times(url: str) -> tuple[float, float]:
    """Seconds to the first and to the last byte of an answer, which must be whole."""
    started = time.monotonic()
    with urlopen(url) as answer:  # noqa: S310 - loopback
        first = answer.read(3)
        at_first = time.monotonic() - started
        assert first + answer.read() == b"onetwo"
    return at_first, time.monotonic() - started


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_everything_is_later_by_the_same_share(url: str, factor: float) -> None:
    """The first part and the last come after factor times their time, and the bytes are the same."""
    with Slower(url, factor) as slower:
        first, last = times(slower.url)

    assert FIRST * factor <= first < FIRST * factor + 0.08
    assert (FIRST + REST) * factor <= last < (FIRST + REST) * factor + 0.12
