"""The benchmark inside the cluster: its objects, and its figures in Prometheus' format."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from components.manifests.benchmark import Load, benchmark

SCRIPT = Path(__file__).resolve().parents[2] / "in_cluster" / "run_benchmark.py"


def script() -> ModuleType:
    """The file that runs in the pod."""
    spec = importlib.util.spec_from_file_location("run_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_is_a_job_of_a_thousand_prompts(preview_of: Any) -> None:
    """By default it runs once, with what the guides ask for: 1,000 prompts at 20 requests a second."""
    settings = preview_of("prod").settings
    _, job, monitor = benchmark(settings.models[0], settings, Load())
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]

    assert job["kind"] == "Job"
    assert monitor["kind"] == "PodMonitor"
    assert arguments[arguments.index("--num-prompts") + 1] == "1000"
    assert arguments[arguments.index("--request-rate") + 1] == "20"


def test_schedule_makes_it_a_cron_job(preview_of: Any) -> None:
    """Two runs are never at once: they would measure each other."""
    settings = preview_of("prod").settings
    _, job, _ = benchmark(settings.models[0], settings, Load(schedule="0 3 * * *"))

    assert job["kind"] == "CronJob"
    assert job["spec"]["concurrencyPolicy"] == "Forbid"


def test_shows_figures_in_seconds() -> None:
    """Percentiles become quantiles, milliseconds become seconds, and every sample names the model."""
    figures = {
        "request_throughput": 20.5,
        "output_throughput": 2600.0,
        "completed": 999,
        "failed": 1,
        "p99_ttft_ms": 250.0,
    }
    lines = script().exposition(figures, {"model": "tiny"}).splitlines()

    assert 'llm_benchmark_requests_per_second{model="tiny"} 20.5' in lines
    assert 'llm_benchmark_requests_failed{model="tiny"} 1' in lines
    assert 'llm_benchmark_time_to_first_token_seconds{model="tiny",quantile="0.99"} 0.25' in lines
