"""`llmp bench` and `llmp compare` where no endpoint is needed: what they refuse, and their words about result files."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.load import _first_error
from bench.picture import Panel, timeline
from bench.results import summary, svg
from llmp.__main__ import app

HERE = Path(__file__).parent


def call(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout, done.stderr


def result(folder: Path, name: str, seconds: float) -> Path:
    """A result file of 400 requests, eight at once, each of which took about so many seconds."""
    requests = [seconds * (1 + (number * 7 % 10) / 100) for number in range(400)]
    content = {
        "request_throughput": 8 / seconds,
        "start_times": [number // 8 * seconds for number in range(400)],
        "ttfts": [each / 4 for each in requests],
        "itls": [[each / 4] * 3 for each in requests],
        "errors": [""] * 400,
    }
    path = folder / name
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--goodput", "itl:20"), "--goodput itl:20: write ttft:MS, tpot:MS or e2el:MS"),
        (("--goodput", "ttft:fast"), "--goodput ttft:fast: write"),
        (("--shape", "sharegpt"), "--shape sharegpt needs the file: --dataset FILE"),
        (("--against", "nothing.json"), "nothing.json: is not what `llmp bench --json` writes"),
    ],
)
def test_says_what_cannot_be_run(words: tuple[str, ...], reason: str) -> None:
    """Before any load tool is started: a sentence, and exit code 2."""
    code, out, error = call("bench", "http://127.0.0.1:9/v1", "--model", "tiny", *words)

    assert (code, out) == (2, "")
    assert error.startswith(reason)


def test_compare_calls_a_slower_run_slower(tmp_path: Path) -> None:
    """A tenth more is slower with exit code 1; the other way round it is faster, and the same file is the same."""
    before, after = result(tmp_path, "before.json", 1.0), result(tmp_path, "after.json", 1.1)

    code, out, _ = call("compare", str(before), str(after))
    assert (code, out.splitlines()[-1]) == (1, "slower")
    code, out, _ = call("compare", str(after), str(before))
    assert (code, out.splitlines()[-1]) == (0, "faster")
    code, out, _ = call("compare", str(before), str(before))
    assert (code, out.splitlines()[-1]) == (0, "no difference")


def test_compare_says_nothing_about_short_runs(tmp_path: Path) -> None:
    """Ten requests prove neither a difference nor that there is none."""
    path = tmp_path / "short.json"
    path.write_text(json.dumps({"request_throughput": 1.0, "start_times": [0.0] * 10, "errors": [""] * 10}))
    code, out, _ = call("compare", str(path), str(path))

    assert code == 2
    assert out.startswith("not known: a run needs 20 finished requests")


def test_compare_names_a_file_that_is_none(tmp_path: Path) -> None:
    """The file, and why."""
    path = tmp_path / "x.json"
    path.write_text("[]")
    code, _, error = call("compare", str(path), str(path))

    assert code == 2
    assert error.startswith(f"{path}: is not what `llmp bench --json` writes")


def figures() -> dict[str, Any]:
    """What the tool writes, in small."""
    percentiles = {f"p{p}_{metric}_ms": p + 0.5 for p in (50, 90, 95, 99) for metric in ("ttft", "e2el")}
    return {
        **percentiles,
        "mean_ttft_ms": 40.0,
        "mean_e2el_ms": 41.0,
        "request_throughput": 19.875,
        "output_throughput": 640.0,
        "request_goodput": 18.0,
        "completed": 98,
        "failed": 2,
        "errors": ["", "Traceback\n  File x\nServerDisconnectedError", "", "ServerDisconnectedError"],
    }


def test_summary_shows_the_tools_figures() -> None:
    """Percentiles, rates, and the failed requests by kind, of which the last line of a traceback is the name."""
    text = summary(figures())

    assert "first token            40.0      50.5      90.5      95.5      99.5" in text
    assert "requests/s            19.88" in text
    assert "good requests/s       18.00" in text
    assert "finished 98, failed 2\n    2 x ServerDisconnectedError" in text


def test_reason_is_one_line() -> None:
    """Where nothing succeeded the tool keeps a traceback; its last line is what a person needs."""
    run = {
        "errors": [
            "Traceback (most recent call last):\n  File x\nClientConnectorError: Cannot connect to host a:9"
        ]
    }

    assert _first_error(run) == "ClientConnectorError: Cannot connect to host a:9"


def test_pictures_are_svg() -> None:
    """Both kinds are well-formed, and each bar and line has its name."""
    bars = ET.fromstring(svg(figures()))  # noqa: S314 - our own text
    graph = ET.fromstring(timeline("a & b", [Panel(unit="replicas", lines={"wanted": [(0, 1), (5, 3)]})]))  # noqa: S314
    words = {node.text for root in (bars, graph) for node in root.iter("{http://www.w3.org/2000/svg}text")}

    assert {"first token p99", "whole answer p50", "a & b", "wanted", "5 s"} <= words
