"""What vLLM is told, by its own Python names. The stack's further arguments come last and win."""

from typing import Any

from components import pins
from components.manifests.images import engine_of
from components.settings.models import Dtype, KvCacheDtype, Loader, Model, Quantization, Sampling, ServingMode
from components.settings.pools import GpuPool

KEY_MIDDLEWARE = "endpoint_keys.RequireKey"
"""ASGI class of `in_cluster/` that vLLM's own application puts before itself (direct mode)."""

# Adapters that one batch may mix; each takes GPU memory at start, whether it is used or not.
_LORAS_IN_A_BATCH = 4


def engine_arguments(model: Model, pool: GpuPool | None, *, keys: bool = False) -> dict[str, Any]:
    """Arguments of `AsyncEngineArgs`; `keys` asks for keys in direct mode, where vLLM itself answers HTTP."""
    engine = model.engine
    return {
        "tensor_parallel_size": model.tensor_parallel,
        "pipeline_parallel_size": model.pipeline_parallel,
        "max_model_len": engine.max_model_len,
        "max_num_seqs": engine.max_num_seqs,
        "max_num_batched_tokens": engine.max_num_batched_tokens,
        "enable_prefix_caching": engine.prefix_caching,
        "enable_chunked_prefill": engine.chunked_prefill,
        **({"gpu_memory_utilization": engine.gpu_memory_utilization} if pool else {}),
        **({"dtype": engine.dtype.value} if engine.dtype is not Dtype.AUTO else {}),
        **(
            {"quantization": engine.quantization.value}
            if engine.quantization is not Quantization.NONE
            else {}
        ),
        **(
            {"kv_cache_dtype": engine.kv_cache_dtype.value}
            if engine.kv_cache_dtype is not KvCacheDtype.AUTO
            else {}
        ),
        **({"enforce_eager": True} if engine.enforce_eager else {}),
        **({"trust_remote_code": True} if engine.trust_remote_code else {}),
        **_loading(model),
        **_lora(model),
        **_sampling(engine.default_sampling),
        **(_direct(model, engine_of(model, pool), keys=keys) if model.serving is ServingMode.DIRECT else {}),
        **engine.arguments,
    }


def _loading(model: Model) -> dict[str, Any]:
    """How the weights are read. Page faults of a mapped file over a FUSE mount are many small reads: vllm PR 24469."""
    if model.source.kind == "huggingFace" and model.loader is Loader.LOCAL:
        return {"revision": model.source.revision, "tokenizer_revision": model.source.revision}
    return {
        Loader.MOUNTPOINT: {"safetensors_load_strategy": "eager"},
        Loader.STREAMER: {"load_format": "runai_streamer"},
    }.get(model.loader, {})


def _lora(model: Model) -> dict[str, Any]:
    lora = model.engine.lora
    if lora is None:
        return {}
    return {
        "enable_lora": True,
        "max_lora_rank": lora.max_rank,
        "max_loras": min(lora.max_adapters, _LORAS_IN_A_BATCH),
        "max_cpu_loras": lora.max_adapters,
    }


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """Defaults for requests that name no value, by the names of Hugging Face's generation config."""
    values = sampling.model_dump(exclude_none=True)
    if "max_tokens" in values:
        values["max_new_tokens"] = values.pop("max_tokens")
    return {"override_generation_config": values} if values else {}


def _direct(model: Model, engine: pins.Engine, *, keys: bool) -> dict[str, Any]:
    """What Serve's queue and ingress do otherwise: refuse beyond the queue limit, and check keys."""
    knows_queue_limit = pins.SERVING.vllm == engine.vllm  # vLLM 0.26 has no such argument
    return {
        **({"max_num_queued_reqs": model.scaling.max_queued_requests} if knows_queue_limit else {}),
        **({"middleware": [KEY_MIDDLEWARE]} if keys else {}),
    }
