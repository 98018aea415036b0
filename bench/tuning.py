"""`python -m bench.tuning`: the guides' tuning matrix, run and ranked.

Each point starts `vllm serve` with its own engine arguments on this machine, loads it by `vllm bench serve`, and ends it.
On a GPU machine with vLLM on PATH the same command tunes the real model (`--vllm`, `--weights`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.load import LoadError, Workload, bench_serve, random_lengths
from bench.local.ray import LocalError
from bench.servers import bare_vllm

# What the guides vary. On a CPU the share of memory has no meaning and is left out.
MATRIX: dict[str, tuple[Any, ...]] = {
    "max_num_seqs": (16, 64),
    "max_num_batched_tokens": (512, 2048),
    "enable_chunked_prefill": (True, False),
    "enable_prefix_caching": (True, False),
}
FIXED = {"max_model_len": 512, "enforce_eager": True, "dtype": "bfloat16"}


def points(matrix: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination that vLLM takes: without chunked prefill a whole prompt must fit in one step."""
    for values in itertools.product(*matrix.values()):
        point = dict(zip(matrix, values, strict=True))
        chunked = point.get("enable_chunked_prefill", True)
        if chunked or point.get("max_num_batched_tokens", FIXED["max_model_len"]) >= FIXED["max_model_len"]:
            yield point


def ranked(rows: Sequence[Mapping[str, Any]], ttft_ms: float | None) -> list[Mapping[str, Any]]:
    """Most requests a second first; points that miss the objective come after all that keep it."""
    return sorted(
        rows, key=lambda r: (ttft_ms is not None and r["ttft_p99_ms"] > ttft_ms, -r["requests_per_s"])
    )


def _measure(point: Mapping[str, Any], home: Path, workload: Workload) -> dict[str, Any]:
    server = bare_vllm({**FIXED, **point}, home)
    try:
        run = bench_serve(home / "bin" / "vllm", server.endpoint, workload)
    finally:
        server.stop()
    return {
        **point,
        "requests_per_s": run["request_throughput"],
        "ttft_p99_ms": run["p99_ttft_ms"],
        "itl_p99_ms": run["p99_itl_ms"],
        "failed": run.get("failed", 0),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def main() -> int:
    """Run, rank, print."""
    from tools.serving import environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.tuning", description=__doc__)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=V1,V2", help="values of one argument"
    )
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--ttft-p99-ms", type=float, help="objective; points that miss it are ranked last")
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    matrix = {
        n: tuple(json.loads(f"[{v}]")) for n, _, v in (word.partition("=") for word in arguments.set)
    } or MATRIX
    load = random_lengths(64, 32, spread=0.2)
    workload = Workload(
        name="tuning", requests=arguments.requests, concurrency=arguments.concurrency, dataset=load
    )
    home, rows = environment.ensure().folder, []
    for point in points(matrix):
        try:
            rows.append(_measure(point, home, workload))
            _say(json.dumps(rows[-1]))
        except (LocalError, LoadError) as error:
            _say(f"{point}: {error}")
    for place, row in enumerate(ranked(rows, arguments.ttft_p99_ms), start=1):
        print(place, json.dumps(row))  # noqa: T201 - the result
    if arguments.report:
        arguments.report.write_text(json.dumps(ranked(rows, arguments.ttft_p99_ms), indent=1))
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
