"""What vLLM is told."""

from components.manifests.engine_arguments import engine_arguments
from components.settings.models import (
    Dtype,
    EngineSettings,
    KvCacheDtype,
    Loader,
    Lora,
    Quantization,
    Sampling,
    ServingMode,
)
from components.settings.pools import Efa
from tests.unit.manifests.serving_samples import cpu_model, hub_model, model, pool


def _engine(**changes: object) -> EngineSettings:
    return EngineSettings.model_validate({"max_model_len": 8192, **changes}, by_name=True)


def test_a_plain_model() -> None:
    """Sizes are always said; what the engine finds out by itself is not."""
    assert engine_arguments(model(), pool()) == {
        "tensor_parallel_size": 4,
        "pipeline_parallel_size": 1,
        "max_model_len": 8192,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 2048,
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "gpu_memory_utilization": 0.92,
        "safetensors_load_strategy": "eager",
    }


def test_a_cpu_has_no_gpu_memory() -> None:
    """The share of GPU memory means nothing on CPU."""
    assert "gpu_memory_utilization" not in engine_arguments(cpu_model(), None)


def test_types_by_vllms_names() -> None:
    """Computation, weights and KV cache each have their own type."""
    engine = _engine(
        dtype=Dtype.FLOAT16, quantization=Quantization.AWQ_MARLIN, kv_cache_dtype=KvCacheDtype.FP8
    )
    given = engine_arguments(model(engine=engine), pool())

    assert (given["dtype"], given["quantization"], given["kv_cache_dtype"]) == (
        "float16",
        "awq_marlin",
        "fp8",
    )


def test_streaming_names_its_loader() -> None:
    """With this format Ray hands the s3:// address to vLLM."""
    given = engine_arguments(model(loader=Loader.STREAMER), pool())

    assert given["load_format"] == "runai_streamer"
    assert "safetensors_load_strategy" not in given


def test_the_nodes_own_disks_are_mapped() -> None:
    """Page faults on NVMe are cheap; vLLM's default is good there."""
    given = engine_arguments(model(loader=Loader.NVME_CACHE), pool())

    assert not {"load_format", "safetensors_load_strategy"} & set(given)


def test_the_hub_is_read_at_one_commit() -> None:
    """An engine that reads the hub itself names the commit, of the tokenizer too."""
    given = engine_arguments(hub_model(), pool())

    assert (given["revision"], given["tokenizer_revision"]) == ("a" * 40, "a" * 40)


def test_adapters() -> None:
    """Few adapters in a batch, many in memory."""
    lora = Lora(path="s3://adapters/chat", max_adapters=16, max_rank=32)
    given = engine_arguments(model(engine=_engine(lora=lora)), pool())

    assert given["enable_lora"] is True
    assert (given["max_lora_rank"], given["max_loras"], given["max_cpu_loras"]) == (32, 4, 16)


def test_default_sampling_in_hugging_faces_names() -> None:
    """VLLM reads them as a generation config, where the length has another name."""
    engine = _engine(default_sampling=Sampling(temperature=0.5, max_tokens=256))
    given = engine_arguments(model(engine=engine), pool())

    assert given["override_generation_config"] == {"temperature": 0.5, "max_new_tokens": 256}


def test_direct_mode_bounds_vllms_own_queue() -> None:
    """Serve's queue is not in the way there, so vLLM must refuse by itself."""
    given = engine_arguments(model(serving=ServingMode.DIRECT), pool())

    assert given["max_num_queued_reqs"] == 200
    assert "middleware" not in given


def test_direct_mode_checks_keys_in_vllms_application() -> None:
    """The guard is an ASGI class by its import path."""
    given = engine_arguments(model(serving=ServingMode.DIRECT), pool(), keys=True)

    assert given["middleware"] == ["endpoint_keys.RequireKey"]


def test_routed_mode_leaves_keys_to_the_ingress() -> None:
    """VLLM's own application answers nobody there."""
    assert "middleware" not in engine_arguments(model(), pool(), keys=True)


def test_the_older_engine_gets_no_newer_argument() -> None:
    """The image with EFA has vLLM 0.26, which refuses to start on an argument that it does not know."""
    over_nodes = model(pipeline_parallel=2, serving=ServingMode.DIRECT)
    given = engine_arguments(over_nodes, pool(efa=Efa(interfaces=1)))

    assert "max_num_queued_reqs" not in given


def test_the_stacks_own_arguments_win() -> None:
    """Whoever names an argument knows why."""
    engine = _engine(arguments={"safetensors_load_strategy": "prefetch", "seed": 7})
    given = engine_arguments(model(engine=engine), pool())

    assert (given["safetensors_load_strategy"], given["seed"]) == ("prefetch", 7)
