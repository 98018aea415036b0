"""What is known of a model from its name: parameters, heads, KV heads, layers, context, precision of the weights.

`components.facts.models` holds the shapes that the platform plans with. People's manifests name many more, so the table
here adds the common ones (numbers of the `config.json` on each model's card), and a bare size in the name ("70B") still
gives the weights. What is not known stays None, and no rule guesses it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from components.facts.models import MODELS, ModelShape

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's size. `certain` is False where only the name tells the number of parameters."""

    name: str
    parameters: float
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    max_positions: int | None = None
    embedding: float = 0.0
    native: str | None = None  # precision of the published weights where it is not 16 bits
    kv_bytes_fixed: float | None = None  # bytes a token and rank of latent attention
    windowed: tuple[int, int] = (0, 0)  # layers with a sliding window, its width
    certain: bool = True

    def kv_bytes(self, tensor_parallel: int, pipeline_parallel: int, element: float) -> float | None:
        """Bytes of cache that one token takes on one GPU, in layers that see the whole context."""
        if self.kv_bytes_fixed is not None:
            return self.kv_bytes_fixed / pipeline_parallel
        if not (self.layers and self.kv_heads and self.head_dim):
            return None
        heads = max(1.0, self.kv_heads / tensor_parallel)
        return 2 * (self.layers - self.windowed[0]) / pipeline_parallel * heads * self.head_dim * element


# Name pattern -> layers, heads, KV heads, head width, positions, 10^9 parameters, 10^6 embedding parameters.
_OTHERS: Mapping[str, tuple[int, int, int, int, int, float, float]] = {
    r"qwen2\.5.*?-0\.5b": (24, 14, 2, 64, 32768, 0.494, 136),
    r"qwen2\.5.*?-1\.5b": (28, 12, 2, 128, 32768, 1.544, 233),
    r"qwen2\.5.*?-3b": (36, 16, 2, 128, 32768, 3.086, 311),
    r"qwen2\.5.*?-14b": (48, 40, 8, 128, 32768, 14.77, 1557),
    r"qwen2\.5.*?-32b": (64, 40, 8, 128, 32768, 32.76, 1557),
    r"qwen2\.5.*?-72b": (80, 64, 8, 128, 32768, 72.71, 2491),
    r"qwq-32b": (64, 40, 8, 128, 131072, 32.76, 1557),
    r"deepseek-r1-distill-qwen-1\.5b": (28, 12, 2, 128, 131072, 1.777, 467),
    r"deepseek-r1-distill-qwen-14b": (48, 40, 8, 128, 131072, 14.77, 1557),
    r"deepseek-r1-distill-qwen-32b": (64, 40, 8, 128, 131072, 32.76, 1557),
    r"qwen3-0\.6b": (28, 16, 8, 128, 40960, 0.596, 156),
    r"qwen3-1\.7b": (28, 16, 8, 128, 40960, 1.721, 311),
    r"qwen3-4b": (36, 32, 8, 128, 40960, 4.022, 389),
    r"qwen3-14b": (40, 40, 8, 128, 40960, 14.77, 1556),
    r"mistral-7b": (32, 32, 8, 128, 32768, 7.248, 268),
    r"ministral-8b": (36, 32, 8, 128, 32768, 8.02, 1074),
    r"mistral-large": (88, 96, 8, 128, 131072, 122.6, 805),
    r"llama-3\.2-1b": (16, 32, 8, 64, 131072, 1.236, 263),
    r"llama-3\.2-3b": (28, 24, 8, 128, 131072, 3.213, 394),
    r"tinyllama": (22, 32, 4, 64, 2048, 1.1, 131),
    r"gemma-2-2b": (26, 8, 4, 256, 8192, 2.614, 590),
    r"gemma-2-9b": (42, 16, 8, 256, 8192, 9.242, 917),
    r"gemma-2-27b": (46, 32, 16, 128, 8192, 27.23, 1180),
    r"gemma-3-1b": (26, 4, 1, 256, 32768, 1.0, 302),
    r"gemma-3-4b": (34, 8, 4, 256, 131072, 4.3, 671),
    r"gemma-3-12b": (48, 16, 8, 256, 131072, 12.19, 1007),
    r"gemma-3-27b": (62, 32, 16, 128, 131072, 27.43, 1409),
    r"phi-4(?!-mini|-multi)": (40, 40, 10, 128, 16384, 14.66, 1029),
    r"phi-3(?:\.5)?-mini": (32, 32, 32, 96, 131072, 3.82, 197),
    r"falcon-7b": (32, 71, 1, 64, 2048, 7.22, 296),
    r"falcon-40b": (60, 128, 8, 64, 2048, 41.3, 532),
    r"gpt-oss-20b": (24, 64, 8, 64, 131072, 20.91, 1158),
    r"opt-125m": (12, 12, 12, 64, 2048, 0.125, 39),
}

