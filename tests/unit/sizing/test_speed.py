"""How fast: floors below highs, calibration or bound only, queueing, rates and replicas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.facts.links import all_reduce_seconds
from components.sizing.calibration import FIRST_TOKEN, STEP
from components.sizing.deployment import Engine, Load
from components.sizing.replicas import Objective, replicas_for
from components.sizing.speed import Speed, speed
from tests.unit.sizing.test_fit import replica

ONE = Load(1024, 256, concurrency=1)
P4D = replica("llama-3.1-70b", "A100-40", 8, link="nvlink", max_num_seqs=64)
G5 = replica("llama-3.1-70b", "A10G", 4, link="pcie", quantization="awq", max_num_seqs=32)


@pytest.mark.parametrize("deployment", [P4D, G5, replica("gpt-oss-120b", "H100", 4, link="nvlink")])
@pytest.mark.parametrize("load", [ONE, Load(1024, 256, concurrency=16), Load(200, 400, rate=0.2)])
def test_floor_estimate_high_are_in_order(deployment: object, load: Load) -> None:
    """Every triple rises, for latency and throughput."""
    given: Speed = speed(deployment, load)
    for bound in (given.ttft_ms, given.itl_ms, given.output_tokens_per_s):
        assert bound.floor <= bound.estimate <= bound.high


def test_nothing_measured_gives_bounds_only() -> None:
    """No run of vLLM on RTX PRO 6000 was found, so there is no estimate, and the answer says so."""
    given = speed(replica("llama-3.1-70b", "RTX-PRO-6000", 4, link="pcie", quantization="fp8"), ONE)
    assert (given.itl_ms.estimate, given.ttft_ms.estimate, given.calibration) == (None, None, None)
    assert given.notes == ("bound only: nothing was measured on this GPU, link and engine",)


@pytest.mark.parametrize(
    "changes",
    [{"engine": Engine("tgi", "1.0.3")}, {"engine": Engine(eager=True)}, {"pp": 2}],
    ids=["tgi", "eager", "pp"],
)
def test_another_engine_or_a_pipeline_has_no_estimate(changes: dict[str, object]) -> None:
    """The calibration is of vLLM with CUDA graphs inside one node."""
    assert speed(replace(P4D, **changes), ONE).itl_ms.estimate is None


def test_low_confidence_is_said() -> None:
    """Three points on other cards stand behind every estimate for g5."""
    assert speed(G5, ONE).notes == ("low confidence: 3 measured points on 8 RTX 4090 and 4 RTX 3090 Ti",)


def test_pcie_is_the_story_for_g5() -> None:
    """A 512 KiB all-reduce between four GPUs: 163 us on PCIe 4 against 15 us on A100's NVLink."""
    pcie, nvlink = (all_reduce_seconds(system, 4, 2**19) * 1e6 for system in ("l40s-pcie4", "a100-nvlink"))
    assert (round(pcie), round(nvlink)) == (163, 14)


def test_messages_beyond_the_table_grow_with_their_size() -> None:
    """64 MiB take twice as long as 32 MiB."""
    assert all_reduce_seconds("h100-nvlink", 8, 2**26) == pytest.approx(2 * 177.8e-6)


def test_one_gpu_joins_nothing() -> None:
    """No tensor parallelism, no all-reduce."""
    assert all_reduce_seconds("l40s-pcie4", 1, 2**20) == 0.0


def test_more_requests_make_tokens_slower_and_more() -> None:
    """Batching trades latency for throughput."""
    few, many = (speed(P4D, Load(1024, 256, concurrency=n)) for n in (1, 32))
    assert few.itl_ms.estimate < many.itl_ms.estimate
    assert few.output_tokens_per_s.estimate < many.output_tokens_per_s.estimate


def test_more_requests_than_run_are_queueing() -> None:
    """200 requests on 64 places: the rest waits and the time to first token has no estimate."""
    given = speed(P4D, Load(1024, 256, concurrency=200))
    assert (given.regime, given.ttft_ms.estimate) == ("queueing", None)
    assert given.notes[0].startswith(
        "max_num_seqs: 64 to 64 of 200 requests of 1,024 + 256 tokens run at a time"
    )


def test_an_exhausted_cache_is_named() -> None:
    """Long contexts fill the cache before the places."""
    given = speed(replace(P4D, max_model_len=131_072), Load(30_000, 2_000, concurrency=64))
    assert given.notes[0].startswith("KV cache exhausted: ")


def test_a_prefix_hit_saves_prefill() -> None:
    """With 80 percent of the prompt in the cache the first token comes in less than half of the time."""
    cold, warm = (
        speed(P4D, replace(ONE, input_tokens=4000, prefix_hit_rate=hit)).ttft_ms.estimate
        for hit in (0.0, 0.8)
    )
    assert warm < cold / 2


def test_a_rate_above_capacity_is_overload() -> None:
    """50 requests/s on one replica: the queue grows without end."""
    given = speed(P4D, Load(1024, 256, rate=50))
    assert (given.regime, given.notes[0].split(":")[0]) == ("overloaded", "50 requests/s cannot be served")


def test_a_load_names_one_thing() -> None:
    """Neither or both of concurrency and rate is a mistake of the caller."""
    with pytest.raises(ValueError, match=r"^a load names either a concurrency or a rate$"):
        speed(P4D, Load(1024, 256, concurrency=1, rate=1))


def test_old_engines_are_slower() -> None:
    """VLLM 0.7 had a scheduler that cost milliseconds a step."""
    new, old = (
        speed(replace(P4D, engine=Engine("vllm", version)), ONE).itl_ms.estimate
        for version in ("0.29.0", "0.7.3")
    )
    assert old - new == pytest.approx((STEP.v0_step + STEP.v0_sequence) * 1000, abs=0.01)


def test_parameters_are_few() -> None:
    """Seven for the time between tokens, four for the first."""
    assert (len(STEP.vector()), len(FIRST_TOKEN.vector())) == (7, 4)


def test_replicas_grow_with_the_rate() -> None:
    """Ten times the rate needs about ten times the replicas."""
    counts = [replicas_for(P4D, Load(1024, 256, rate=rate), Objective()).likely for rate in (2, 20)]
    assert counts == [1, 6]


def test_an_objective_below_the_floor_is_infeasible() -> None:
    """5 ms between tokens of a 70B on eight A100: not even reading the weights is that fast."""
    given = replicas_for(P4D, Load(1024, 256, rate=1), Objective(itl_p99=0.005))
    assert given.infeasible == (
        "inter-token latency of 5 ms cannot be met: A100-40 x 8 needs at least 12 ms for 1,024 input tokens, "
        "whatever the engine"
    )


def test_a_strict_objective_binds() -> None:
    """At 25 ms between tokens the latency decides, not the throughput."""
    given = replicas_for(P4D, Load(1024, 256, rate=4), Objective(itl_p99=0.025))
    assert (given.binding, given.likely) == ("itl", 5)
