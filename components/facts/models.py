"""Model shapes: what a Hugging Face `config.json` says about the size of a model, and the built-in ones.

Built-in shapes are those of the published `config.json` files (read from the collection inside aiconfigurator-core
0.12.0, from litgpt's and DeepSeek's own configurations, and for Llama 2, Qwen2.5 and Mistral from the model cards).
Each is checked in a test: the parameters that follow from the shape equal the published count.

An unknown architecture is refused, not guessed: the parameter count would be wrong without anyone noticing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


class UnknownArchitectureError(ValueError):
    """The `config.json` is of a kind whose shape is not understood; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: routed experts per layer, how many a token uses, their width, and what every token uses.

    `shared_intermediate` is the width of the shared experts together; `dense_layers` counts the first layers, which
    have an ordinary feed-forward part instead.
    """

    experts: int
    active: int
    intermediate: int
    shared_intermediate: int = 0
    dense_layers: int = 0
    router_bias: bool = False


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): ranks and head widths; the cache holds `kv_lora_rank + qk_rope_dim`."""

    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_dim: int
    qk_rope_dim: int
    v_dim: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """One model. Widths and counts as in `config.json`; `published_parameters` is the count on the model's card.

    `native_quantization` says that the published weights are already quantized ("fp8", "mxfp4"). `window` is the
    width of sliding-window attention and `windowed_layers` the number of layers that have it.
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_positions: int
    tied_embeddings: bool = False
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None
    native_dtype: str = "bfloat16"
    native_quantization: str | None = None
    window: int | None = None
    windowed_layers: int = 0
    published_parameters: int | None = None
    source: str = "config.json"

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and output head together: the part that stays at 16 bits under quantization."""
        return self.vocab * self.hidden * (1 if self.tied_embeddings else 2)

    @property
    def attention_parameters(self) -> int:
        """Attention of all layers, without the norms before it."""
        if self.latent is not None:
            return self.layers * _latent_attention(self.latent, self.hidden, self.heads)
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        weights = self.hidden * (2 * queries + 2 * keys)
        biases = (queries + 2 * keys) * self.qkv_bias + self.hidden * self.output_bias
        return self.layers * (weights + biases + 2 * self.head_dim * self.qk_norm + self.heads * self.sinks)

    @property
    def routed_expert_parameters(self) -> int:
        """All routed experts of all layers; 0 for a dense model."""
        if self.experts is None:
            return 0
        return (
            (self.layers - self.experts.dense_layers)
            * self.experts.experts
            * self._feed_forward(self.experts.intermediate)
        )

    def _feed_forward(self, width: int) -> int:
        """Gate, up and down projection of one width."""
        return 3 * self.hidden * width + (2 * width + self.hidden) * self.mlp_bias

    @property
    def dense_parameters(self) -> int:
        """Everything that every token uses, without embeddings and head: attention, dense and shared parts, norms."""
        experts = self.experts
        norms = (2 * self.layers + 1) * self.hidden
        if experts is None:
            return self.attention_parameters + self.layers * self._feed_forward(self.intermediate) + norms
        sparse_layers = self.layers - experts.dense_layers
        router = self.hidden * experts.experts + experts.experts * experts.router_bias
        shared = 3 * self.hidden * experts.shared_intermediate
        dense = experts.dense_layers * self._feed_forward(self.intermediate)
        return self.attention_parameters + dense + sparse_layers * (router + shared) + norms

    @property
    def parameters(self) -> int:
        """All parameters, as they follow from the shape."""
        return self.embedding_parameters + self.dense_parameters + self.routed_expert_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token multiplies with: the embedding table is looked up, the head is used."""
        routed = 0
        if self.experts is not None:
            sparse_layers = self.layers - self.experts.dense_layers
            routed = sparse_layers * self.experts.active * self._feed_forward(self.experts.intermediate)
        return self.vocab * self.hidden + self.dense_parameters + routed

    @classmethod
    def from_config(cls, config: Mapping[str, Any], name: str = "") -> ModelShape:
        """The shape of a Hugging Face `config.json`.

        Raises UnknownArchitectureError for a `model_type` that is not known and for a missing field.
        """
        model_type = str(config.get("model_type", ""))
        if model_type not in _ARCHITECTURES:
            raise UnknownArchitectureError(
                f"model_type {model_type!r} is not known here; known: {', '.join(sorted(_ARCHITECTURES))}"
            )
        try:
            return _from_config(cls, config, name or str(config.get("_name_or_path", "") or model_type))
        except KeyError as missing:
            raise UnknownArchitectureError(f"config.json of a {model_type} lacks {missing}") from missing


# What a `model_type` adds to the plain Llama shape; the rest is in the fields of the configuration.
_ARCHITECTURES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "llama": {},
        "mistral": {},
        "mixtral": {},
        "qwen2": {"qkv_bias": True},
        "qwen3": {"qk_norm": True},
        "qwen3_moe": {"qk_norm": True},
        "deepseek_v3": {},
        "kimi_k2": {},
        "gpt_oss": {"qkv_bias": True, "output_bias": True, "mlp_bias": True, "sinks": True},
    }
)


def _from_config(cls: type[ModelShape], config: Mapping[str, Any], name: str) -> ModelShape:
    hidden, heads, layers = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"]
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    quantization = config.get("quantization_config") or {}
    fields: dict[str, Any] = {
        "qkv_bias": bool(config.get("attention_bias", False)),
        "output_bias": bool(config.get("attention_bias", False)),
        "mlp_bias": bool(config.get("mlp_bias", False)),
        **_ARCHITECTURES[config["model_type"]],
    }
    return cls(
        name=name,
        layers=layers,
        hidden=hidden,
        intermediate=config["intermediate_size"],
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config.get("v_head_dim") or hidden // heads,
        vocab=config["vocab_size"],
        max_positions=config["max_position_embeddings"],
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        experts=_experts(config),
        latent=_latent(config),
        native_dtype=str(config.get("torch_dtype") or config.get("dtype") or "bfloat16"),
        native_quantization=quantization.get("quant_method"),
        window=window,
        windowed_layers=_windowed_layers(config, layers) if window else 0,
        **fields,
    )


def _experts(config: Mapping[str, Any]) -> Experts | None:
    count = config.get("num_local_experts") or config.get("num_experts") or config.get("n_routed_experts")
    if not count:
        return None
    width = config.get("moe_intermediate_size") or config["intermediate_size"]
    return Experts(
        experts=count,
        active=config["num_experts_per_tok"],
        intermediate=width,
        shared_intermediate=width * (config.get("n_shared_experts") or 0),
        dense_layers=config.get("first_k_dense_replace") or 0,
        router_bias=config["model_type"] in ("gpt_oss", "deepseek_v3", "kimi_k2"),
    )


def _latent(config: Mapping[str, Any]) -> LatentAttention | None:
    if not config.get("kv_lora_rank"):
        return None
    return LatentAttention(
        q_lora_rank=config.get("q_lora_rank") or 0,
        kv_lora_rank=config["kv_lora_rank"],
        qk_nope_dim=config["qk_nope_head_dim"],
        qk_rope_dim=config["qk_rope_head_dim"],
        v_dim=config["v_head_dim"],
    )


def _latent_attention(latent: LatentAttention, hidden: int, heads: int) -> int:
    """Parameters of one layer of latent attention, with its two inner norms."""
    query_width = heads * (latent.qk_nope_dim + latent.qk_rope_dim)
    if latent.q_lora_rank:
        queries = hidden * latent.q_lora_rank + latent.q_lora_rank + latent.q_lora_rank * query_width
    else:
        queries = hidden * query_width
    cached = hidden * (latent.kv_lora_rank + latent.qk_rope_dim) + latent.kv_lora_rank
    expanded = latent.kv_lora_rank * heads * (latent.qk_nope_dim + latent.v_dim)
    return queries + cached + expanded + heads * latent.v_dim * hidden


def _windowed_layers(config: Mapping[str, Any], layers: int) -> int:
    """Layers with a sliding window: listed (gpt-oss), or all of them where nothing is listed (Mistral 0.1)."""
    kinds = config.get("layer_types")
    return layers if kinds is None else sum(kind == "sliding_attention" for kind in kinds)


_QWEN3_MOE_30B = Experts(experts=128, active=8, intermediate=768)
_QWEN3_MOE_235B = Experts(experts=128, active=8, intermediate=1_536)
_DEEPSEEK_EXPERTS = Experts(256, 8, 2_048, shared_intermediate=2_048, dense_layers=3, router_bias=True)
_DEEPSEEK_LATENT = LatentAttention(
    q_lora_rank=1_536, kv_lora_rank=512, qk_nope_dim=128, qk_rope_dim=64, v_dim=128
)
_GPT_OSS_EXPERTS = Experts(experts=128, active=4, intermediate=2_880, router_bias=True)

# layers, hidden, intermediate, heads, KV heads, head width, vocabulary, positions
_ROWS = (
    ModelShape("llama-3.1-8b", 32, 4_096, 14_336, 32, 8, 128, 128_256, 131_072, published_parameters=8_030_261_248),
    ModelShape("llama-3.1-70b", 80, 8_192, 28_672, 64, 8, 128, 128_256, 131_072,
               published_parameters=70_553_706_496),
    ModelShape("llama-3.1-405b", 126, 16_384, 53_248, 128, 8, 128, 128_256, 131_072,
               published_parameters=405_853_388_800),
    ModelShape("llama-2-7b", 32, 4_096, 11_008, 32, 32, 128, 32_000, 4_096, native_dtype="float16",
               published_parameters=6_738_415_616),
    ModelShape("llama-2-13b", 40, 5_120, 13_824, 40, 40, 128, 32_000, 4_096, native_dtype="float16",
               published_parameters=13_015_864_320),
    ModelShape("llama-2-70b", 80, 8_192, 28_672, 64, 8, 128, 32_000, 4_096, native_dtype="float16",
               published_parameters=68_976_648_192),
    ModelShape("mixtral-8x7b", 32, 4_096, 14_336, 32, 8, 128, 32_000, 32_768,
               experts=Experts(8, 2, 14_336), published_parameters=46_702_792_704),
    ModelShape("mixtral-8x22b", 56, 6_144, 16_384, 48, 8, 128, 32_768, 65_536,
               experts=Experts(8, 2, 16_384), published_parameters=140_630_071_296),
    ModelShape("qwen2.5-7b", 28, 3_584, 18_944, 28, 4, 128, 152_064, 32_768, qkv_bias=True,
               published_parameters=7_615_616_512),
    ModelShape("qwen3-8b", 36, 4_096, 12_288, 32, 8, 128, 151_936, 40_960, qk_norm=True,
               published_parameters=8_190_735_360),
    ModelShape("qwen3-32b", 64, 5_120, 25_600, 64, 8, 128, 151_936, 40_960, qk_norm=True,
               published_parameters=32_762_123_264),
    ModelShape("qwen3-30b-a3b", 48, 2_048, 6_144, 32, 4, 128, 151_936, 40_960, qk_norm=True,
               experts=_QWEN3_MOE_30B, published_parameters=30_532_122_624),
    ModelShape("qwen3-235b-a22b", 94, 4_096, 12_288, 64, 4, 128, 151_936, 40_960, qk_norm=True,
               experts=_QWEN3_MOE_235B, published_parameters=235_093_634_560),
    ModelShape("mistral-nemo-12b", 40, 5_120, 14_336, 32, 8, 128, 131_072, 131_072,
               published_parameters=12_247_782_400),
    ModelShape("mistral-small-24b", 40, 5_120, 32_768, 32, 8, 128, 131_072, 32_768,
               published_parameters=23_572_403_200),
    ModelShape("deepseek-v3", 61, 7_168, 18_432, 128, 128, 128, 129_280, 163_840, experts=_DEEPSEEK_EXPERTS,
               latent=_DEEPSEEK_LATENT, native_quantization="fp8", published_parameters=671_026_419_200),
    ModelShape("gpt-oss-120b", 36, 2_880, 2_880, 64, 8, 64, 201_088, 131_072, qkv_bias=True, output_bias=True,
               mlp_bias=True, sinks=True, experts=_GPT_OSS_EXPERTS, native_quantization="mxfp4", window=128,
               windowed_layers=18, published_parameters=116_829_156_672),
    ModelShape("tiny", 2, 128, 256, 4, 2, 32, 512, 2_048, published_parameters=426_624,
               source="the model of random weights that the rehearsal makes"),
)  # fmt: skip

MODELS: Mapping[str, ModelShape] = MappingProxyType({shape.name: shape for shape in _ROWS})
"""The built-in models by the name that a stack file uses."""
