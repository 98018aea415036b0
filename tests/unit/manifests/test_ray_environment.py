"""Environment of Ray's containers."""

from typing import Any

from components.manifests.drain import ON_DEMAND, SPOT
from components.manifests.ray_environment import common, of_head, of_ingress, of_workers
from components.settings.models import (
    CpuWorker,
    HubSource,
    Loader,
    Model,
    Routing,
    ServingMode,
    Timeouts,
)
from components.settings.pools import Efa, GpuPool
from tests.unit.manifests.serving_samples import cpu_model, hub_model, model, pool


def _values(variables: list[dict[str, Any]]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in variables}


def _workers(served: Model, gpus: GpuPool | None = None) -> dict[str, Any]:
    return _values(of_workers(served, gpus, ON_DEMAND, "us-west-2"))


def test_common() -> None:
    """Nothing is told to anybody, prompts are not logged, times are whole seconds."""
    assert _values(common(model(timeouts=Timeouts(request=600.5)))) == {
        "PYTHONPATH": "/opt/llm-platform",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS": "0",
        "RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": "601",
        "RAYLLM_ENGINE_START_TIMEOUT_S": "3600",
        "HF_HUB_OFFLINE": "1",
        "RAY_worker_niceness": "0",
    }


def test_no_token_is_said_out_loud() -> None:
    """Ray 2.60 turns the token on by itself where it finds one; with a token KubeRay sets the variable."""
    assert _values(common(model(ray_token=False)))["RAY_AUTH_MODE"] == "disabled"
    assert "RAY_AUTH_MODE" not in _values(common(model()))


def test_direct_mode() -> None:
    """HAProxy before vLLM's own application, on every container."""
    given = _values(common(model(serving=ServingMode.DIRECT)))

    assert given["RAY_SERVE_ENABLE_HA_PROXY"] == "1"
    assert given["RAY_SERVE_THROUGHPUT_OPTIMIZED"] == "1"
    assert given["RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING"] == "1"
    assert "RAY_SERVE_INGRESS_REQUEST_ROUTER_FORWARD_BODY" not in given


def test_direct_mode_that_routes_by_prompt_reads_it() -> None:
    """HAProxy hands the body to the router only when it is told to."""
    given = _values(common(model(serving=ServingMode.DIRECT, routing=Routing.PREFIX_AFFINITY)))

    assert given["RAY_SERVE_INGRESS_REQUEST_ROUTER_FORWARD_BODY"] == "1"


def test_head_asks_prometheus() -> None:
    """The controller runs the scaling policy there."""
    assert _values(of_head("http://prometheus:9090")) == {"RAY_PROMETHEUS_HOST": "http://prometheus:9090"}
    assert of_head(None) == []


def test_ingress_drains() -> None:
    """Proxies finish their streams; Ray's default is 30 s."""
    assert _values(of_ingress(ON_DEMAND)) == {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "560"}


def test_a_worker() -> None:
    """It drains and waits long for its engine."""
    assert _values(of_workers(model(), pool(), SPOT, "us-west-2")) == {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "95",
        "VLLM_ENGINE_READY_TIMEOUT_S": "1800",
    }


def test_a_worker_that_streams_knows_its_region() -> None:
    """It asks S3 by itself."""
    assert _workers(model(loader=Loader.STREAMER), pool())["AWS_REGION"] == "us-west-2"


def test_a_worker_that_reads_the_hub_may() -> None:
    """A development stack without a bucket; an open model needs no token."""
    given = {**_values(common(hub_model())), **_workers(hub_model(), pool())}

    assert not {"HF_HUB_OFFLINE", "HF_TOKEN"} & set(given)


def test_a_gated_model_has_its_token_from_the_secret() -> None:
    """The token is never in the pod's specification."""
    source = HubSource(repository="meta-llama/Llama-3.1-8B", revision="a" * 40, gated=True)
    given = _workers(hub_model(source=source), pool())

    assert given["HF_TOKEN"] == {"secretKeyRef": {"name": "hugging-face-token", "key": "token"}}


def test_a_gated_model_from_the_bucket_needs_no_token() -> None:
    """The download job has it; the pods do not."""
    source = HubSource(repository="meta-llama/Llama-3.1-8B", revision="a" * 40, gated=True)
    given = _workers(model(source=source), pool())

    assert "HF_TOKEN" not in given


def test_over_several_nodes() -> None:
    """Each part is known by its pod's address; without EFA nothing is said of it."""
    given = _workers(model(pipeline_parallel=2), pool())

    assert given["VLLM_HOST_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert given["NCCL_DEBUG"] == "WARN"
    assert not [name for name in given if name.startswith("FI_")]


def test_over_efa() -> None:
    """The nodes have no huge pages; the obsolete variables are not set."""
    given = _workers(model(pipeline_parallel=2), pool(efa=Efa(interfaces=1)))

    assert [name for name in given if name.startswith("FI_")] == ["FI_EFA_USE_HUGE_PAGE"]
    assert given["FI_EFA_USE_HUGE_PAGE"] == "0"


def test_one_node_with_efa_has_none_of_it() -> None:
    """EFA of the pool does not concern a model on one node."""
    given = _workers(model(), pool(efa=Efa(interfaces=1)))

    assert not {"VLLM_HOST_IP", "FI_EFA_USE_HUGE_PAGE"} & set(given)


def test_a_cpu_worker_keeps_a_quarter_for_kv() -> None:
    """VLLM's own 4 GiB may be more than the pod has."""
    assert _workers(cpu_model(cpu_worker=CpuWorker(memory="8Gi")))["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert _workers(cpu_model(cpu_worker=CpuWorker(memory="2Gi")))["VLLM_CPU_KVCACHE_SPACE"] == "1"
