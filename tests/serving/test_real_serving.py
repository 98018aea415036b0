"""The emitted Serve document, answered by real Ray and vLLM on CPU, called with the real OpenAI SDK."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.local.ray import free_ports
from bench.local.service import LocalService
from components.manifests.benchmark import Load, benchmark
from components.manifests.ray_pods import ServedModel
from components.manifests.ray_service import ray_service
from components.manifests.scaling import code_of
from components.manifests.serve import serve_text
from components.settings.extras import EndpointSettings
from components.settings.models import ServingMode
from components.settings.platform import PlatformSettings
from tools.serving import environment

pytestmark = pytest.mark.serving_real

HERE = Path(__file__).parent
KEY = "the-key-of-the-test"
# Metrics every second instead of every ten: what happened to closed streams is read from them.
OFTEN = {"RAY_metrics_report_interval_ms": "1000"}
LLMP = (sys.executable, "-m", "llmp")
# Small enough to be filled by the test's burst, and a context long enough for a stream that outlives its client.
LIMITS = {
    "max_ongoing_requests": 8,
    "target_ongoing_requests": 6,
    "max_queued_requests": 8,
    "max_replicas": 1,
}


@pytest.fixture(scope="module")
def home() -> Path:
    """The serving environment."""
    found = environment.locate()
    if found is None:
        pytest.skip("the serving environment is not built (make serving-env)")
    return found.folder


def objects_of(platform: PlatformSettings, mode: ServingMode) -> list[dict[str, Any]]:
    """The local stack's model in one mode, with keys and small limits."""
    model = platform.models[0]
    model = model.model_copy(
        update={
            "serving": mode,
            "scaling": model.scaling.model_copy(update=LIMITS),
            "engine": model.engine.model_copy(update={"max_model_len": 2048, "max_num_seqs": 8}),
        }
    )
    platform = platform.model_copy(
        update={"models": (model,), "endpoint": EndpointSettings(host="llm.example.com", keys=True)}
    )
    served = ServedModel(model=model, pool=None, platform=platform)
    return [ray_service(served, serve_text(model, None, platform)), code_of(model, platform)]


@pytest.fixture(scope="module", params=[ServingMode.ROUTED, ServingMode.DIRECT], ids=["routed", "direct"])
def service(request: pytest.FixtureRequest, home: Path, preview_of: Any) -> Iterator[LocalService]:
    """The local stack's model, answering."""
    objects = objects_of(preview_of("local").settings, request.param)
    with LocalService(objects, home, keys=(KEY,), variables=OFTEN) as running:
        yield running


# The load tool takes ten seconds to start, and one mode shows what there is to see of it.
in_routed = pytest.mark.parametrize("service", [ServingMode.ROUTED], ids=["routed"], indirect=True)
in_direct = pytest.mark.parametrize("service", [ServingMode.DIRECT], ids=["direct"], indirect=True)


@pytest.fixture(scope="module")
def calls(service: LocalService, home: Path) -> dict[str, Any]:
    """What the SDK saw."""
    metrics = f"http://{service.head.metrics}/metrics"
    command = [home / "bin" / "python", HERE / "sdk_calls.py", service.url, service.plan.model, KEY, metrics]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_lists_the_model(calls: dict[str, Any]) -> None:
    """The model has the stack's name."""
    assert calls["models"] == ["tiny"]


def test_answers_chat_whole_and_streamed_alike(calls: dict[str, Any]) -> None:
    """A stream carries the same text as the whole answer, in several chunks, with its usage."""
    assert calls["chat"]
    assert calls["streamed"] == calls["chat"]
    assert calls["stream_chunks"] > 1
    assert calls["stream_usage"] == calls["chat_usage"]


def test_stops_where_it_is_told(calls: dict[str, Any]) -> None:
    """A stop text ends the answer before it."""
    assert calls["stopped"]["finish_reason"] == "stop"
    assert calls["stop_at"] not in calls["stopped"]["text"]
    assert calls["completion"].startswith(calls["stopped"]["text"])


def test_gives_logprobs(calls: dict[str, Any]) -> None:
    """Each of the three tokens has its log-probability, and those of the likeliest beside it."""
    assert len(calls["logprobs"]["token_logprobs"]) == 3
    assert all(value <= 0 for value in calls["logprobs"]["token_logprobs"])
    assert len(calls["logprobs"]["top_logprobs"]) == 3


def test_says_that_a_prompt_is_too_long(calls: dict[str, Any]) -> None:
    """400, with the model's length in the text."""
    assert calls["too_long"]["status"] == 400
    assert "2048" in calls["too_long"]["message"]


def test_knows_no_other_model(calls: dict[str, Any]) -> None:
    """404, as OpenAI's own API."""
    assert calls["unknown_model"]["status"] == 404


def test_refuses_a_bad_value(calls: dict[str, Any]) -> None:
    """A value out of its range is the caller's mistake, not a fault of the server."""
    assert calls["bad_value"]["status"] in (400, 422)


