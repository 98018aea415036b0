"""`python -m bench.serving_cost`: what the serving layer costs, platform over bare vLLM, alternating in one run.

Every round measures each server once at each concurrency, the next round in the other order; a ratio is taken within
its round, so that what else the machine does falls on both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import servers
from bench.load import LoadError, Workload, bench_serve, random_lengths, whole_answers, wrk_there
from bench.local.ray import LocalError
from bench.picture import Bar, bars
from bench.servers import Server
from bench.stacks import objects_in_mode

CONCURRENCIES = (1, 8, 32, 64)
TOKENS_IN, TOKENS_OUT = 32, 32
PROMPT = "this is a tiny model and it says hello world to this world"
# About five seconds of load each on two cores; fewer would measure the start, more would measure the afternoon.
REQUESTS = {1: 40, 8: 240, 32: 640, 64: 960}
WRK_SECONDS = 6
BARE = "bare vLLM"
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One measurement of one server."""

    server: str
    kind: str  # stream, whole
    concurrency: int
    round: int
    requests_per_s: float
    requests_per_cpu_s: float
    ttft_ms: float | None
    itl_ms: float | None
    failed: int
    cpu: Mapping[str, float]  # cores by process name


def measure(server: Server, home: Path, concurrency: int, round_number: int, kind: str) -> Figures:
    """Load one thawed server."""
    before, started = server.cpu_seconds(), time.monotonic()
    if kind == "stream":
        run = bench_serve(home / "bin" / "vllm", server.endpoint, _workload(concurrency))
        rate, failed = float(run["request_throughput"]), int(run.get("failed", 0))
        done, ttft, itl = (
            int(run["completed"]) + _workload(concurrency).warmups,
            run["median_ttft_ms"],
            run["median_itl_ms"],
        )
    else:
        seen = whole_answers(
            server.endpoint,
            prompt=PROMPT,
            output_tokens=TOKENS_OUT,
            concurrency=concurrency,
            seconds=WRK_SECONDS,
        )
        rate, failed, ttft, itl = seen.requests_per_s, seen.errors, None, None
        done = round(rate * WRK_SECONDS)
    elapsed = time.monotonic() - started
    used = {name: seconds - before.get(name, 0) for name, seconds in server.cpu_seconds().items()}
    return Figures(
        server=server.name,
        kind=kind,
        concurrency=concurrency,
        round=round_number,
        requests_per_s=rate,
        requests_per_cpu_s=done / sum(used.values()),
        ttft_ms=ttft,
        itl_ms=itl,
        failed=failed,
        cpu={name: seconds / elapsed for name, seconds in used.items() if seconds / elapsed > 0.005},  # noqa: PLR2004
    )


def _workload(concurrency: int) -> Workload:
    return Workload(
        name=f"{TOKENS_IN} tokens in, {TOKENS_OUT} out",
        requests=REQUESTS[concurrency],
        concurrency=concurrency,
        dataset=random_lengths(TOKENS_IN, TOKENS_OUT),
        warmups=min(concurrency, 8),
    )


@contextlib.contextmanager
def running(home: Path, modes: Sequence[str], *, naive: bool) -> Iterator[list[Server]]:
    """All servers, frozen."""
    started: list[Server] = []
    try:
        objects = {mode: objects_in_mode(mode) for mode in modes}
        arguments = servers.engine_arguments_of(objects[modes[0]])
        _start(started, lambda: servers.bare_vllm(arguments, home))
        for mode in modes:
            _start(started, lambda mode=mode: servers.platform_server(mode, objects[mode], home))
        if naive:
            _start(started, lambda: servers.naive_server(home))
        yield started
    finally:
        for server in started:
            server.thaw()
            server.stop()


def _start(started: list[Server], make: Any) -> None:
    server = make()
    started.append(server)
    _say(f"{server.name} answers")
    whole_answers(server.endpoint, prompt=PROMPT, output_tokens=TOKENS_OUT, concurrency=8, seconds=2)
    server.freeze()


def run(
    home: Path, modes: Sequence[str], rounds: int, concurrencies: Sequence[int], *, naive: bool
) -> list[Figures]:
    """All measurements."""
    found: list[Figures] = []
    kinds = ("stream", "whole")
    with running(home, modes, naive=naive) as everyone:
        for number in range(rounds):
            for server in everyone if number % 2 == 0 else reversed(everyone):
                server.thaw()
                time.sleep(SETTLE_SECONDS)
                for kind in kinds if server.streams else ("whole",):
                    for concurrency in concurrencies:
                        figures = measure(server, home, concurrency, number, kind)
                        found.append(figures)
                        _say(_line(figures))
                server.freeze()
    return found