# Names of models whose shape is one of `MODELS`: pattern -> (key, positions where the release has others).
_KNOWN: Mapping[str, tuple[str, int | None]] = {
    r"(?:meta-)?llama-?3(?:\.[13])?.*?-70b": ("llama-3.1-70b", None),
    r"(?:meta-)?llama-?3(?:\.1)?.*?-8b": ("llama-3.1-8b", None),
    r"(?:meta-)?llama-?3\.1.*?-405b": ("llama-3.1-405b", None),
    r"llama-2.*?-7b": ("llama-2-7b", None),
    r"llama-2.*?-13b": ("llama-2-13b", None),
    r"llama-2.*?-70b": ("llama-2-70b", None),
    r"deepseek-r1-distill-llama-8b": ("llama-3.1-8b", None),
    r"deepseek-r1-distill-llama-70b": ("llama-3.1-70b", None),
    r"deepseek-r1-distill-qwen-7b": ("qwen2.5-7b", 131072),
    r"mixtral-8x7b": ("mixtral-8x7b", None),
    r"mixtral-8x22b": ("mixtral-8x22b", None),
    r"qwen2\.5.*?-7b": ("qwen2.5-7b", None),
    r"qwen3-8b": ("qwen3-8b", None),
    r"qwen3-32b": ("qwen3-32b", None),
    r"qwen3.*?-30b-a3b": ("qwen3-30b-a3b", None),
    r"qwen3.*?-235b-a22b": ("qwen3-235b-a22b", None),
    r"mistral-nemo": ("mistral-nemo-12b", None),
    r"mistral-small": ("mistral-small-24b", None),
    r"deepseek-(?:v3|r1)(?!-distill)": ("deepseek-v3", None),
    r"gpt-oss-120b": ("gpt-oss-120b", None),
}
_SIZE = re.compile(r"(?<![\d.a-z])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])|(?<=[a-z])(\d{1,3})b(?![a-z0-9])")

_HASH = re.compile(r"[0-9a-f]{7,64}")  # a revision's folder: its last letters may look like a size

# Precision of the weights by words in a model's name; the first that matches wins.
_PRECISIONS = (
    (
        re.compile(r"awq|gptq-?int4|w4a16|int4|4bit|bnb-4|nvfp4|mxfp4|(?<![a-z])fp4|q4_|gptq(?!.*int8)"),
        "int4",
    ),
    (re.compile(r"fp8|w8a8|int8|8bit|w8a16|q8_"), "int8"),
    (re.compile(r"gguf|exl2"), "unknown"),
)
_QUANTIZATIONS: Mapping[str, str] = {
    "awq": "int4", "awq_marlin": "int4", "gptq": "int4", "gptq_marlin": "int4", "bitsandbytes": "int4", "mxfp4": "int4",
    "modelopt_fp4": "int4", "nvfp4": "int4", "fp8": "int8", "fbgemm_fp8": "int8", "modelopt": "int8", "ptpc_fp8": "int8",
    "experts_int8": "int8", "compressed-tensors": "unknown", "gguf": "unknown", "quark": "unknown", "torchao": "unknown",
}  # fmt: skip
BYTES: Mapping[str, float] = {"int4": 0.5, "int8": 1.0, "16": 2.0, "32": 4.0}
# Group scales and zero points on top of four bits, in groups of 128.
INT4_OVERHEAD = 1.06


