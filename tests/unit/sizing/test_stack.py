"""A whole stack sized: what is counted, and what the change of a setting does to it."""

import pytest

from components.settings import PlatformSettings, stack_file
from components.sizing.stack import size_stack
from tests.conftest import ROOT


def _stack(name: str, old: str = "", new: str = "") -> PlatformSettings:
    text = (ROOT / f"Pulumi.{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    return stack_file.settings_of(stack_file.parse(text.replace(old, new, 1), f"Pulumi.{name}.yaml"))


def test_every_gpu_model_has_a_verdict() -> None:
    """Models of prod fit; the tiny model of local runs on CPU and has none."""
    assert [(v.name, v.fits) for v in size_stack(_stack("prod")).verdicts] == [
        ("llama-70b-awq", "fits"),
        ("llama-70b", "fits"),
        ("llama-8b", "fits"),
    ]
    assert size_stack(_stack("local")).verdicts == ()


def test_nodes_from_fewest_replicas_to_limits() -> None:
    """The least is what two replicas need; the most is what the limits of 32, 16 and 6 GPUs allow."""
    nodes = {group.name: (group.least, group.most) for group in size_stack(_stack("prod")).nodes}

    assert nodes["g5-12xl"] == (2, 8)
    assert nodes["p4d"] == (1, 2)
    assert nodes["g5-2xl"] == (2, 6)
    assert nodes["system nodes"] == (2, 4)


def test_a_replica_over_two_nodes_counts_both() -> None:
    """405B over two p4d: one to two replicas are two to four nodes."""
    nodes = {group.name: (group.least, group.most) for group in size_stack(_stack("multinode")).nodes}

    assert nodes["p4d-efa"] == (2, 4)


def test_the_pools_limit_caps_the_cost() -> None:
    """A lower limit lowers the ceiling by the nodes that it takes away: six g5.12xlarge at $5.672 an hour."""
    before = size_stack(_stack("prod")).usd_per_month.high
    after = size_stack(_stack("prod", "limits: {gpus: 32}", "limits: {gpus: 8}")).usd_per_month.high

    assert before - after == pytest.approx(6 * 5.672 * 730)


def test_a_price_of_the_stacks_own_wins() -> None:
    """A negotiated price of a p4d is taken in place of the table's."""
    own = _stack(
        "prod", "budget: {usdPerMonth: 80000}", "budget: {usdPerMonth: 80000, prices: {p4d.24xlarge: 10.0}}"
    )
    cheaper = size_stack(own).usd_per_month.high

    assert size_stack(_stack("prod")).usd_per_month.high - cheaper == pytest.approx(
        2 * (21.957642 - 10.0) * 730
    )


def test_quotas_count_both_kinds_of_capacity() -> None:
    """A pool that may buy spot or on-demand counts fully against both quotas: 7 x 48 + 6 x 8 vCPUs."""
    needs = {(q.quota.code, q.capacity): q.vcpus for q in size_stack(_stack("prod")).quotas}

    assert needs["L-DB2E81BA", "on-demand"] == 432
    assert needs["L-3819A6DF", "spot"] == 432
    assert needs["L-417A185B", "on-demand"] == 192


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("instanceTypes: [g5.12xlarge]", "instanceTypes: [m6i.xlarge]"),
        ("pool: g5-12xl", "pool: elsewhere"),
    ],
)
def test_what_cannot_be_sized_is_left_to_the_rules(old: str, new: str) -> None:
    """A pool without GPUs, or no pool: no verdict and no exception; a rule names the line."""
    assert "llama-70b-awq" not in {v.name for v in size_stack(_stack("prod", old, new)).verdicts}
