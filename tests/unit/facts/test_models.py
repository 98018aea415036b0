"""Model shapes: parameters that follow from the shape, and `config.json` files."""

from __future__ import annotations

import pytest

from components.facts.models import MODELS, ModelShape, UnknownArchitectureError

LLAMA_8B = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_attention_heads": 128,
    "num_hidden_layers": 61, "num_key_value_heads": 128, "vocab_size": 129280, "max_position_embeddings": 163840,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1,
    "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip


def test_the_built_in_models_are_the_eighteen_of_the_issue() -> None:
    """Stack files may name exactly these without a config.json."""
    assert set(MODELS) == {
        "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b", "llama-2-7b", "llama-2-13b", "llama-2-70b",
        "mixtral-8x7b", "mixtral-8x22b", "qwen2.5-7b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b",
        "mistral-nemo-12b", "mistral-small-24b", "deepseek-v3", "gpt-oss-120b", "tiny",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_parameters_that_follow_from_a_shape_are_the_published_ones(name: str) -> None:
    """A wrong width anywhere would change the count."""
    assert MODELS[name].parameters == MODELS[name].published_parameters


def test_active_parameters_of_a_mixture_are_those_of_two_experts() -> None:
    """Mixtral 8x7B multiplies each token with 12.7 billion parameters (12.9 with the embedding table)."""
    assert MODELS["mixtral-8x7b"].active_parameters == 12_748_853_248


def test_reads_a_llama_config() -> None:
    """A config.json of Llama 3.1 8B gives the built-in shape's parameter count."""
    assert ModelShape.from_config(LLAMA_8B, "mine").parameters == 8_030_261_248


def test_reads_a_config_with_latent_attention_and_native_fp8() -> None:
    """DeepSeek-V3: experts, latent attention and the quantization of the published weights are all found."""
    shape = ModelShape.from_config(DEEPSEEK_V3)
    assert (shape.parameters, shape.native_quantization) == (671_026_419_200, "fp8")


def test_a_window_that_is_switched_off_is_no_window() -> None:
    """Qwen writes a width and `use_sliding_window: false`."""
    shape = ModelShape.from_config({**LLAMA_8B, "sliding_window": 4096, "use_sliding_window": False})
    assert (shape.window, shape.windowed_layers) == (None, 0)


def test_refuses_an_unknown_architecture_by_name() -> None:
    """A guess would give a wrong size, so the message says what is known instead."""
    with pytest.raises(
        UnknownArchitectureError, match=r"^model_type 'gemma3' is not known here; known: deepseek_v3, "
    ):
        ModelShape.from_config({**LLAMA_8B, "model_type": "gemma3"})


def test_names_the_field_that_a_config_lacks() -> None:
    """An incomplete file is refused with the missing field."""
    incomplete = {key: value for key, value in LLAMA_8B.items() if key != "vocab_size"}
    with pytest.raises(UnknownArchitectureError, match=r"^config\.json of a llama lacks 'vocab_size'$"):
        ModelShape.from_config(incomplete)
