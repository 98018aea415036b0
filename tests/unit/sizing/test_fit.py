"""Does it fit: the guides' cases, bytes, refusals and fixes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.facts.gpus import GPUS
from components.facts.models import MODELS
from components.sizing.deployment import Deployment, Engine, default_batch
from components.sizing.fit import fit
from components.sizing.fixes import fixes, shorter_context
from components.sizing.weights import kv_bytes_per_token, weight_bytes

GIB = 2**30


def replica(model: str, gpu: str, tp: int = 1, **changes: object) -> Deployment:
    """A replica with vLLM's default batch limits for the GPU and 8,192 tokens of context."""
    tokens, sequences = default_batch(GPUS[gpu])
    return replace(
        Deployment(MODELS[model], GPUS[gpu], tp=tp, max_num_batched_tokens=tokens, max_num_seqs=sequences),
        **changes,
    )


@pytest.mark.parametrize("utilization", [0.90, 0.92])
@pytest.mark.parametrize(
    ("gpu", "tp", "quantization", "context", "verdict"),
    [
        ("A10G", 4, "none", 8_192, "does not fit"),
        ("A100-40", 4, "none", 8_192, "borderline"),
        ("A100-40", 8, "none", 8_192, "fits"),
        ("A10G", 4, "awq", 8_192, "fits"),
        ("A10G", 4, "awq", 131_072, "does not fit"),
    ],
)
def test_the_guides_cases_of_llama_70b(
    *, gpu: str, tp: int, quantization: str, context: int, verdict: str, utilization: float
) -> None:
    """70B in BF16 loads on eight A100 and on nothing smaller that the guides name; AWQ loads on g5.12xlarge."""
    given = replica(
        "llama-3.1-70b",
        gpu,
        tp,
        quantization=quantization,
        max_model_len=context,
        gpu_memory_utilization=utilization,
    )
    assert fit(given).verdict == verdict


@pytest.mark.parametrize(
    ("model", "quantization", "gib"),
    [
        ("llama-3.1-70b", "none", 131.4),
        ("llama-3.1-70b", "fp8", 67.7),
        ("llama-3.1-70b", "awq", 37.1),
        ("llama-3.1-8b", "none", 14.96),
        ("mixtral-8x22b", "none", 261.9),
        ("deepseek-v3", "none", 626.6),
        ("gpt-oss-120b", "none", 60.7),
    ],
)
def test_weights_by_quantization(model: str, quantization: str, gib: float) -> None:
    """Embeddings and head stay at 16 bits; DeepSeek-V3 and gpt-oss are published quantized."""
    assert weight_bytes(replica(model, "H100", quantization=quantization))[1] / GIB == pytest.approx(
        gib, rel=0.005
    )


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("llama-3.1-405b", 516_096),
        ("mixtral-8x22b", 229_376),
        ("deepseek-v3", 70_272),
        ("qwen3-32b", 262_144),
        ("qwen3-235b-a22b", 192_512),
    ],
)
def test_cache_bytes_per_token_are_exact(model: str, bytes_per_token: int) -> None:
    """The published values, latent attention included."""
    assert kv_bytes_per_token(replica(model, "H100")) == bytes_per_token


def test_a_container_of_schemes_is_an_interval() -> None:
    """compressed-tensors may be 4 or 8 bits, so the weights are a range and the verdict takes the worse end."""
    low, high = weight_bytes(replica("llama-3.1-8b", "A10G", quantization="compressed-tensors"))
    assert (round(low / 1e9, 1), round(high / 1e9, 1)) == (5.7, 9.1)


def test_pipeline_stages_share_layers_and_cache() -> None:
    """405B in FP8 over two p4d (TP 8 x PP 2) fits, as the multi-node stack says."""
    given = fit(replica("llama-3.1-405b", "A100-40", 8, pp=2, quantization="fp8", max_num_seqs=32))
    assert (given.verdict, round(given.weights_gib_per_gpu, 1)) == ("fits", 23.9)


