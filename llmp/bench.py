"""`llmp bench` and `llmp compare`: how an OpenAI endpoint does under a named load, and whether that has changed."""

import json
import shutil
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain, put

if TYPE_CHECKING:
    from bench.load import Workload


_EXITS = {"no difference": 0, "faster": 0, "slower": EXIT_FINDING, "mixed": EXIT_FINDING}


class Shape(StrEnum):
    """What the requests look like."""

    RANDOM = "random"  # random tokens of the given lengths
    PREFIX = "prefix"  # prompts that share their beginnings, as system prompts do
    SHAREGPT = "sharegpt"  # conversations of a file
    BURSTS = "bursts"  # random tokens that come in bursts
    STEADY = "steady"  # 20 requests a second, as in the published guides


def bench(
    url: Annotated[str, typer.Argument(help="Address up to and with /v1.")],
    model: Annotated[str, typer.Option(help="Name of the model in the API.")],
    shape: Annotated[Shape, typer.Option(help="What the requests look like.")] = Shape.RANDOM,
    requests: Annotated[int, typer.Option(min=1)] = 1000,
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="Most requests at once; unset: no limit.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Requests a second; unset: as fast as it goes.")
    ] = None,
    tokens_in: Annotated[int, typer.Option(min=1)] = 512,
    tokens_out: Annotated[int, typer.Option(min=1)] = 128,
    dataset: Annotated[Path | None, typer.Option(help="File of conversations (sharegpt).")] = None,
    goodput: Annotated[
        list[str] | None,
        typer.Option(help="What counts as good: ttft:MS, tpot:MS (between tokens), e2el:MS."),
    ] = None,
    warmups: Annotated[int, typer.Option(min=0)] = 8,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="Folder of the model's tokenizer; unset: common words, about a token each."),
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer key.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the tool's whole result.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Percentiles as SVG.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Result of an earlier run: say what is different.")
    ] = None,
) -> None:
    """Load an endpoint with `vllm bench serve` and show its figures.

    The serving environment's vLLM is used (`make serving-env`); where it is not built, the one on PATH. For people who
    use Locust there is bench/locustfile.py.

    Exit code 0: good; 1: requests failed, or slower than --against; 2: the load could not be run or compared.
    """
    from bench.load import Endpoint, LoadError, bench_serve  # noqa: PLC0415 - `llmp --help` does not wait for it
    from bench.results import summary, svg  # noqa: PLC0415
    from tools.table import ToolsError  # noqa: PLC0415

    before = _result(against) if against else None
    workload = _workload(shape, requests, concurrency, rate, tokens_in, tokens_out, dataset, goodput, warmups)
    try:
        endpoint = Endpoint(url=url, model=model, tokenizer=tokenizer, key=key)
        figures = bench_serve(_vllm(), endpoint, workload, complain)
    except (LoadError, ToolsError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None
    put(summary(figures), Path("-"))
    if json_file:
        put(json.dumps(figures) + "\n", json_file)
    if picture:
        put(svg(figures), picture)
    changed = 0 if before is None else _EXITS.get(_compare(before, figures), EXIT_BAD_INPUT)
    raise typer.Exit(changed or (EXIT_FINDING if figures.get("failed") else 0))


def _vllm() -> Path:
    """The load tool."""
    from tools.serving import environment  # noqa: PLC0415

    found, on_path = environment.locate(), shutil.which("vllm")
    if found is None and on_path:
        return Path(on_path)
    return environment.ensure().program("vllm")


def compare(
    before: Annotated[Path, typer.Argument(help="Result that `llmp bench --json` wrote.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
) -> None:
    """Say whether two runs differ by more than noise.

    Exit code 0: no difference, or faster; 1: slower, or some figures slower and some faster; 2: a file cannot be used, or
    has too few requests.
    """
    raise typer.Exit(_EXITS.get(_compare(_result(before), _result(after)), EXIT_BAD_INPUT))


def _compare(before: dict[str, Any], after: dict[str, Any]) -> str:
    from bench.compare import differences, verdict  # noqa: PLC0415

    rows = differences(before, after)
    for row in rows:
        change = f"{row.before:.4g} -> {row.after:.4g} ({row.ratio - 1:+.1%}, noise {row.noise:.1%})"
        put(f"{row.figure:24} {change:44} {row.verdict}\n", Path("-"))
    word = verdict(rows)
    put(f"{word}\n", Path("-"))
    return word


def _workload(
    shape: Shape,
    requests: int,
    concurrency: int | None,
    rate: float | None,
    tokens_in: int,
    tokens_out: int,
    dataset: Path | None,
    goodput: list[str] | None,
    warmups: int,
) -> "Workload":
    from bench.load import Workload, random_lengths, shared_prefixes, sharegpt  # noqa: PLC0415

    if shape is Shape.SHAREGPT and dataset is None:
        complain("--shape sharegpt needs the file: --dataset FILE")
        raise typer.Exit(EXIT_BAD_INPUT)
    if shape is Shape.SHAREGPT and dataset is not None:
        options = sharegpt(dataset)
    elif shape is Shape.PREFIX:
        options = shared_prefixes(8, max(1, tokens_in * 3 // 4), max(1, tokens_in // 4), tokens_out)
    else:
        options = random_lengths(tokens_in, tokens_out, spread=0.2)
    return Workload(
        name=shape.value,
        requests=requests,
        concurrency=concurrency,
        dataset=options,
        rate=rate or (20.0 if shape in (Shape.STEADY, Shape.BURSTS) else None),
        burstiness=0.2 if shape is Shape.BURSTS else 1.0,
        warmups=warmups,
        goodput=_goodput(goodput),
    )


def _goodput(words: list[str] | None) -> dict[str, float] | None:
    found = {}
    for word in words or ():
        name, _, value = word.partition(":")
        if name not in ("ttft", "tpot", "e2el") or not value.replace(".", "", 1).isdigit():
            complain(f"--goodput {word}: write ttft:MS, tpot:MS or e2el:MS")
            raise typer.Exit(EXIT_BAD_INPUT)
        found[name] = float(value)
    return found or None


def _result(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and "request_throughput" in content:
            return content
        reason = "it has no request_throughput"
    except (OSError, ValueError) as error:
        reason = str(error)
    complain(f"{path}: is not what `llmp bench --json` writes: {reason}")
    raise typer.Exit(EXIT_BAD_INPUT)
