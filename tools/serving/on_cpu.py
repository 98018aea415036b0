"""What has to differ in a Serve document so that the tiny model on this machine's CPU answers for the stack's own.

One place for everyone who does that: `llmp serve`, the benchmarks and the rehearsal. Each difference is a sentence for
the person who runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Document = dict[str, Any]
Placement = Callable[[Document], Document]

TINY_CONTEXT = 2048  # positions of the tiny model (tiny_model.py)
KV_CACHE = (
    "VLLM_CPU_KVCACHE_SPACE",
    "1",
)  # GiB; unset, the engine takes a share of the whole machine's memory
# Only a GPU has them, or the tiny model has no use for them.
_GPU_ARGUMENTS = (
    "gpu_memory_utilization",
    "quantization",
    "kv_cache_dtype",
    "safetensors_load_strategy",
    "load_format",
)
_ONE = ("tensor_parallel_size", "pipeline_parallel_size")


def cpus_only(_config: Document) -> Document:
    """A CPU for each worker: where no pod stands for a GPU."""
    return {"bundle_per_worker": {"CPU": 1}, "strategy": "PACK"}


def with_gpus(config: Document) -> Document:
    """One bundle that asks for the GPUs of one node all the same, so that a node with them has to be found."""
    gpus = config["engine_kwargs"].get("tensor_parallel_size", 1)
    return {"bundle_per_worker": {"CPU": 1, "GPU": gpus}, "strategy": "STRICT_PACK"}


def substitute(config: Document, weights: Path, placement: Placement, words: str) -> list[str]:
    """Change one LLMConfig; gives back what differs. `placement` and `words` say what becomes of its GPUs."""
    loading, arguments = config["model_loading_config"], config["engine_kwargs"]
    said = [f"the weights are those of {weights.name}, not {loading['model_source']}"]
    loading["model_source"] = str(weights)
    if config.get("accelerator_config", {}).get("kind") != "cpu":
        said.append(f"the accelerator is the CPU, and {words}")
        config["accelerator_config"] = {"kind": "cpu"}
        config.pop("accelerator_type", None)
        config["placement_group_config"] = placement(config)
        for name in _ONE:
            if arguments.get(name, 1) != 1:
                said.append(f"{name} is 1, not {arguments[name]}")
                arguments[name] = 1
    dropped = [name for name in _GPU_ARGUMENTS if arguments.pop(name, None) is not None]
    if dropped:
        said.append(f"left out, as they are for GPUs or for the stack's own weights: {', '.join(dropped)}")
    if not arguments.get("enforce_eager"):
        # Compiling takes a C++ compiler minutes on two cores, for a model that answers in milliseconds without it.
        said.append("enforce_eager is true, so that nothing is compiled for the CPU")
        arguments["enforce_eager"] = True
    if arguments.get("max_model_len", 0) > TINY_CONTEXT:
        said.append(f"max_model_len is {TINY_CONTEXT}, the tiny model's, not {arguments['max_model_len']}")
        arguments["max_model_len"] = TINY_CONTEXT
    return said