def test_refuses_an_unknown_key(calls: dict[str, Any]) -> None:
    """401, which the SDK raises as AuthenticationError."""
    assert (calls["wrong_key"]["type"], calls["wrong_key"]["status"]) == ("AuthenticationError", 401)


def test_client_may_time_out(calls: dict[str, Any]) -> None:
    """The SDK's own timeout ends a long call: 1,900 tokens take seconds, and the client gives them 50 ms."""
    assert calls["client_timeout"].get("type") == "APITimeoutError", calls["client_timeout"]


def test_server_times_out(calls: dict[str, Any]) -> None:
    """Serve ends a call after the time that its header names: in its proxy (routed) or in the replica (direct)."""
    assert calls["server_timeout"].get("status") in (408, 504), calls["server_timeout"]


def test_stops_working_for_clients_that_left(calls: dict[str, Any]) -> None:
    """The engine cancels the requests of closed streams, and nothing runs on."""
    gone = calls["client_gone"]
    assert 0 < gone["made"] < gone["asked"] / 2
    assert gone["running"] == 0


def test_refuses_more_than_it_holds(calls: dict[str, Any]) -> None:
    """Some of the burst are served, the rest get 429 or 503 with a time to come back; nobody gets anything else."""
    statuses = calls["overload"]["statuses"]
    assert statuses.get("200", 0) > 0
    assert set(statuses) - {"200"} <= {"429", "503"}
    assert len(statuses) > 1
    assert calls["overload"]["refused"][0]["retry_after"]


@in_direct
def test_llmp_bench_shows_the_figures_of_its_tool(service: LocalService, tmp_path: Path) -> None:
    """What it prints is what `vllm bench serve` prints and writes, errors none, in the tool's own result file."""
    result = tmp_path / "run.json"
    command = [*LLMP, "bench", service.url, "--model", service.plan.model, "--json", str(result)]
    load = ["--requests", "60", "--concurrency", "8", "--tokens-in", "40", "--tokens-out", "16"]
    done = subprocess.run(
        [*command, *load, "--key", KEY, "--goodput", "e2el:60000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(result.read_text())
    of_tool = dict(re.findall(r"^([A-Z][^:]+):\s+([\d.]+)$", done.stderr, re.MULTILINE))

    assert figures["completed"] == 60
    assert shown(done.stdout, "requests/s")[0] == pytest.approx(float(of_tool["Request throughput (req/s)"]))
    assert shown(done.stdout, "good requests/s")[0] == pytest.approx(
        float(of_tool["Request goodput (req/s)"])
    )
    mean, _, _, _, p99 = shown(done.stdout, "first token")
    assert mean == pytest.approx(float(of_tool["Mean TTFT (ms)"]), abs=0.06)
    assert p99 == pytest.approx(float(of_tool["P99 TTFT (ms)"]), abs=0.06)
    assert shown(done.stdout, "whole answer")[4] == pytest.approx(figures["p99_e2el_ms"], abs=0.06)
    assert "finished 60, failed 0" in done.stdout


def shown(table: str, row: str) -> list[float]:
    """The numbers of a row of the printed table."""
    line = next(line for line in table.splitlines() if line.startswith(row + " "))
    return [float(word) for word in line.removeprefix(row).split()]


@in_direct
def test_llmp_bench_names_what_failed(service: LocalService) -> None:
    """With a key that nobody knows there is no figure, and the reason is said in a sentence."""
    command = [*LLMP, "bench", service.url, "--model", service.plan.model, "--key", "nobody's"]
    done = subprocess.run([*command, "--requests", "4"], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "Unauthorized" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stdout


@in_routed
def test_benchmark_job_runs_as_emitted(
    service: LocalService, home: Path, tmp_path: Path, preview_of: Any
) -> None:
    """The ConfigMap's code with the container's arguments and keys; its figures are scraped as it prints them."""
    settings = preview_of("local").settings
    code, _, job, *_ = benchmark(settings.models[0], settings, Load(prompts=40, tokens_in=40, tokens_out=16))
    for name, text in code["data"].items():
        (tmp_path / name).write_text(text)
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    arguments[arguments.index("--base-url") + 1] = service.url.removesuffix("/v1")
    port = free_ports(1)[0]
    variables = {
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "OPENAI_API_KEY": f"# of the test\n{KEY},another\na-third",
        "PORT": str(port),
        "MODEL": "tiny",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [home / "bin" / "python", tmp_path / "run_benchmark.py", *arguments]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        figures = json.loads(process.stdout.readline())
        scraped = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        process.terminate()

    assert (figures["completed"], figures["failed"]) == (40, 0)
    assert figures["total_output_tokens"] == 40 * 16
    assert f'requests_per_second{{model="tiny"}} {figures["request_throughput"]:.9g}\n' in scraped
    first = f"{figures['p99_ttft_ms'] / 1000:.9g}"
    assert f'time_to_first_token_seconds{{model="tiny",quantile="0.99"}} {first}\n' in scraped
