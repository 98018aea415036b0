"""A load test inside the cluster."""

from components.benchmark import Benchmark, BenchmarkArgs
from components.manifests.benchmark import Load
from tests.components.infra import STACK, Graph, once, registered, settings


@once
def graph(*, schedule: str | None = None, keys: bool = False) -> Graph:
    """What is registered for the small stack's model."""
    endpoint = {"host": "llm.example.com", "keys": True} if keys else None
    platform = settings(STACK, endpoint=endpoint)
    args = BenchmarkArgs(model=platform.models[0], settings=platform, load=Load(schedule=schedule))

    return registered(lambda: Benchmark("nightly", args))


def test_is_a_job_with_its_code_policy_and_monitor() -> None:
    """Once, unless the load has a schedule."""
    assert graph().names() == [
        "nightly",
        "nightly-code",
        "nightly-job",
        "nightly-networkpolicy",
        "nightly-podmonitor",
    ]
    assert "nightly-cronjob" in graph(schedule="0 3 * * *").names()


def test_starts_when_its_code_and_policy_are_there() -> None:
    """A pod without the ConfigMap would hang, and one without the policy be cut off from names or open to all."""
    assert {"nightly-code", "nightly-networkpolicy"} <= graph().dependencies("nightly-job")


def test_key_is_the_secrets() -> None:
    """The pod gets the callers' keys by reference; none is written into the manifest."""
    container = graph(keys=True).inputs("nightly-job")["spec"]["template"]["spec"]["containers"][0]
    key = next(variable for variable in container["env"] if variable["name"] == "OPENAI_API_KEY")

    assert key["valueFrom"] == {"secretKeyRef": {"name": "endpoint-keys", "key": "keys"}}
