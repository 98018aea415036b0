"""What is sized: a model on GPUs with engine settings, and the load it meets. Plain values, no settings types."""

from __future__ import annotations

from dataclasses import dataclass

from components.facts.gpus import Gpu
from components.facts.models import ModelShape

GIB = 2**30
BLOCK_TOKENS = 16
"""Tokens in a block of vLLM's KV cache (its default block_size)."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The serving engine: name and version as in `vllm=0.29.0`; `eager` means without CUDA graphs."""

    name: str = "vllm"
    version: str = "0.29.0"
    eager: bool = False

    @classmethod
    def parse(cls, text: str) -> Engine:
        """`vllm=0.29.0` or `vllm`. Raises ValueError for another form."""
        name, _, version = text.partition("=")
        if not name or (version and not version[0].isdigit()):
            raise ValueError(f"{text!r} is not NAME=VERSION, as in vllm=0.29.0")
        return cls(name=name, version=version or "0.29.0")

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor number; (0, 0) where the version is unknown."""
        numbers = [part for part in self.version.split(".")[:2] if part.isdigit()]
        return (int(numbers[0]), int(numbers[1])) if len(numbers) == 2 else (0, 0)  # noqa: PLR2004

    @property
    def is_v0(self) -> bool:
        """VLLM before 0.8 ran its first engine, whose Python scheduler cost milliseconds a step."""
        return self.name == "vllm" and self.release < (0, 8)

    @property
    def uses_cuda_graphs(self) -> bool:
        """VLLM captures decode steps unless told not to; text-generation-inference 1.0 did not."""
        return not self.eager and self.name != "tgi"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


VLLM = Engine()
"""The platform's own engine."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One replica: a model, its GPUs and the engine settings that decide about memory and speed.

    `gpu` is one GPU, of which the replica has `tp` x `pp`. `link` joins the GPUs of one node ("nvlink", "pcie" or
    None). `quantization` and `kv_dtype` use vLLM's names. Where `pp` is above 1 each stage is one node.
    """

    model: ModelShape
    gpu: Gpu
    tp: int = 1
    pp: int = 1
    link: str | None = None
    dtype: str = "auto"
    quantization: str = "none"
    kv_dtype: str = "auto"
    max_model_len: int = 8_192
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2_048
    gpu_memory_utilization: float = 0.92
    engine: Engine = VLLM

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp


@dataclass(frozen=True, slots=True)
class Load:
    """Requests to one replica: tokens in and out, and either a fixed number at a time or a rate a second.

    `prefix_hit_rate` is the part of the input whose prefill the prefix cache saves.
    """

    input_tokens: int = 1_024
    output_tokens: int = 256
    concurrency: float | None = None
    rate: float | None = None
    prefix_hit_rate: float = 0.0

    @property
    def prefill_tokens(self) -> float:
        """Input tokens that are computed."""
        return max(1.0, self.input_tokens * (1 - self.prefix_hit_rate))

    @property
    def arrivals(self) -> float:
        """Requests a second. Raises ValueError for a load that names a concurrency instead."""
        if self.rate is None:
            raise ValueError("this load names no rate")
        return self.rate

    @property
    def mean_context(self) -> float:
        """Tokens that a running request holds in the cache, averaged over its life."""
        return self.input_tokens + self.output_tokens / 2


def default_batch(gpu: Gpu) -> tuple[int, int]:
    """VLLM's own max_num_batched_tokens and max_num_seqs for a server on this GPU (0.29, arg_utils.py).

    8,192 and 1,024 from 70 GiB on, except on A100; 16,384 from 160 GiB on; else 2,048 and 256.
    """
    if gpu.name.startswith("A100") or gpu.memory_mib < 70 * 1024:
        return 2_048, 256
    return (16_384 if gpu.memory_mib >= 160 * 1024 else 8_192), 1_024
