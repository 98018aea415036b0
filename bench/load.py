"""Load by kept tools: `vllm bench serve` for streams (time to first token, between tokens), wrk for whole answers.

No client of our own: this module starts the tool and reads its result file.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

Say = Callable[[str], None]

IN_CLUSTER = Path(__file__).resolve().parents[1] / "in_cluster"
PERCENTILES = (50, 90, 95, 99)
METRICS = ("ttft", "itl", "tpot", "e2el")


class LoadError(Exception):
    """The load tool did not give a result. The message says why."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What is asked of an endpoint. `dataset` holds the tool's own options; `rate` in requests/s, None: as fast as it goes."""

    name: str
    requests: int
    concurrency: int | None
    dataset: tuple[str, ...]
    rate: float | None = None
    burstiness: float = 1.0  # 1: Poisson; below 1 the requests come in bursts
    warmups: int = 8
    goodput: Mapping[str, float] | None = None  # metric -> milliseconds
    seed: int = 0

    def times(self, requests: int) -> Workload:
        """The same with another number of requests."""
        return replace(self, requests=requests)


def random_lengths(input_tokens: int, output_tokens: int, spread: float = 0.0) -> tuple[str, ...]:
    """Random tokens; lengths vary by `spread` around the given ones."""
    lengths = ("--random-input-len", str(input_tokens), "--random-output-len", str(output_tokens))
    return ("--dataset-name", "random", *lengths, "--random-range-ratio", str(spread))


def shared_prefixes(prefixes: int, prefix: int, suffix: int, output_tokens: int) -> tuple[str, ...]:
    """Prompts that share their beginnings: how system prompts look."""
    options = {
        "num-prefixes": prefixes,
        "prefix-len": prefix,
        "suffix-len": suffix,
        "output-len": output_tokens,
    }
    flags = [word for name, value in options.items() for word in (f"--prefix-repetition-{name}", str(value))]
    return ("--dataset-name", "prefix_repetition", *flags)


def sharegpt(path: Path) -> tuple[str, ...]:
    """Conversations of a file in ShareGPT's format."""
    return ("--dataset-name", "sharegpt", "--dataset-path", str(path))


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An OpenAI API: address up to and with /v1, the model's name there, and its tokenizer's folder.

    Without a tokenizer prompts are of common English words, about one token each; the engine counts what it makes.
    """

    url: str
    model: str
    tokenizer: Path | None
    key: str | None = None


def bench_serve(vllm: Path, endpoint: Endpoint, workload: Workload, say: Say | None = None) -> dict[str, Any]:
    """Run `vllm bench serve` and return its result file.

    Raises:
        LoadError: the tool failed, or no request of the run succeeded.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [str(vllm), *_arguments(endpoint, workload, Path(folder))]
        done = _run(command, _environment(endpoint), say)
        result = Path(folder) / "result.json"
        if done.returncode != 0 or not result.exists():
            raise LoadError(f"vllm bench serve failed: {_last_lines(done.stdout + done.stderr)}")
        figures: dict[str, Any] = json.loads(result.read_text())
    if not figures.get("completed"):
        raise LoadError(f"no request of {workload.name} succeeded: {_first_error(figures)}")
    return figures


def _arguments(endpoint: Endpoint, workload: Workload, folder: Path) -> Iterable[str]:
    tokenizer = endpoint.tokenizer or word_tokenizer(folder / "words")
    limits = () if workload.concurrency is None else ("--max-concurrency", str(workload.concurrency))
    goodput = workload.goodput or {}
    return (
        "bench",
        "serve",
        *("--backend", "openai"),
        *("--base-url", endpoint.url.removesuffix("/").removesuffix("/v1")),
        *("--endpoint", "/v1/completions"),
        *("--model", endpoint.model),
        *("--tokenizer", str(tokenizer)),
        *workload.dataset,
        *("--num-prompts", str(workload.requests)),
        *("--num-warmups", str(workload.warmups)),
        *("--request-rate", "inf" if workload.rate is None else str(workload.rate)),
        *("--burstiness", str(workload.burstiness)),
        *limits,
        *("--seed", str(workload.seed)),
        *("--percentile-metrics", ",".join(METRICS)),
        *("--metric-percentiles", ",".join(str(p) for p in PERCENTILES)),
        *(("--goodput", *(f"{k}:{v:g}" for k, v in goodput.items())) if goodput else ()),
        "--ignore-eos",
        "--save-result",
        "--save-detailed",
        *("--result-dir", str(folder), "--result-filename", "result.json"),
        *("--temperature", "0"),
    )


