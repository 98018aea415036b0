"""What vLLM is told about a model."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from components.settings.base import Fraction, Positive, Settings, form

S3Address = Annotated[
    str, form(r"^s3://[a-z0-9][a-z0-9.-]+[a-z0-9](/.*)?$", "a folder in S3 like s3://bucket/adapters")
]


class Dtype(StrEnum):
    """Type of the computation."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Quantization(StrEnum):
    """Quantization of the weights, by vLLM's names."""

    NONE = "none"
    AWQ = "awq"
    AWQ_MARLIN = "awq_marlin"
    GPTQ = "gptq"
    GPTQ_MARLIN = "gptq_marlin"
    FP8 = "fp8"
    COMPRESSED_TENSORS = "compressed-tensors"


class KvCacheDtype(StrEnum):
    """Type of the KV cache, by vLLM's names."""

    AUTO = "auto"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"


class Sampling(Settings):
    """Sampling values used when a request names none."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    max_tokens: Positive | None = None
    repetition_penalty: Annotated[float, Field(gt=0)] | None = None


class Lora(Settings):
    """Adapters loaded on demand from a folder in S3."""

    path: S3Address = Field(description="Folder whose subfolders are the adapters.")
    max_adapters: Positive = Field(default=16, description="Adapters that a replica holds at once.")
    max_rank: Annotated[int, Field(ge=1, le=512)] = 16  # vLLM's own default


class EngineSettings(Settings):
    """What vLLM is told. Everything else goes in `arguments`, by the pinned engine's own names."""

    dtype: Dtype = Field(
        default=Dtype.AUTO, description="Type of the computation; auto: the checkpoint's own."
    )
    quantization: Quantization = Field(
        default=Quantization.NONE, description="How the weights are quantized."
    )
    kv_cache_dtype: KvCacheDtype = Field(
        default=KvCacheDtype.AUTO, description="Type of the KV cache; auto: dtype."
    )
    max_model_len: Positive = Field(description="Context length in tokens: prompt and answer together.")
    max_num_seqs: Positive = Field(
        default=64, description="Requests in one batch, at most; the KV cache may hold fewer."
    )
    # vLLM's own default on GPUs below 70 GiB.
    max_num_batched_tokens: Positive = Field(
        default=2048, description="Tokens of one step of the engine, at most."
    )
    # vLLM 0.29's default; above 0.98 there is no room for what lies beside the engine.
    gpu_memory_utilization: Annotated[
        float, Field(gt=0, le=0.98, description="Share of the GPU's memory for weights and KV cache.")
    ] = 0.92
    prefix_caching: bool = Field(default=True, description="Prompts that begin alike share their KV cache.")
    chunked_prefill: bool = Field(
        default=True, description="Long prompts are read in parts, between the tokens of others."
    )
    enforce_eager: bool = Field(default=False, description="No CUDA graphs: starts sooner and serves slower.")
    trust_remote_code: bool = Field(default=False, description="Runs code that comes with the weights.")
    default_sampling: Sampling = Sampling()
    lora: Lora | None = Field(default=None, description="LoRA adapters on top of the model.")
    arguments: dict[str, str | int | float | bool | list[str] | dict[str, str | int | float | bool]] = Field(
        default_factory=dict, description="Further arguments of the pinned vLLM, by their Python names."
    )
