"""`python -m bench.tuning`: the guides' tuning matrix, run and ranked.

Each point starts `vllm serve` with its own engine arguments on this machine, loads it by `vllm bench serve`, and ends it.
On a GPU machine the same command tunes the real model, for example with `--vllm vllm --weights s3://bucket/model
--set gpu_memory_utilization=0.85,0.92 --set max_num_seqs=64,128 --fixed max_model_len=8192 --tokens-in 512`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
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
TINY = {"max_model_len": 512, "enforce_eager": True, "dtype": "bfloat16"}


def points(matrix: Mapping[str, Sequence[Any]], fixed: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination that vLLM takes: without chunked prefill a whole prompt must fit in one step."""
    for values in itertools.product(*matrix.values()):
        point = {**fixed, **dict(zip(matrix, values, strict=True))}
        longest, step = point.get("max_model_len", 0), point.get("max_num_batched_tokens", math.inf)
        if point.get("enable_chunked_prefill", True) or step >= longest:
            yield point


def ranked(rows: Sequence[Mapping[str, Any]], ttft_ms: float | None) -> list[Mapping[str, Any]]:
    """Most requests a second first; points that miss the objective come after all that keep it."""
    return sorted(
        rows, key=lambda r: (ttft_ms is not None and r["ttft_p99_ms"] > ttft_ms, -r["requests_per_s"])
    )


def _measure(
    point: Mapping[str, Any], home: Path, vllm: Path, weights: str | None, workload: Workload
) -> dict[str, Any]:
    server = bare_vllm(point, home, vllm=vllm, weights=weights)
    endpoint = replace(server.endpoint, tokenizer=None) if weights else server.endpoint
    try:
        run = bench_serve(vllm, endpoint, workload)
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


def _pairs(words: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """NAME=V1,V2 as a row of the matrix; what is not JSON is a text.

    Raises:
        ValueError: a word has no value.
    """
    found = {}
    for word in words:
        name, _, values = word.partition("=")
        if not name or not values:
            raise ValueError(f"{word!r}: write NAME=VALUE,VALUE, for example max_num_seqs=16,64")
        found[name] = tuple(_value(one) for one in values.split(","))
    return found


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--set", action="append", default=[], metavar="NAME=V1,V2", help="values to try")
    parser.add_argument("--fixed", action="append", default=[], metavar="NAME=V", help="of every point")
    parser.add_argument("--vllm", type=Path, help="vLLM's command; the serving environment's if unset")
    parser.add_argument("--weights", help="folder or address of a model; the tiny one if unset")
    parser.add_argument("--tokens-in", type=int, default=64)
    parser.add_argument("--tokens-out", type=int, default=32)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--ttft-p99-ms", type=float, help="objective; points that miss it are ranked last")
    parser.add_argument("--report", type=Path, help="write the ranking as JSON")
    return parser.parse_args()


def main() -> int:
    """Run, rank, print. Exit code 0: ranked; 1: no point ran; 2: not understood."""
    from tools.serving import environment  # noqa: PLC0415

    arguments = _arguments()
    try:
        matrix, fixed = _pairs(arguments.set) or MATRIX, _pairs(arguments.fixed)
    except ValueError as error:
        _say(str(error))
        return 2
    same = {name: values[0] for name, values in fixed.items()} or ({} if arguments.weights else TINY)
    home = environment.folder() if arguments.vllm and arguments.weights else environment.ensure().folder
    load = random_lengths(arguments.tokens_in, arguments.tokens_out, spread=0.2)
    workload = Workload(
        name="tuning", requests=arguments.requests, concurrency=arguments.concurrency, dataset=load
    )
    rows, wanted = [], list(points(matrix, same))
    for number, point in enumerate(wanted, start=1):
        varied = {name: point[name] for name in matrix}
        try:
            row = _measure(point, home, arguments.vllm or home / "bin" / "vllm", arguments.weights, workload)
            rows.append(row)
            _say(f"{number} of {len(wanted)} {varied}: {row['requests_per_s']:.1f} requests/s")
        except (LocalError, LoadError) as error:
            _say(f"{number} of {len(wanted)} {varied}: {error}")
    best = ranked(rows, arguments.ttft_p99_ms)
    print(table(best, list(matrix), arguments.ttft_p99_ms))  # noqa: T201 - the result
    if arguments.report:
        arguments.report.write_text(json.dumps(best, indent=1))
    return 0 if rows else 1


def table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], ttft_ms: float | None) -> str:
    """The ranking in Markdown."""
    figures = ("requests_per_s", "ttft_p99_ms", "itl_p99_ms", "failed")
    lines = [f"| place | {' | '.join([*names, *figures])} |", "|" + "---|" * (1 + len(names) + len(figures))]
    for place, row in enumerate(rows, start=1):
        missed = ttft_ms is not None and row["ttft_p99_ms"] > ttft_ms
        cells = [str(row[name]) for name in names] + [f"{row[name]:.1f}" for name in figures[:3]]
        lines.append(
            f"| {place}{' (misses the objective)' if missed else ''} | {' | '.join(cells)} | {row['failed']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
