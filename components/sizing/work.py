"""Physics: the time that a step needs at the peaks of the GPU. Nothing here is fitted.

Symbols of capacity planning: a decode step reads all weights once and the cache of every running request, multiplies
each request's token with the active parameters, and joins partial results twice a layer (all-reduce).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from components.facts.links import all_reduce_seconds, fastest_system, system_of
from components.facts.models import ModelShape
from components.sizing.deployment import Deployment
from components.sizing.weights import (
    EMBEDDING_BYTES,
    dtype_bytes,
    kv_bytes_per_token_per_gpu,
    quantization_of,
)

ALL_REDUCES_PER_LAYER = 2  # after attention and after the feed-forward part
ACTIVATION_BYTES = 2  # partial results travel as 16-bit values


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """Seconds at peak of one decode step: reading weights, computing, reading the cache, joining."""

    weights: float
    compute: float
    kv: float
    all_reduce: float


@dataclass(frozen=True, slots=True)
class PrefillWork:
    """Seconds at peak of computing and joining a number of prompt tokens."""

    compute: float
    all_reduce: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What the time of a step is computed with: operations a second of one GPU, and the row of all-reduce times."""

    flops: float
    system: str


def usual_limits(deployment: Deployment) -> Limits:
    """Peaks that engines meet: for estimates."""
    gpu = deployment.gpu
    return Limits(
        _flops(deployment, gpu.usual_bf16_tflops or gpu.bf16_tflops), system_of(gpu.name, deployment.link)
    )


def best_limits(deployment: Deployment) -> Limits:
    """The highest peaks that any source names and the fastest link measured: for floors."""
    gpu = deployment.gpu
    return Limits(_flops(deployment, gpu.bf16_tflops), fastest_system(gpu.name, deployment.link))


def _flops(deployment: Deployment, bf16_tflops: float) -> float:
    """Operations a second in the type that the quantization computes in, where the GPU has it."""
    gpu, kind = deployment.gpu, quantization_of(deployment).compute
    return ({"fp8": gpu.fp8_tflops, "int8": gpu.int8_tops}.get(kind) or bf16_tflops) * 1e12


def touched_experts(model: ModelShape, batch: float) -> float:
    """Part of the routed experts that a batch of tokens needs, if routing is even: 1 - (1 - active/experts)^batch."""
    if model.experts is None:
        return 0.0
    return 1.0 - math.pow(1.0 - model.experts.active / model.experts.experts, max(1.0, batch))


def read_bytes(deployment: Deployment, batch: float) -> float:
    """Weight bytes that one decode step reads over all GPUs: all but the embedding table, experts as touched."""
    model, quantization = deployment.model, quantization_of(deployment)
    dense = dtype_bytes(deployment.dtype) if quantization.experts_only else quantization.low
    experts = model.routed_expert_parameters * touched_experts(model, batch) * quantization.low
    return model.dense_parameters * dense + experts + model.vocab * model.hidden * EMBEDDING_BYTES


def decode_work(deployment: Deployment, batch: float, context: float, limits: Limits) -> DecodeWork:
    """One token for each of `batch` requests whose context is `context` tokens on average.

    A pipeline passes its micro-batches one after the other, so the stages' times add up to those of one stage with
    all layers, for a batch divided by the number of stages.
    """
    gpu, model = deployment.gpu, deployment.model
    rows = max(1.0, batch / deployment.pp)
    bandwidth = gpu.memory_gb_per_s * 1e9
    message = rows * model.hidden * ACTIVATION_BYTES
    kv_per_token = kv_bytes_per_token_per_gpu(deployment) * deployment.pp
    return DecodeWork(
        weights=read_bytes(deployment, rows) / (deployment.tp * bandwidth),
        compute=2 * model.active_parameters * rows / (deployment.tp * limits.flops),
        kv=rows * _held(model, context) * kv_per_token / bandwidth,
        all_reduce=ALL_REDUCES_PER_LAYER
        * model.layers
        * all_reduce_seconds(limits.system, deployment.tp, message),
    )


def prefill_work(deployment: Deployment, tokens: float, context: float, limits: Limits) -> PrefillWork:
    """The first pass over `tokens` prompt tokens of requests whose prompt is `context` long."""
    model = deployment.model
    # Causal attention: on average half of the context, two products of two operations each.
    attention = 2 * _held(model, context) * model.heads * model.head_dim * model.layers
    operations = tokens * (2 * model.active_parameters + attention)
    chunk = max(1.0, min(context, deployment.max_num_batched_tokens))
    once = all_reduce_seconds(limits.system, deployment.tp, chunk * model.hidden * ACTIVATION_BYTES)
    return PrefillWork(
        compute=operations / (deployment.tp * limits.flops),
        all_reduce=ALL_REDUCES_PER_LAYER * model.layers * once * tokens / chunk,
    )


def _held(model: ModelShape, context: float) -> float:
    """Context that a layer looks at on average: layers with a sliding window see no more than the window."""
    if not model.window or not model.windowed_layers:
        return context
    windowed = model.windowed_layers / model.layers
    return windowed * min(context, model.window) + (1 - windowed) * context
