"""Environment of a model's Ray containers. Ray reads most of its switches from here and not from the Serve document."""

import math
from typing import Any

from components import conventions
from components.quantities import quantity
from components.settings.models import Drain, Loader, Model, Routing, ServingMode
from components.settings.pools import GpuPool

Variables = list[dict[str, Any]]

_CPU_KV_SHARE = 4  # of a CPU worker's memory, one part in four holds KV


def common(model: Model) -> Variables:
    """What every container of the cluster has: proxies, replicas and the controller read the same switches."""
    return _plain(
        {
            "PYTHONPATH": conventions.POLICY_MOUNT,
            "RAY_USAGE_STATS_ENABLED": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            # Ray runs its workers at 15, below its own daemons: where the CPU is short the engine gets a thirtieth of it.
            "RAY_worker_niceness": "0",
            "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS": "0",  # prompts are not for logs
            "RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": _number(model.timeouts.request),
            "RAYLLM_ENGINE_START_TIMEOUT_S": _number(model.timeouts.engine_start),
            # Said out loud: Ray 2.60 turns the token on where it finds one at home, and 2.61 everywhere.
            **({} if model.ray_token else {"RAY_AUTH_MODE": "disabled"}),
            # Weights come from the bucket. Only a dev stack that reads the hub directly may ask it (429 at scale-up).
            **({} if _reads_hub(model) else {"HF_HUB_OFFLINE": "1"}),
            **(_direct(model) if model.serving is ServingMode.DIRECT else {}),
        }
    )


def of_head(prometheus: str | None) -> Variables:
    """The controller runs the scaling policy, on the head."""
    return _plain({"RAY_PROMETHEUS_HOST": prometheus} if prometheus else {})


def of_ingress(drain: Drain) -> Variables:
    """Proxies finish their streams within this time."""
    return _plain({"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain.ray_drain)})


def of_workers(model: Model, pool: GpuPool | None, drain: Drain, region: str) -> Variables:
    """What the engine needs; over several nodes also how its parts find each other."""
    plain = {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain.ray_drain),
        "VLLM_ENGINE_READY_TIMEOUT_S": _number(model.timeouts.engine_ready),
        **({"AWS_REGION": region} if model.loader is Loader.STREAMER or model.engine.lora else {}),
        **({} if pool else {"VLLM_CPU_KVCACHE_SPACE": _cpu_kv_gib(model)}),
    }
    gated = model.source.kind == "huggingFace" and model.source.gated
    return [*_plain(plain), *(_hub_token() if _reads_hub(model) and gated else []), *_over_nodes(model, pool)]


def _reads_hub(model: Model) -> bool:
    """Whether the engine itself fetches weights from Hugging Face."""
    return model.source.kind == "huggingFace" and model.loader is Loader.LOCAL


def _direct(model: Model) -> dict[str, str]:
    """HAProxy before vLLM's own application (ray-vllm facts 3.5: 0.66 of bare vLLM against 0.24 by Ray's defaults)."""
    reads_body = model.engine.lora is not None or model.routing is Routing.PREFIX_AFFINITY
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": "1",
        # Any replica that comes or goes gives every HAProxy a new process; the old one keeps its streams for only 120 s
        # by default, so that a scale-up anywhere cut the longer ones (docs/serving.md, Drain and loss).
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": _number(model.timeouts.request),
        **({"RAY_SERVE_INGRESS_REQUEST_ROUTER_FORWARD_BODY": "1"} if reads_body else {}),
    }


def _over_nodes(model: Model, pool: GpuPool | None) -> Variables:
    if model.nodes == 1:
        return []
    pod_ip = {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    plain = {
        "NCCL_DEBUG": "WARN",
        # The nodes have no huge pages. FI_PROVIDER and FI_EFA_USE_DEVICE_RDMA are for libfabric before 1.18.
        **({"FI_EFA_USE_HUGE_PAGE": "0"} if pool and pool.efa else {}),
    }
    return [pod_ip, *_plain(plain)]


def _hub_token() -> Variables:
    secret, key = conventions.SECRETS["huggingFaceToken"]
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]


def _cpu_kv_gib(model: Model) -> str:
    return str(max(1, math.floor(quantity(model.cpu_worker.memory) / 2**30 / _CPU_KV_SHARE)))


def _number(value: float) -> str:
    """Ray reads these with int()."""
    return str(math.ceil(value))


def _plain(variables: dict[str, str]) -> Variables:
    return [{"name": name, "value": value} for name, value in variables.items()]
