"""Does it fit: memory of one GPU, tokens of KV cache as an interval, verdict.

vLLM gives itself `gpu_memory_utilization` of the GPU, loads the weights, measures its own peak, and makes a KV cache
of the rest. What it keeps for itself is not published, so it is an interval made of parts (`overhead_bytes`), wide
enough for every measured row of the ground truth and at most 4.4 GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.sizing.deployment import BLOCK_TOKENS, GIB, Deployment, Engine
from components.sizing.weights import (
    kv_bytes_per_token_per_gpu,
    kv_dtype_bytes,
    quantization_of,
    weight_bytes_per_gpu,
)

FITS, BORDERLINE, DOES_NOT_FIT = "fits", "borderline", "does not fit"

# Bounds, not fitted values: each pair holds what was seen on the measured rows AM1 to AM6 and in llm-d-planner's
# constants for vLLM 0.19 (1.89 GiB on one GPU, 3.99 GiB on several).
_CONTEXT_GIB = (0.5, 1.0)  # CUDA context and libraries
_COLLECTIVES_GIB = (0.1, 0.8)  # NCCL and all-reduce buffers, only with several GPUs
_GRAPHS_GIB = (0.2, 1.0)  # captured CUDA graphs
_PEAK_FACTORS = {
    True: (0.5, 1.25),
    False: (1.0, 1.5),
}  # part of the computed peak that is really held; newer engines less
_FIRST_NEW_RELEASE = (0, 15)
_LOGIT_BYTES = (
    10  # one 16-bit and two 32-bit copies per sequence and vocabulary entry while sampling is profiled
)


@dataclass(frozen=True, slots=True)
class Fit:
    """Verdict and the memory behind it. GiB per GPU; tokens and requests are of one replica, least and most."""

    verdict: str
    weights_gib_per_gpu: float
    overhead_gib_per_gpu: tuple[float, float]
    budget_gib_per_gpu: float
    kv_tokens: tuple[int, int]
    requests_at_full_context: tuple[int, int]
    reasons: tuple[str, ...]


def overhead_bytes(deployment: Deployment) -> tuple[float, float]:
    """What the engine keeps beside weights and cache on one GPU, least and most.

    Activations of the largest batch (`max_num_batched_tokens`), logits of the most sequences (`max_num_seqs`), the
    CUDA context, buffers for collectives and captured graphs.
    """
    model, tp = deployment.model, deployment.tp
    width = max(model.intermediate, model.experts.intermediate * model.experts.active if model.experts else 0)
    # Gate and up projection (two), their product, and six vectors of the hidden width around attention, 16 bits each.
    activations = deployment.max_num_batched_tokens * 2 * (3 * width / tp + 6 * model.hidden)
    logits = deployment.max_num_seqs * model.vocab * _LOGIT_BYTES
    low_factor, high_factor = _PEAK_FACTORS[_is_new(deployment.engine)]
    graphs = _GRAPHS_GIB if deployment.engine.uses_cuda_graphs else (0.0, 0.0)
    collectives = _COLLECTIVES_GIB if tp > 1 or deployment.pp > 1 else (0.0, 0.0)
    low = (_CONTEXT_GIB[0] + collectives[0] + graphs[0]) * GIB + low_factor * (activations + logits)
    high = (_CONTEXT_GIB[1] + collectives[1] + graphs[1]) * GIB + high_factor * (activations + logits)
    return low, high


def _is_new(engine: Engine) -> bool:
    return engine.name == "vllm" and engine.release >= _FIRST_NEW_RELEASE


def fit(deployment: Deployment) -> Fit:
    """Whether one replica starts, and how many tokens its cache holds.

    *fits*: even the least cache holds a request of full context. *does not fit*: not even the most does, or the
    engine refuses the settings. *borderline*: between the two.
    """
    low_weights, high_weights = weight_bytes_per_gpu(deployment)
    low_overhead, high_overhead = overhead_bytes(deployment)
    budget = deployment.gpu.usable_memory_bytes * deployment.gpu_memory_utilization
    least = _tokens(deployment, budget - high_weights - high_overhead, windowed_free=False)
    most = _tokens(deployment, budget - low_weights - low_overhead, windowed_free=True)
    refusals = engine_refusals(deployment)
    return Fit(
        verdict=DOES_NOT_FIT if refusals else _verdict(least, most, deployment.max_model_len),
        weights_gib_per_gpu=high_weights / GIB,
        overhead_gib_per_gpu=(low_overhead / GIB, high_overhead / GIB),
        budget_gib_per_gpu=budget / GIB,
        kv_tokens=(least, most),
        requests_at_full_context=(least // deployment.max_model_len, most // deployment.max_model_len),
        reasons=refusals + _memory_reasons(deployment, budget, high_weights, (least, most)),
    )


def _tokens(deployment: Deployment, free: float, *, windowed_free: bool) -> int:
    """Tokens in whole blocks; with `windowed_free` layers with a sliding window count as costing nothing."""
    model = deployment.model
    per_token = kv_bytes_per_token_per_gpu(deployment)
    if windowed_free and 0 < model.windowed_layers < model.layers:
        per_token *= (model.layers - model.windowed_layers) / model.layers
    return max(0, int(free / (per_token * BLOCK_TOKENS))) * BLOCK_TOKENS


def _verdict(least: int, most: int, max_model_len: int) -> str:
    if least >= max_model_len:
        return FITS
    return BORDERLINE if most >= max_model_len else DOES_NOT_FIT


def engine_refusals(deployment: Deployment) -> tuple[str, ...]:
    """Why vLLM would refuse these settings whatever the memory."""
    model, gpu, tp = deployment.model, deployment.gpu, deployment.tp
    refusals = []
    if model.heads % tp:
        refusals.append(
            f"{model.heads} attention heads cannot be split over {tp} GPUs; tensor parallelism must divide them"
        )
    if deployment.max_model_len > model.max_positions:
        refusals.append(
            f"a context of {deployment.max_model_len:,} is longer than the {model.max_positions:,} positions {model.name} knows"
        )
    if deployment.pp > model.layers:
        refusals.append(f"{model.layers} layers cannot make {deployment.pp} pipeline stages")
    if kv_dtype_bytes(deployment.kv_dtype, "auto") == 1.0 and gpu.fp8_tflops is None:
        refusals.append(
            f"{gpu.name} has no FP8 unit, and vLLM's attention kernels refuse an FP8 KV cache there"
        )
    quantization_of(deployment)  # an unknown name is an error of the caller, not a verdict
    return tuple(refusals)


def _memory_reasons(
    deployment: Deployment, budget: float, weights: float, tokens: tuple[int, int]
) -> tuple[str, ...]:
    gpu, gib = deployment.gpu.name, f"{weights / GIB:.1f} GiB of weights"
    room = f"{budget / GIB:.1f} GiB ({deployment.gpu_memory_utilization:.0%} of one {gpu})"
    if weights >= budget:
        return (f"{gib} a GPU are more than the {room} that the engine may use",)
    least, most = tokens
    left = f"{gib} a GPU leave room for {least:,} to {most:,} tokens of KV cache in {room}"
    if least >= deployment.max_model_len:
        return (left,)
    return (f"{left}; one request of full context needs {deployment.max_model_len:,}",)