def test_more_gpus_than_kv_heads_copy_the_cache() -> None:
    """Qwen3-30B-A3B has 4 KV heads: at TP 8 a GPU keeps as many bytes of a token as at TP 4."""
    four, eight = (fit(replica("qwen3-30b-a3b", "H100", tp)) for tp in (4, 8))
    assert four.kv_tokens[0] < eight.kv_tokens[0] < four.kv_tokens[0] * 1.3


def test_a_sliding_window_widens_the_interval() -> None:
    """Half of gpt-oss's layers keep 128 tokens; whether the engine gives their room to the others is not assumed."""
    low, high = fit(replica("gpt-oss-120b", "H100", 2)).kv_tokens
    assert high > 2 * low


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tp": 3}, "64 attention heads cannot be split over 3 GPUs; tensor parallelism must divide them"),
        (
            {"kv_dtype": "fp8"},
            "A100-40 has no FP8 unit, and vLLM's attention kernels refuse an FP8 KV cache there",
        ),
        (
            {"max_model_len": 200_000},
            "a context of 200,000 is longer than the 131,072 positions llama-3.1-70b knows",
        ),
    ],
    ids=["heads", "fp8 cache on Ampere", "positions"],
)
def test_settings_that_the_engine_refuses_do_not_fit(changes: dict[str, object], reason: str) -> None:
    """Whatever the memory; the reason comes first."""
    given = fit(replace(replica("llama-3.1-70b", "A100-40", 8), **changes))
    assert (given.verdict, given.reasons[0]) == ("does not fit", reason)


def test_the_reason_says_what_one_gpu_has() -> None:
    """Guide 1's flagship: 32.9 GiB of weights on a GPU that may use 20.3."""
    given = fit(replica("llama-3.1-70b", "A10G", 4))
    assert given.reasons == (
        "32.9 GiB of weights a GPU are more than the 20.3 GiB (92% of one A10G) that the engine may use",
    )


def test_a_large_batch_costs_cache() -> None:
    """Guide 1's 32,768 batched tokens hold several GiB of activations that 2,048 do not."""
    small, large = (
        fit(replica("llama-3.1-70b", "A100-40", 8, max_num_batched_tokens=tokens)).overhead_gib_per_gpu[1]
        for tokens in (2_048, 32_768)
    )
    assert large - small == pytest.approx(4.3, abs=0.2)


def test_eager_engines_keep_no_graphs() -> None:
    """Without captured graphs the engine keeps up to a GiB less."""
    captured, eager = (
        fit(replica("llama-3.1-8b", "A10G", engine=Engine(eager=eager))).overhead_gib_per_gpu
        for eager in (False, True)
    )
    assert round(captured[1] - eager[1], 2) == 1.0


def test_unknown_names_are_errors_not_verdicts() -> None:
    """A typing mistake must not look like an answer."""
    with pytest.raises(ValueError, match=r"^quantization 'fp7' is not known here; known: none, awq, "):
        fit(replica("llama-3.1-8b", "A10G", quantization="fp7"))


def test_fixes_come_cheapest_first() -> None:
    """70B BF16 on g5.12xlarge: quantizing costs nothing, then the next dearer instances."""
    found = fixes(replica("llama-3.1-70b", "A10G", 4), "g5.12xlarge")
    assert [fix.change for fix in found[:2]] == [
        "quantization: awq (a quarter of the weights)",
        "instance g7e.12xlarge with tensorParallel 2 (8.29 $/h)",
    ]


def test_more_gpus_of_the_same_node_are_free() -> None:
    """On p4d at TP 4 the other four GPUs are paid for already."""
    changes = {
        fix.change: fix.usd_per_hour_more
        for fix in fixes(replica("llama-3.1-70b", "A100-40", 4), "p4d.24xlarge")
    }
    assert changes["tensorParallel: 8 (more GPUs of the same node)"] == 0.0


def test_a_shorter_context_is_a_power_of_two_that_surely_fits() -> None:
    """AWQ on g5.12xlarge at 131,072: 65,536 fits."""
    assert (
        shorter_context(replica("llama-3.1-70b", "A10G", 4, quantization="awq", max_model_len=131_072))
        == 65_536
    )


def test_what_fits_needs_no_fix() -> None:
    """No advice where none is needed."""
    assert fixes(replica("llama-3.1-8b", "A10G"), "g5.2xlarge") == []
