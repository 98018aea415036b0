"""Cold start, price, quota, verdicts of a stack, ranking, inputs."""

from __future__ import annotations

import json
import time

import pytest

from components.facts.instance_types import INSTANCE_TYPES
from components.facts.models import MODELS
from components.sizing.cold_start import cold_start, fastest_loader, loader_rates
from components.sizing.deployment import Load
from components.sizing.inputs import known_gpu, known_instance, model_named, parse_objective, parse_seconds
from components.sizing.picture import text_chart
from components.sizing.price import Nodes, hourly, monthly, node_share, nodes_for, saving
from components.sizing.quota import compare, quota_needs, quota_of, zone_command
from components.sizing.ranking import curve, rank
from components.sizing.replicas import Objective
from components.sizing.report import verdict_json
from components.sizing.verdict import ModelPlan, verdict
from tests.unit.sizing.test_fit import replica


def test_141_gigabytes_from_s3_and_from_nvme() -> None:
    """Guide 1 says 45 s from S3 and 12 s from NVMe on g5.12xlarge; the first is likely, the second is out of reach."""
    streamed, cached = (
        cold_start("g5.12xlarge", 141.1, loader=loader).weights for loader in ("streamer", "nvmeCache")
    )
    assert (round(streamed.likely), round(cached.low)) == (46, 36)


def test_eight_disks_of_p4d_are_the_fastest_there_and_one_of_g5_is_not() -> None:
    """16 GB/s from p4d's RAID 0; on g5.12xlarge the network is faster than its single disk."""
    assert [
        fastest_loader(loader_rates(INSTANCE_TYPES[name])) for name in ("p4d.24xlarge", "g5.12xlarge")
    ] == [
        "nvmeCache",
        "streamer",
    ]


def test_a_cold_start_adds_up() -> None:
    """Node, image beside the copy to NVMe, weights, engine."""
    start = cold_start("p4d.24xlarge", 141.1, loader="nvmeCache")
    parts = (start.node, start.image + start.copy, start.weights, start.engine)
    assert round(start.total.likely, 3) == round(sum(span.likely for span in parts), 3)


def test_a_loader_that_is_not_there_is_named() -> None:
    """m6i has no NVMe disks."""
    with pytest.raises(
        KeyError, match=r"loader 'nvmeCache' is not possible on m6i\.xlarge; there are streamer, "
    ):
        cold_start("m6i.xlarge", 10, loader="nvmeCache")


def test_the_spot_notice_is_shorter_than_a_cold_start() -> None:
    """The gap that a reclaim leaves is said."""
    notes = cold_start("g5.12xlarge", 39.8).notes
    assert notes[-1] == "the spot notice is 120 s: a replacement is ready 40 s after the node is gone"


def test_a_month_from_floor_to_ceiling() -> None:
    """Two to six g5.12xlarge, spot or on demand: least is two at the best saving, most six on demand."""
    total, unknown = monthly((Nodes("gpu", ("g5.12xlarge",), 2, 6, spot=True),))
    assert (round(total.low), round(total.high), unknown) == (2484, 24843, ())


def test_a_type_without_a_price_is_said_not_guessed() -> None:
    """p5e has no on-demand price in the list; a stack may set its own."""
    group = Nodes("gpu", ("p5e.48xlarge",), 1, 1)
    assert monthly((group,))[1] == ("gpu",)
    assert round(monthly((group,), {"p5e.48xlarge": 50.0})[0].low) == 36500


def test_replicas_share_and_span_nodes() -> None:
    """Two replicas of four GPUs on a g5.48xlarge; one of sixteen on two p4d."""
    assert (
        nodes_for(3, 4, "g5.48xlarge"),
        nodes_for(3, 16, "p4d.24xlarge"),
        node_share(4, "g5.48xlarge"),
    ) == (2, 6, 0.5)


def test_a_saving_is_split_by_cause() -> None:
    """Half the hours at 40 percent of the price, of which a faster engine is a factor of 0.8."""
    split = saving(before_hours=1000, before_price=10.0, after_hours=500, after_price=4.0, engine_factor=0.8)
    assert (split.percent, split.price, split.use, split.engine) == (80.0, 0.4, 0.625, 0.8)


def test_quotas_at_the_ceiling() -> None:
    """Seven g5.12xlarge that may be spot or on-demand need 336 vCPUs under both quotas."""
    needs = quota_needs(
        (Nodes("g5", ("g5.12xlarge",), 0, 7, spot=True), Nodes("p4d", ("p4d.24xlarge",), 0, 2)), "us-west-2"
    )
    assert [(need.quota.code, need.capacity, need.vcpus) for need in needs] == [
        ("L-417A185B", "on-demand", 192),
        ("L-DB2E81BA", "on-demand", 336),
        ("L-3819A6DF", "spot", 336),
    ]


def test_p5_has_a_spot_quota_of_its_own() -> None:
    """P4 and P5 count apart on spot and together on demand."""
    codes = [quota_of(name, spot=True).code for name in ("p4d.24xlarge", "p5.48xlarge")]
    assert codes == ["L-7212CCBC", "L-C4BD4855"]


