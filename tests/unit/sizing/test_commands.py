"""`llmp size` and `llmp simulate`: arguments in, words or JSON out."""

from __future__ import annotations

import json

import pytest
import typer
from typer.testing import CliRunner

from llmp.simulate import simulate
from llmp.size import size

app = typer.Typer()
app.command()(size)
app.command()(simulate)


def ask(*arguments: str) -> object:
    """Run a command."""
    return CliRunner().invoke(app, [*arguments])


def answer(*arguments: str) -> dict[str, object]:
    """Run a command that prints JSON."""
    result = ask(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        (("--instance", "g5.12xlarge"), "does not fit"),
        (("--instance", "p4d.24xlarge", "--tp", "4"), "borderline"),
        (("--instance", "p4d.24xlarge", "--tp", "8"), "fits"),
        (("--instance", "g5.12xlarge", "--quantization", "awq"), "fits"),
        (("--instance", "g5.12xlarge", "--quantization", "awq", "--max-model-len", "131072"), "does not fit"),
    ],
)
def test_the_guides_cases(arguments: tuple[str, ...], verdict: str) -> None:
    """What both guides get wrong, answered before anything is started."""
    assert answer("size", "--model", "llama-3.1-70b", *arguments)["fits"] == verdict


def test_the_json_has_every_field_of_the_contract() -> None:
    """One replica of an AWQ model on g5.12xlarge under a rate."""
    data = answer(
        "size", "--model", "llama-3.1-70b", "--instance", "g5.12xlarge", "--quantization", "awq", "--rate", "0.2"
    )  # fmt: skip
    assert {
        "fits", "weights_gib_per_gpu", "kv_tokens", "overhead_gib_per_gpu", "ttft_ms", "itl_ms", "output_tokens_per_s",
        "calibration", "price_per_million_output_tokens", "cold_start_s", "reasons", "fixes",
    } <= set(data)  # fmt: skip
    assert set(data["cold_start_s"]) == {"node", "image", "weights", "engine", "total"}
    assert {"id", "engine", "points", "itl_error_p90"} <= set(data["calibration"])


def test_a_published_run_can_be_checked() -> None:
    """Eight A100 of 40 GB, one request at a time: 20.93 ms were measured, 19.9 are estimated."""
    data = answer(
        "size", "--model", "llama-3.1-70b", "--gpu", "A100-40", "--gpus", "8", "--link", "nvlink", "--concurrency", "1",
        "--input", "280", "--output", "310", "--engine", "vllm=0.7.3",
    )  # fmt: skip
    assert (data["itl_ms"][1], data["cold_start_s"], data["price_per_million_output_tokens"]) == (
        19.9,
        None,
        None,
    )


def test_what_does_not_fit_has_no_speed() -> None:
    """Null, not zero."""
    data = answer("size", "--model", "llama-3.1-70b", "--instance", "g5.12xlarge")
    assert (data["itl_ms"], data["calibration"], data["fixes"][0]["usd_per_hour_more"]) == (None, None, 0.0)


def test_a_config_of_ones_own(tmp_path: object) -> None:
    """A path instead of a name."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    }))  # fmt: skip
    assert answer("size", "--model", str(config), "--instance", "g5.xlarge")["weights_gib_per_gpu"] == 14.96


def test_without_an_instance_types_are_ranked() -> None:
    """Cheapest first, with a picture in the terminal."""
    arguments = (
        "size",
        "--model",
        "llama-3.1-8b",
        "--objective",
        "itl=50ms,ttft_p99=2s",
        "--rate",
        "5",
        "--input",
        "512",
    )
    options = answer(*arguments)["options"]
    assert [one["usd_per_month"] for one in options] == sorted(one["usd_per_month"] for one in options)
    assert "ms between tokens" in ask(*arguments).stdout


def test_a_picture_is_written(tmp_path: object) -> None:
    """PNG, where matplotlib is installed."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "trade.png"
    ask("size", "--model", "llama-3.1-8b", "--rate", "5", "--picture", str(path))
    assert path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "llama-3.1-8b"), "ranking needs --rate, or give --instance or --gpu"),
        (
            ("--model", "llama-3.1-8b", "--instance", "g5.xlarge", "--gpu", "L4"),
            "give --instance or --gpu, not both",
        ),
        (
            ("--model", "llama-3.1-8b", "--instance", "g5.xlarge", "--rate", "1", "--concurrency", "2"),
            "give --concurrency or --rate, not both",
        ),
        (
            ("--model", "llama-3.1-8b", "--gpu", "L4", "--link", "wire"),
            "link 'wire' is not nvlink, pcie or none",
        ),
    ],
)
def test_what_is_not_understood_is_a_sentence_and_exit_code_2(
    arguments: tuple[str, ...], sentence: str
) -> None:
    """Never a traceback."""
    result = ask("size", *arguments)
    assert (result.exit_code, result.stderr) == (2, sentence + "\n")


def test_a_short_day_is_simulated() -> None:
    """Two hours at half a request a second, and the answer says that it is simulated and by which calibration."""
    data = answer(
        "simulate", "--model", "llama-3.1-70b", "--instance", "p4d.24xlarge", "--rate", "0.5", "--hours", "2"
    )  # fmt: skip
    assert (data["simulated"], data["calibration"].split()[0]) == (True, "ampere-sxm-2026-11")
    assert data["completed"] == data["requests"]


def test_the_same_seed_gives_the_same_words() -> None:
    """Repeatable to the letter."""
    arguments = (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--instance",
        "g5.2xlarge",
        "--rate",
        "0.5",
        "--hours",
        "1",
    )
    assert ask(*arguments).stdout == ask(*arguments).stdout


def test_nothing_is_simulated_without_a_measurement_unless_assumed() -> None:
    """Honesty: a bound is no model of a replica."""
    arguments = (
        "simulate",
        "--model",
        "llama-3.1-8b",
        "--instance",
        "g7e.2xlarge",
        "--rate",
        "0.5",
        "--hours",
        "1",
    )
    assert ask(*arguments).exit_code == 2
    assert ask(*arguments, "--assume").exit_code == 0


def test_a_trace_is_read(tmp_path: object) -> None:
    """Azure's columns."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    data = answer("simulate", "--model", "llama-3.1-8b", "--instance", "g5.2xlarge", "--trace", str(path))
    assert data["requests"] == 2
