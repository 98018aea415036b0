"""Benchmark inside the cluster: `vllm bench serve` against a model's Service, its figures for Prometheus to fetch.

Standard library only; the image has vLLM. The tool's result is parsed and shown at :8080/metrics for as long as two
scrapes take, and printed as JSON for whoever reads the log. Exit code 1: requests failed; 2: the tool did not run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from endpoint_keys import keys_of
from words import write_tokenizer

PREFIX = "llm_benchmark"
METRICS = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "e2el": "request_latency"}
PERCENTILES = (50, 90, 95, 99)
LEAST_SHOWN_SECONDS = 30.0


def run(arguments: list[str], folder: Path) -> dict[str, Any]:
    """The tool's result. The tokenizer is the one of `words.py` unless the arguments name another.

    Raises:
        RuntimeError: it ended with an error, or without a result.
    """
    percentiles = ",".join(str(p) for p in PERCENTILES)
    wanted = ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", percentiles]
    saved = ["--save-result", "--result-dir", str(folder), "--result-filename", "result.json"]
    tokenizer = [] if "--tokenizer" in arguments else ["--tokenizer", str(write_tokenizer(folder / "words"))]
    done = subprocess.run(
        ["vllm", "bench", "serve", *arguments, *tokenizer, *wanted, *saved],
        stdout=sys.stderr,  # standard output is for the result alone
        env=environment(os.environ),
        check=False,
    )
    result = folder / "result.json"
    if done.returncode or not result.exists():
        raise RuntimeError(f"vllm bench serve ended with code {done.returncode}")
    figures: dict[str, Any] = json.loads(result.read_text())
    return figures


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Variables for the tool: of the callers' keys it takes the first."""
    others = {name: value for name, value in given.items() if name != "OPENAI_API_KEY"}
    keys = keys_of(given.get("OPENAI_API_KEY", ""))
    return others | ({"OPENAI_API_KEY": keys[0]} if keys else {})


def exposition(figures: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The figures in Prometheus' text format, in seconds."""
    return "".join(f"{name}{_braces(labels | own)} {value:.9g}\n" for name, own, value in _samples(figures))


def _samples(figures: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    yield f"{PREFIX}_requests_per_second", {}, figures["request_throughput"]
    yield f"{PREFIX}_output_tokens_per_second", {}, figures["output_throughput"]
    yield f"{PREFIX}_requests_finished", {}, figures["completed"]
    yield f"{PREFIX}_requests_failed", {}, figures.get("failed", 0)
    if figures.get("request_goodput") is not None:
        yield f"{PREFIX}_good_requests_per_second", {}, figures["request_goodput"]
    for metric, name in METRICS.items():
        for percentile in PERCENTILES:
            if (value := figures.get(f"p{percentile}_{metric}_ms")) is not None:
                yield f"{PREFIX}_{name}_seconds", {"quantile": f"{percentile / 100:g}"}, value / 1000


def _braces(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""


def exposing(text: str, port: int) -> HTTPServer:
    """A server that answers every GET with the text; it listens at once, and answers while `serve_forever` runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: a scrape is no news."""

    return HTTPServer(("", port), Handler)


def main() -> int:
    """Run, print, show."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = run(sys.argv[1:], Path(folder))
        except (OSError, RuntimeError) as error:
            sys.stderr.write(f"{error}\n")
            return 2
    text = exposition(figures, {"model": os.environ.get("MODEL", "")})
    with exposing(text, int(os.environ.get("PORT", "8080"))) as server:
        whole = {name: value for name, value in figures.items() if not isinstance(value, list)}
        sys.stdout.write(json.dumps(whole) + "\n")
        sys.stdout.flush()
        seconds = max(LEAST_SHOWN_SECONDS, float(os.environ.get("SHOWN_SECONDS", "0")))
        threading.Timer(seconds, server.shutdown).start()
        server.serve_forever(poll_interval=0.2)
    return 1 if figures.get("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
