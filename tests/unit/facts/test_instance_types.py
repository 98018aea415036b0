"""Instance types: against Karpenter's published table, against moto's copy of EC2's answers, and derived values."""

from __future__ import annotations

import importlib.util
from datetime import date
from pathlib import Path

import pytest

from components.facts.gpus import GPUS
from components.facts.instance_types import (
    INSTANCE_TYPES,
    allocatable_memory_mib,
    price_age_days,
    reserved_cpu_millis,
)
from components.facts.refresh import instance_types as refresh

FIELDS = ("vcpus", "gpu", "gpus", "nvme_gb", "network_gbps", "ebs_mbps", "efa_interfaces", "usd_per_hour")


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("g5.xlarge", (4, "A10G", 1, 250, 2.5, 3500, 0, 1.006)),
        ("g5.12xlarge", (48, "A10G", 4, 3800, 40, 16000, 1, 5.672)),
        ("g5.48xlarge", (192, "A10G", 8, 7600, 100, 19000, 1, 16.288)),
        ("g6.12xlarge", (48, "L4", 4, 3760, 40, 20000, 1, 4.6016)),
        ("g6e.12xlarge", (48, "L40S", 4, 3800, 100, 20000, 1, 10.49264)),
        ("g7e.24xlarge", (96, "RTX-PRO-6000", 4, 7600, 800, 50000, 2, 16.57216)),
        ("p4d.24xlarge", (96, "A100-40", 8, 8000, 400, 19000, 4, 21.957642)),
        ("p5.48xlarge", (192, "H100", 8, 30400, 3200, 80000, 32, 55.04)),
        ("p5en.48xlarge", (192, "H200", 8, 30400, 3200, 100000, 16, 63.296)),
    ],
)
def test_a_type_has_the_values_of_karpenters_published_table(
    name: str, published: tuple[object, ...]
) -> None:
    """Karpenter's instance-type page and price list are a source apart from EC2's own answer."""
    assert tuple(getattr(INSTANCE_TYPES[name], field) for field in FIELDS) == published


@pytest.mark.parametrize(
    ("memory_gib", "pods", "allocatable"),
    [(16, 58, 14162), (192, 737, 173400), (768, 345, 723299), (1152, 737, 1082712), (2048, 100, 1938410)],
)
def test_allocatable_memory_is_what_karpenter_publishes(memory_gib: int, pods: int, allocatable: int) -> None:
    """m6i.xlarge, g5.12xlarge, g5.48xlarge, p4d.24xlarge and p5.48xlarge at their ENI pod limits."""
    assert allocatable_memory_mib(memory_gib, pods) == allocatable


def test_max_pods_of_110_gives_memory_back() -> None:
    """On Bottlerocket with maxPods 110 a g5.12xlarge has 6.7 GiB more for pods than at its ENI limit."""
    assert INSTANCE_TYPES["g5.12xlarge"].allocatable_memory_mib == 180_297


def test_reserved_cpu_of_four_vcpus() -> None:
    """m6i.xlarge: Karpenter publishes 3920 allocatable millis, which is 80 reserved."""
    assert reserved_cpu_millis(4) == 80


def test_every_gpu_of_the_table_is_known() -> None:
    """Each instance type's GPU is a row of GPUS, with the same memory."""
    for instance in INSTANCE_TYPES.values():
        if instance.gpu is not None:
            assert GPUS[instance.gpu].memory_mib == instance.gpu_memory_mib, instance.name


def test_a_link_is_named_exactly_where_gpus_are_several() -> None:
    """A single GPU has no link; several have one of two kinds."""
    for instance in INSTANCE_TYPES.values():
        assert (instance.gpu_link in ("nvlink", "pcie")) == (instance.gpus > 1), instance.name


def test_spot_is_a_range_over_regions_with_the_worst_class() -> None:
    """p4d saves 34 to 67 percent and is in the worst interruption class somewhere."""
    p4d = INSTANCE_TYPES["p4d.24xlarge"]
    assert (p4d.spot_saving_percent, p4d.interruption_class) == ((34, 67), 4)


def test_spot_that_was_not_recorded_is_none() -> None:
    """No number is invented for a type whose advisor row was not read."""
    assert INSTANCE_TYPES["g6e.12xlarge"].spot_saving_percent is None


def test_quota_families() -> None:
    """G types, p types and the rest count against three different quotas."""
    names = ("g6e.12xlarge", "p4d.24xlarge", "m6i.xlarge")
    assert [INSTANCE_TYPES[name].quota_family for name in names] == ["G and VT", "P", "Standard"]


def test_price_age() -> None:
    """The age of the table is counted from the day of its list."""
    assert price_age_days(date(2026, 11, 30)) == 147


@pytest.mark.skipif(importlib.util.find_spec("moto") is None, reason="moto is not installed (a test extra)")
def test_the_table_agrees_with_motos_copy_of_ec2() -> None:
    """Every row but its price is what the refresh script reads out of moto's instance data."""
    package = importlib.util.find_spec("moto")
    assert package is not None
    resources = Path(str(package.origin)).parent / "ec2" / "resources"
    described = refresh.read_types(resources / "instance_types.json.gz")
    for name, instance in INSTANCE_TYPES.items():
        ours = (
            name, instance.vcpus, instance.memory_gib, instance.gpu, instance.gpus, instance.gpu_memory_mib,
            instance.gpu_link, instance.nvme_gb, instance.nvme_disks, instance.network_gbps, instance.ebs_mbps,
            instance.efa_interfaces, None,
        )  # fmt: skip
        assert refresh.fields(name, described[name], None) == ours
