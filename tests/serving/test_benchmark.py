"""The benchmark inside the cluster: its objects, and its figures in Prometheus' format."""

import importlib.util
import re
import sys
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
    if str(SCRIPT.parent) not in sys.path:
        sys.path.append(str(SCRIPT.parent))  # as in the pod, where its neighbours are importable
    spec.loader.exec_module(module)
    return module


def test_is_a_job_of_a_thousand_prompts(preview_of: Any) -> None:
    """By default it runs once, with what the guides ask for: 1,000 prompts at 20 requests a second."""
    settings = preview_of("prod").settings
    _, _, job, monitor = benchmark(settings.models[0], settings, Load())
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]

    assert job["kind"] == "Job"
    assert monitor["kind"] == "PodMonitor"
    assert arguments[arguments.index("--num-prompts") + 1] == "1000"
    assert arguments[arguments.index("--request-rate") + 1] == "20"


def test_schedule_makes_it_a_cron_job(preview_of: Any) -> None:
    """Two runs are never at once: they would measure each other."""
    settings = preview_of("prod").settings
    _, _, job, _ = benchmark(settings.models[0], settings, Load(schedule="0 3 * * *"))

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


def test_tool_gets_the_first_of_several_keys() -> None:
    """The secret holds all callers' keys; two keys in one header would be refused."""
    given = {"OPENAI_API_KEY": "# team a\n sk-one , sk-two\nsk-three\n", "HOME": "/scratch"}

    assert script().environment(given) == {"OPENAI_API_KEY": "sk-one", "HOME": "/scratch"}


def test_without_keys_the_tool_gets_none() -> None:
    """An empty bearer key is no key."""
    assert script().environment({"OPENAI_API_KEY": "\n"}) == {}


def test_code_has_all_that_the_script_imports(preview_of: Any) -> None:
    """Each file that the script imports from beside it lies in the ConfigMap too."""
    settings = preview_of("prod").settings
    code, *_ = benchmark(settings.models[0], settings, Load())
    neighbours = {path.stem for path in SCRIPT.parent.glob("*.py")}
    wanted = {
        f"{name}.py"
        for text in code["data"].values()
        for name in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
        if name in neighbours
    }

    assert wanted <= set(code["data"])


def test_pod_reaches_the_model_and_nothing_else(preview_of: Any) -> None:
    """Its own policy opens names and the model's port, the model's lets the namespace in, and Prometheus gets in."""
    preview = preview_of("prod")
    model = preview.settings.models[0]
    _, policy, job, _ = benchmark(model, preview.settings, Load())
    labels = job["spec"]["template"]["metadata"]["labels"]
    instance = {"app.kubernetes.io/instance": model.name}
    of_model = next(o for o in preview.objects if o["metadata"]["name"] == f"{model.name}-ray")
    let_in = [
        port["port"]
        for rule in of_model["spec"]["ingress"]
        if {"podSelector": {}} in rule["from"]
        for port in rule["ports"]
    ]

    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert {
        "to": [{"podSelector": {"matchLabels": instance}}],
        "ports": [{"protocol": "TCP", "port": 8000}],
    } in (policy["spec"]["egress"])
    assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {53, 8000}
    assert [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]] == [8080]
    assert let_in == [8000]


def test_no_policy_of_the_stack_is_about_the_pod(preview_of: Any) -> None:
    """Its labels are its own: a policy, Service or disruption budget of the model would count it among its pods."""
    preview = preview_of("prod")
    model = preview.settings.models[0]
    _, policy, job, _ = benchmark(model, preview.settings, Load())
    labels = job["spec"]["template"]["metadata"]["labels"]
    selectors = [
        o["spec"].get("podSelector", o["spec"].get("selector", {}))
        for o in preview.objects
        if o["kind"] in ("NetworkPolicy", "Service", "PodDisruptionBudget")
    ]
    wanted = [selector.get("matchLabels", selector) for selector in selectors]

    assert len(wanted) > 5
    assert [one for one in wanted if one.items() <= labels.items()] == []
    assert policy["metadata"]["name"] == f"{model.name}-benchmark"
