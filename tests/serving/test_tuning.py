"""The tuning matrix: its points and their ranking. Running it needs the serving environment (`make bench-tuning`)."""

import subprocess
import sys

from bench.tuning import MATRIX, TINY, points, ranked, table


def test_matrix_has_what_the_guides_vary() -> None:
    """Sequences, batched tokens, chunked prefill and prefix caching, each with at least two values."""
    assert {len(values) > 1 for values in MATRIX.values()} == {True}
    assert len(list(points(MATRIX, TINY))) == 16


def test_a_prompt_that_fits_in_no_step_is_left_out() -> None:
    """Without chunked prefill vLLM refuses to start when the longest prompt does not fit in one step."""
    matrix = {"max_num_batched_tokens": (256, 512), "enable_chunked_prefill": (True, False)}
    found = [(p["max_num_batched_tokens"], p["enable_chunked_prefill"]) for p in points(matrix, TINY)]

    assert found == [(256, True), (512, True), (512, False)]


def test_points_that_miss_the_objective_come_last() -> None:
    """The fastest of those that keep it is first; without an objective the fastest of all."""
    rows = [
        {"requests_per_s": 10.0, "ttft_p99_ms": 900.0, "itl_p99_ms": 9.0, "failed": 0, "max_num_seqs": 64},
        {"requests_per_s": 8.0, "ttft_p99_ms": 200.0, "itl_p99_ms": 8.0, "failed": 0, "max_num_seqs": 16},
        {"requests_per_s": 9.0, "ttft_p99_ms": 300.0, "itl_p99_ms": 7.0, "failed": 0, "max_num_seqs": 32},
    ]

    assert [row["requests_per_s"] for row in ranked(rows, 500)] == [9.0, 8.0, 10.0]
    assert [row["requests_per_s"] for row in ranked(rows, None)] == [10.0, 9.0, 8.0]
    assert "| 3 (misses the objective) | 64 |" in table(ranked(rows, 500), ["max_num_seqs"], 500)


def test_a_value_without_a_name_is_said() -> None:
    """A sentence and exit code 2, before anything is started."""
    command = [sys.executable, "-m", "bench.tuning", "--set", "16,64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith("'16,64': write NAME=VALUE")