def test_commands_can_be_copied() -> None:
    """How to look, in the stack's region."""
    assert zone_command("p4d.24xlarge", "us-west-2").startswith(
        "aws ec2 describe-instance-type-offerings --region us-west-2 --location-type availability-zone "
    )


def test_an_account_is_compared_with_the_need() -> None:
    """Enough, not enough, and not known are three different things."""
    needs = quota_needs((Nodes("g5", ("g5.12xlarge",), 0, 7, spot=True),), "us-west-2")
    checks = compare(needs, {"L-DB2E81BA": 400.0}.get)
    assert [check.enough for check in checks] == [True, None]


AWQ = ModelPlan(
    "awq", MODELS["llama-3.1-70b"], ("g5.12xlarge",), tp=4, quantization="awq_marlin", max_num_seqs=32, max_replicas=6,
    min_replicas=2, spot=True, load=Load(1024, 256, rate=0.2), objective=Objective(5.0, 0.15),
)  # fmt: skip


def test_a_verdict_is_the_worst_of_the_pool() -> None:
    """A pool with g5.12xlarge and p4d: Karpenter may pick either, so one that does not fit decides."""
    given = verdict(ModelPlan("70b", MODELS["llama-3.1-70b"], ("p4d.24xlarge", "g5.12xlarge"), tp=4))
    assert given.fits == "does not fit"
    assert [remark.kind for remark in given.remarks if remark.setting == "engine"] == [
        "borderline",
        "does-not-fit",
    ]


def test_a_verdict_is_plain_json() -> None:
    """The report holds no infinity and no object."""
    data = json.loads(json.dumps(verdict_json(verdict(AWQ)), allow_nan=False))
    assert (data["fits"], data["instances"][0]["calibration"]["id"]) == ("fits", "gddr-pcie-2026-11")


def test_remarks_have_the_setting_they_are_about() -> None:
    """Too few replicas points at scaling.maxReplicas."""
    many = ModelPlan(
        **{**{f: getattr(AWQ, f) for f in AWQ.__slots__}, "load": Load(1024, 256, rate=2), "max_replicas": 3}
    )
    assert {remark.kind: remark.setting for remark in verdict(many).remarks}[
        "too-few-replicas"
    ] == "scaling.maxReplicas"


def test_latency_is_at_the_load_of_one_replica() -> None:
    """0.2 requests/s over at least two replicas: one of them sees 0.1."""
    assert verdict(AWQ).on[0].speed.output_tokens_per_s.floor == pytest.approx(25.6)


def test_four_verdicts_take_no_longer_than_a_preview_allows() -> None:
    """100 ms for four models, measured as processor time so that a busy machine does not matter."""
    started = time.process_time()
    for _ in range(4):
        verdict(AWQ)
    assert time.process_time() - started < 0.1


def test_instances_are_ranked_by_price() -> None:
    """Llama 3.1 8B at 5 requests/s within 50 ms: each option costs at least as much as the one before."""
    options = rank(
        replica("llama-3.1-8b", "H100", max_num_seqs=256), Load(512, 128, rate=5), Objective(itl_p99=0.05)
    )
    prices = [option.usd_per_month for option in options]
    assert prices == sorted(prices)
    assert options[0].instance_type == "g6e.xlarge"


def test_the_trade_off_can_be_drawn_as_text() -> None:
    """One mark per option, dollars up, milliseconds across."""
    load = Load(512, 128, rate=5)
    options = rank(replica("llama-3.1-8b", "H100", max_num_seqs=64), load, Objective(itl_p99=0.05))[:2]
    chart = text_chart([(option, curve(option, load)) for option in options])
    assert chart.splitlines()[-2].startswith("  1 ")
    assert "ms between tokens" in chart


@pytest.mark.parametrize(("text", "seconds"), [("40ms", 0.04), ("1s", 1.0), ("2min", 120.0), ("0.5", 0.5)])
def test_times(text: str, seconds: float) -> None:
    """As people write them."""
    assert parse_seconds(text) == seconds


def test_objectives() -> None:
    """Both promises in one option."""
    assert parse_objective("itl=40ms, ttft_p99=1s") == Objective(ttft_p99=1.0, itl_p99=0.04)


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        (
            parse_objective,
            "speed=1s",
            "objective 'speed=1s' is not NAME=TIME; names: itl, itl_p99, ttft, ttft_p99; ",
        ),
        (parse_seconds, "fast", "'fast' is not a time; write 40ms, 1s or 2min"),
        (known_instance, "g5.huge", "instance 'g5.huge' is not a known GPU type; known: g5.12xlarge, "),
        (known_instance, "m6i.large", "instance 'm6i.large' is not a known GPU type"),
        (known_gpu, "A10", "GPU 'A10' is not known; known: A10G, "),
        (model_named, "gpt-9", "model 'gpt-9' is not known; known: llama-3.1-8b, "),
        (model_named, "missing.json", "missing.json: No such file or directory"),
    ],
)
def test_words_that_are_not_understood(function: object, text: str, message: str) -> None:
    """Each is a sentence with what was given and what is allowed."""
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole sentence is compared below
        function(text)
    assert str(error.value).startswith(message)


def test_a_stacks_own_price_wins() -> None:
    """Prices can be overridden per stack."""
    assert hourly("g5.12xlarge", {"g5.12xlarge": 3.0}) == 3.0
