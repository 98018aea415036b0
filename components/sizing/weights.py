"""Bytes: weights by data type and quantization, and KV cache per token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from components.sizing.deployment import Deployment

EMBEDDING_BYTES = 2.0
"""Embeddings, head and norms stay at 16 bits under AWQ, GPTQ, FP8 and MXFP4 checkpoints."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """Bytes per quantized parameter (an interval where the name leaves it open), and what the tensor cores compute in.

    `compute` is "fp8" or "int8" where the GPU has it, and 16 bits otherwise: FP8 weights on Ampere are unpacked by
    Marlin kernels and only save memory. `experts_only` says that attention stays at 16 bits.
    """

    low: float
    high: float
    compute: str = "bf16"
    experts_only: bool = False


_FOUR_BITS = Quantization(0.52, 0.52)  # 4 bits + a 16-bit scale and a 4-bit zero point for each group of 128
_FLOAT8 = Quantization(1.0, 1.0, compute="fp8")
_INTEGER8 = Quantization(1.0, 1.0, compute="int8")

QUANTIZATIONS: Mapping[str, Quantization] = MappingProxyType(
    {
        "awq": _FOUR_BITS,
        "awq_marlin": _FOUR_BITS,
        "gptq": _FOUR_BITS,
        "gptq_marlin": _FOUR_BITS,
        "int4": _FOUR_BITS,
        "w4a16": _FOUR_BITS,
        "fp8": _FLOAT8,
        "int8": _INTEGER8,
        "w8a8": _INTEGER8,
        # Microscaling: 4 bits and an 8-bit scale for 32 values; gpt-oss has it in its experts only.
        "mxfp4": Quantization(0.53125, 0.53125, experts_only=True),
        # A container of several schemes: between 4 and 8 bits until the checkpoint is looked at.
        "compressed-tensors": Quantization(0.52, 1.0),
    }
)
"""Quantizations by vLLM's names and the usual short ones."""

_DTYPE_BYTES = {"auto": 2.0, "bfloat16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0, "float": 4.0}
_KV_BYTES = {"float16": 2.0, "bfloat16": 2.0, "int8_per_token_head": 1.0}


def quantization_of(deployment: Deployment) -> Quantization:
    """The quantization in force: the one named, else the one of the published weights, else none.

    Raises ValueError, naming the known ones, for an unknown name.
    """
    name = deployment.quantization
    if name in ("none", "") and deployment.model.native_quantization:
        name = deployment.model.native_quantization
    if name in ("none", ""):
        size = dtype_bytes(deployment.dtype)
        return Quantization(size, size)
    if name not in QUANTIZATIONS:
        raise ValueError(f"quantization {name!r} is not known here; known: none, {', '.join(QUANTIZATIONS)}")
    return QUANTIZATIONS[name]


def dtype_bytes(dtype: str) -> float:
    """Bytes of one value. Raises ValueError, naming the known ones, for an unknown name."""
    if dtype not in _DTYPE_BYTES:
        raise ValueError(f"dtype {dtype!r} is not known here; known: {', '.join(_DTYPE_BYTES)}")
    return _DTYPE_BYTES[dtype]


def kv_dtype_bytes(kv_dtype: str, dtype: str) -> float:
    """Bytes of one cached value: `auto` follows the data type, every `fp8…` is one byte."""
    if kv_dtype == "auto":
        return dtype_bytes(dtype)
    if kv_dtype.startswith("fp8"):
        return 1.0
    if kv_dtype not in _KV_BYTES:
        raise ValueError(f"kv_dtype {kv_dtype!r} is not known here; known: auto, fp8, {', '.join(_KV_BYTES)}")
    return _KV_BYTES[kv_dtype]


def weight_bytes(deployment: Deployment) -> tuple[float, float]:
    """Bytes of the whole model, least and most."""
    model, quantization = deployment.model, quantization_of(deployment)
    return _bytes(deployment, model.embedding_parameters, 1.0, quantization.low), _bytes(
        deployment, model.embedding_parameters, 1.0, quantization.high
    )


def weight_bytes_per_gpu(deployment: Deployment) -> tuple[float, float]:
    """Bytes on the fullest GPU, least and most.

    Tensor parallelism splits everything (norms are copied; they are below a thousandth). Of a pipeline the fullest
    stage counts: its layers, rounded up, and either the embedding or the head.
    """
    model, quantization = deployment.model, quantization_of(deployment)
    part = math.ceil(model.layers / deployment.pp) / model.layers
    embeddings = model.embedding_parameters if deployment.pp == 1 else model.vocab * model.hidden
    low, high = (
        _bytes(deployment, embeddings, part, per_parameter) / deployment.tp
        for per_parameter in (quantization.low, quantization.high)
    )
    return low, high


def _bytes(deployment: Deployment, embeddings: int, part: float, per_parameter: float) -> float:
    model = deployment.model
    dense_bytes = dtype_bytes(deployment.dtype) if quantization_of(deployment).experts_only else per_parameter
    layers = model.dense_parameters * dense_bytes + model.routed_expert_parameters * per_parameter
    return embeddings * EMBEDDING_BYTES + part * layers


def kv_bytes_per_token(deployment: Deployment) -> float:
    """Bytes of one token in the cache of the whole model, over all layers.

    Grouped-query attention keeps a key and a value per KV head; latent attention keeps one compressed vector.
    """
    model, size = deployment.model, kv_dtype_bytes(deployment.kv_dtype, deployment.dtype)
    if model.latent is not None:
        return model.layers * (model.latent.kv_lora_rank + model.latent.qk_rope_dim) * size
    return 2 * model.layers * model.kv_heads * model.head_dim * size


def kv_bytes_per_token_per_gpu(deployment: Deployment) -> float:
    """Bytes of one token on one GPU of the fullest pipeline stage.

    Tensor parallelism splits KV heads and copies them once there are more GPUs than heads; latent attention is
    copied on every GPU.
    """
    model = deployment.model
    split = 1 if model.latent is not None else min(deployment.tp, model.kv_heads)
    part = math.ceil(model.layers / deployment.pp) / model.layers
    return kv_bytes_per_token(deployment) * part / split