def simple_name(source: str) -> str:
    """The model's own name in a hub id, a path or an address: "llama-3.1-8b-instruct"."""
    parts = [
        part
        for part in source.lower().split("?")[0].rstrip("/").split("/")
        if part and not _HASH.fullmatch(part)
    ]
    known = [part for part in parts if any(re.search(pattern, part) for pattern in (*_KNOWN, *_OTHERS))]
    sized = [part for part in parts if _SIZE.search(part)]
    return (known or sized or parts or [""])[-1].replace("_", "-").removeprefix("models--")


@lru_cache(maxsize=1024)
def shape_of(source: str) -> Shape | None:
    """The shape of the model that a source names, as far as the name tells it."""
    if source in MODELS:
        return from_model(MODELS[source])
    name = simple_name(source)
    for pattern, (key, positions) in _KNOWN.items():
        if re.search(pattern, name):
            found = replace(from_model(MODELS[key]), name=name)
            original = re.search(r"llama-?3-", name) and "3.1" not in name  # the first Llama 3 has 8k
            return replace(found, max_positions=positions or (8192 if original else found.max_positions))
    for pattern, (layers, heads, kv_heads, width, positions, billions, embedding) in _OTHERS.items():
        if re.search(pattern, name):
            native = "int4" if "gpt-oss" in name else None
            windowed = (
                (layers // 2, 4096)
                if "gemma-2" in name
                else (layers * 5 // 6, 1024)
                if "gemma-3" in name
                else (0, 0)
            )
            return Shape(
                name,
                billions * 1e9,
                layers,
                heads,
                kv_heads,
                width,
                positions,
                embedding * 1e6,
                native,
                windowed=windowed,
            )
    return _by_size(name)


def _by_size(name: str) -> Shape | None:
    found = _SIZE.search(name)
    if found is None:
        return None
    experts, size, glued = found.groups()
    return Shape(name, float(size or glued) * float(experts or 1) * 1e9, certain=False)


def from_model(model: ModelShape) -> Shape:
    """The shape of a model of `components.facts.models`."""
    native = {"fp8": "int8", "mxfp4": "int4"}.get(model.native_quantization or "")
    fixed = None
    if model.latent is not None:
        fixed = float(model.layers * (model.latent.kv_lora_rank + model.latent.qk_rope_dim) * 2)
    return Shape(
        model.name, float(model.parameters), model.layers, model.heads, model.kv_heads, model.head_dim,
        model.max_positions, float(model.embedding_parameters), native, fixed,
        (model.windowed_layers, model.window or 0),
    )  # fmt: skip


def precision(source: str, quantization: str | None, dtype: str | None, native: str | None) -> str:
    """Precision of the weights: "int4", "int8", "16", "32", or "unknown"."""
    if quantization and quantization.lower() not in ("none", "auto"):
        return _QUANTIZATIONS.get(quantization.lower(), "unknown")
    name = source.lower()
    for pattern, found in _PRECISIONS:
        if pattern.search(name):
            return found
    if native:
        return native
    return "32" if dtype in ("float32", "float") else "16"


def weight_bytes(shape: Shape, kind: str) -> float | None:
    """Bytes of all weights; embeddings and head stay at 16 bits under quantization."""
    if kind not in BYTES:
        return None
    if kind in ("16", "32"):
        return shape.parameters * BYTES[kind]
    overhead = INT4_OVERHEAD if kind == "int4" else 1.0
    return (shape.parameters - shape.embedding) * BYTES[kind] * overhead + shape.embedding * 2