def ratios(found: Iterable[Figures], server: str) -> dict[str, dict[str, dict[str, float]]]:
    """`concurrency_32` -> `requests_per_s` -> least, median and greatest ratio of a server over bare vLLM."""
    found = list(found)
    bare = {(f.kind, f.concurrency, f.round): f for f in found if f.server == BARE}
    values: dict[str, dict[str, list[float]]] = {}
    for one in found:
        base = bare.get((one.kind, one.concurrency, one.round))
        if one.server == server and base:
            into = values.setdefault(f"concurrency_{one.concurrency}", {})
            for name, ratio in _pair(one, base):
                into.setdefault(name, []).append(ratio)
    return {
        level: {name: _spread(numbers) for name, numbers in figures.items()}
        for level, figures in values.items()
    }


def _pair(one: Figures, base: Figures) -> Iterator[tuple[str, float]]:
    prefix = "" if one.kind == "stream" else "whole_"
    yield f"{prefix}requests_per_s", one.requests_per_s / base.requests_per_s
    yield f"{prefix}requests_per_cpu_s", one.requests_per_cpu_s / base.requests_per_cpu_s
    if one.ttft_ms is not None and base.ttft_ms:
        yield "ttft", one.ttft_ms / base.ttft_ms
    if one.itl_ms is not None and base.itl_ms:
        yield "itl", one.itl_ms / base.itl_ms


def _spread(numbers: Sequence[float]) -> dict[str, float]:
    return {"min": min(numbers), "median": statistics.median(numbers), "max": max(numbers)}


def _line(figures: Figures) -> str:
    first = f", first token {figures.ttft_ms:.1f} ms" if figures.ttft_ms is not None else ""
    cpu = ", ".join(
        f"{name} {cores:.2f}" for name, cores in sorted(figures.cpu.items(), key=lambda x: -x[1])[:6]
    )
    return (
        f"round {figures.round + 1} {figures.server:18} {figures.kind:6} {figures.concurrency:3} at once: "
        f"{figures.requests_per_s:7.1f} requests/s{first}, {figures.requests_per_cpu_s:6.1f} per CPU second"
        f"{f', {figures.failed} FAILED' if figures.failed else ''} [{cpu}]"
    )


def report(found: Sequence[Figures], modes: Sequence[str], default: str) -> dict[str, Any]:
    """Everything, the default mode's ratios first."""
    return {
        "ratios": ratios(found, default),
        "default_mode": default,
        "modes": {mode: ratios(found, mode) for mode in modes},
        "machine": {"cores": os.cpu_count(), "load_at_end": os.getloadavg()[0]},
        "measurements": [vars(figures) for figures in found],
    }


def table(content: Mapping[str, Any]) -> str:
    """The ratios as a table in Markdown."""
    lines = ["| mode | at once | figure | min | median | max |", "|---|---|---|---|---|---|"]
    for mode, levels in content["modes"].items():
        for level, figures in levels.items():
            for name, spread in figures.items():
                numbers = " | ".join(f"{spread[key]:.2f}" for key in ("min", "median", "max"))
                lines.append(
                    f"| {mode} | {level.removeprefix('concurrency_')} | {name} over bare | {numbers} |"
                )
    return "\n".join(lines)


def picture(content: Mapping[str, Any]) -> str:
    """Requests a second over bare vLLM."""
    rows = [
        Bar(
            label=f"{mode}, {level.removeprefix('concurrency_')} at once",
            value=figures["requests_per_s"]["median"],
            least=figures["requests_per_s"]["min"],
            greatest=figures["requests_per_s"]["max"],
            series=series,
        )
        for series, (mode, levels) in enumerate(content["modes"].items())
        for level, figures in levels.items()
        if "requests_per_s" in figures
    ]
    return bars("Streams: requests/s over bare vLLM", "ratio, median of the rounds", rows, mark=0.9)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.serving_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--concurrency", type=int, nargs="+", default=list(CONCURRENCIES), choices=CONCURRENCIES
    )
    parser.add_argument("--modes", nargs="+", default=["direct", "routed"], choices=["direct", "routed"])
    parser.add_argument("--no-naive", action="store_true", help="leave the guides' FastAPI server out")
    parser.add_argument("--report", type=Path, help="write everything as JSON")
    parser.add_argument("--picture", type=Path, help="write the ratios as SVG")
    return parser.parse_args()


def main() -> int:
    """Measure, print, write."""
    from components.settings.models import Model  # noqa: PLC0415
    from tools.serving import environment  # noqa: PLC0415

    arguments = _arguments()
    if not wrk_there():
        _say("wrk is not installed (Debian package wrk); it measures whole answers")
        return 2
    home = environment.ensure().folder
    default = str(Model.model_fields["serving"].default.value)
    try:
        found = run(
            home, arguments.modes, arguments.rounds, arguments.concurrency, naive=not arguments.no_naive
        )
    except (LoadError, LocalError) as error:
        _say(str(error))
        return 1
    content = report(found, arguments.modes, default if default in arguments.modes else arguments.modes[0])
    print(table(content))  # noqa: T201 - the result
    if arguments.report:
        arguments.report.write_text(json.dumps(content, indent=1))
    if arguments.picture:
        arguments.picture.write_text(picture(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