def word_tokenizer(folder: Path) -> Path:
    """The tokenizer of common words that the benchmark in the cluster has too, written to a folder."""
    written: Path = runpy.run_path(str(IN_CLUSTER / "words.py"))["write_tokenizer"](folder)
    return written


def _environment(endpoint: Endpoint) -> dict[str, str]:
    key = {"OPENAI_API_KEY": endpoint.key} if endpoint.key else {}
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**own, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **key}


def _run(
    command: list[str], environment: Mapping[str, str], say: Say | None
) -> subprocess.CompletedProcess[str]:
    """The tool's words go through `say` while it runs; of its progress bar, a line every few seconds."""
    process = subprocess.Popen(
        command,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    kept: list[str] = []
    told = _Told(say or (lambda _text: None))
    try:
        for line in process.stdout or ():
            kept.append(line)
            told.say(line.strip())
        return subprocess.CompletedProcess(command, process.wait(), "".join(kept), "")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


class _Told:
    """Passes on what the tool says, but not every step of its progress bars, which redraw one line."""

    def __init__(self, say: Say, every: float = 5.0) -> None:
        self._say, self._every = say, every
        self._last = 0.0

    def say(self, line: str) -> None:
        """Pass it on, or not."""
        if "%|" in line:
            now = time.monotonic()
            if "100%|" not in line and now - self._last < self._every:
                return
            self._last = now
        if line and not line.startswith("Namespace("):  # its whole command line, a screen long
            self._say(line)


def _last_lines(text: str, count: int = 8) -> str:
    return " / ".join(line.strip() for line in text.splitlines()[-count:] if line.strip())


def _first_error(figures: Mapping[str, Any]) -> str:
    errors = [error for error in figures.get("errors", ()) if error]
    return _kind(str(errors[0])) if errors else "the tool names no reason"


def errors_by_kind(figures: Mapping[str, Any]) -> dict[str, int]:
    """Failed requests by the first line of their error."""
    counts: dict[str, int] = {}
    for error in figures.get("errors", ()):
        if error:
            kind = _kind(str(error))
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def _kind(error: str) -> str:
    """The last line of a traceback names the error; an HTTP answer is its own name."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return (lines[-1] if lines else "unnamed")[:200]


@dataclass(frozen=True, kw_only=True)
class WholeAnswers:
    """What wrk saw."""

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    errors: int


_LUA = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
{key}
wrk.body = [[{body}]]
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("P50 %.3f P99 %.3f ERRORS %d\\n", latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    e.status + e.read + e.timeout + e.connect))
end
"""


def wrk_there() -> bool:
    """Whether wrk (Debian package of that name) is installed."""
    return shutil.which("wrk") is not None


def whole_answers(
    endpoint: Endpoint,
    *,
    prompt: str,
    output_tokens: int,
    concurrency: int,
    seconds: int,
    stream: bool = False,
) -> WholeAnswers:
    """Load by wrk: one prompt over and over, each answer read to its end.

    Raises:
        LoadError: wrk is not there or failed.
    """
    body = {"model": endpoint.model, "prompt": prompt, "max_tokens": output_tokens, "ignore_eos": True}
    body |= {"temperature": 0, "stream": stream}
    key = f'wrk.headers["authorization"] = "Bearer {endpoint.key}"' if endpoint.key else ""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_LUA.format(key=key, body=json.dumps(body)))
        script.flush()
        command = ["wrk", "-t1", f"-c{concurrency}", f"-d{seconds}", "--timeout", "60", "-s", script.name]
        try:
            done = subprocess.run(
                [*command, f"{endpoint.url}/completions"], capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise LoadError("wrk is not installed (Debian package wrk)") from None
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    rest = re.search(r"P50 ([\d.]+) P99 ([\d.]+) ERRORS (\d+)", done.stdout)
    if not rate or not rest:
        raise LoadError(f"wrk failed: {_last_lines(done.stdout + done.stderr)}")
    return WholeAnswers(
        requests_per_s=float(rate[1]), p50_ms=float(rest[1]), p99_ms=float(rest[2]), errors=int(rest[3])
    )
