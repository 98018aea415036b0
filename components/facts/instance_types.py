"""EC2 instance types that the platform may start: size, GPUs, links, disks, network, price, spot.

Sources: sizes, disks, network, EBS and EFA are EC2's DescribeInstanceTypes answers (the copy inside moto 5.2.5),
checked in tests against Karpenter's published instance table; prices are the generated list of Karpenter 1.14.1,
us-east-1, on demand. Spot savings and interruption classes are AWS Spot Advisor's (2025-06-28, spotinfo 05e9331).
`refresh/instance_types.py` prints the rows again.

Deliberately absent: spot prices by zone (they change by the hour), reserved and savings-plan rates (no source that
can be read offline; a stack may set its own price), and us-west-2 or eu-west-1 on-demand prices (the list that was
read holds us-east-1 only).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType

PRICE_REGION = "us-east-1"
PRICE_DATE = date(2026, 7, 6)
"""The day on which Karpenter 1.14.1's list was generated."""

MAX_PODS = 110
"""`maxPods` of the platform's nodes; Bottlerocket reserves memory for this number, not for the ENI limit."""

_SOURCE = "EC2 DescribeInstanceTypes (moto 5.2.5); price: karpenter-provider-aws 1.14.1"


@dataclass(frozen=True, slots=True)
class Spot:
    """AWS Spot Advisor in one region: saving against on-demand in percent, interruption class 0 to 4.

    Classes are monthly interruption rates: 0 below 5 %, 1 to 10 %, 2 to 15 %, 3 to 20 %, 4 above 20 %.
    """

    region: str
    saving_percent: int
    interruption_class: int


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type.

    Memory in GiB, GPU memory in MiB per GPU, NVMe in GB (10^9 bytes) over all disks, network in Gbit/s (the baseline
    where EC2 says "up to"), EBS in Mbit/s (the maximum). `gpu` is a key of `GPUS`; `gpu_link` says how GPUs of one
    node reach each other: "nvlink", "pcie" or None for a single GPU. `usd_per_hour` is None where the list has no
    on-demand price (p5e is sold as capacity blocks only). `spot` is empty where Spot Advisor was not recorded.
    """

    name: str
    vcpus: int
    memory_gib: int
    gpu: str | None
    gpus: int
    gpu_memory_mib: int | None
    gpu_link: str | None
    nvme_gb: int
    nvme_disks: int
    network_gbps: float
    ebs_mbps: int
    efa_interfaces: int
    usd_per_hour: float | None
    spot: tuple[Spot, ...] = ()
    price_region: str = PRICE_REGION
    price_date: date = PRICE_DATE
    source: str = _SOURCE

    @property
    def family(self) -> str:
        """The part of the name before the point: g5 of g5.12xlarge."""
        return self.name.split(".")[0]

    @property
    def quota_family(self) -> str:
        """Name of the EC2 vCPU quota that this type counts against."""
        return _QUOTA_FAMILIES.get(self.family[0], "Standard")

    @property
    def allocatable_memory_mib(self) -> int:
        """Memory that pods can have on the platform's nodes (`MAX_PODS`)."""
        return allocatable_memory_mib(self.memory_gib, MAX_PODS)

    @property
    def allocatable_cpu_millis(self) -> int:
        """CPU that pods can have, in thousandths of a vCPU."""
        return self.vcpus * 1000 - reserved_cpu_millis(self.vcpus)

    @property
    def spot_saving_percent(self) -> tuple[int, int] | None:
        """Least and most saving over the recorded regions; None where nothing was recorded."""
        savings = [record.saving_percent for record in self.spot]
        return (min(savings), max(savings)) if savings else None

    @property
    def interruption_class(self) -> int | None:
        """Worst interruption class over the recorded regions; None where nothing was recorded."""
        return max((record.interruption_class for record in self.spot), default=None)


def allocatable_memory_mib(memory_gib: int, max_pods: int) -> int:
    """Karpenter's memory model: 7.5 % for the hypervisor, 255 MiB + 11 MiB a pod reserved, 100 MiB eviction.

    `max_pods` is `kubelet.maxPods` on Bottlerocket and the ENI limit on AL2023 (karpenter-provider-aws, types.go).
    """
    return int(memory_gib * 1024 * (1 - 0.075)) - (255 + 11 * max_pods) - 100


def reserved_cpu_millis(vcpus: int) -> int:
    """CPU that Karpenter reserves for the kubelet: 6 %, 1 %, 0.5 %, 0.5 % of the first four, 0.25 % of the rest."""
    steps = (60.0, 10.0, 5.0, 5.0)
    return int(sum(steps[:vcpus]) + 2.5 * max(0, vcpus - len(steps)))


def price_age_days(today: date) -> int:
    """Days since the prices of this table were generated; a guardrail says when that is long ago."""
    return (today - PRICE_DATE).days


_QUOTA_FAMILIES = {"g": "G and VT", "p": "P"}

_SPOT: Mapping[str, tuple[Spot, ...]] = {
    "g5.12xlarge": (
        Spot("us-east-1", 58, 4), Spot("us-east-2", 63, 4), Spot("us-west-2", 70, 4), Spot("eu-west-1", 56, 4),
    ),
    "p4d.24xlarge": (
        Spot("us-east-1", 67, 2), Spot("us-east-2", 66, 1), Spot("us-west-2", 53, 4), Spot("eu-west-1", 34, 4),
    ),
    "p5.48xlarge": (Spot("us-east-1", 52, 4), Spot("us-east-2", 61, 1), Spot("us-west-2", 46, 1)),
}  # fmt: skip

# name, vCPU, GiB, GPU, GPUs, MiB each, link, NVMe GB, disks, Gbit/s, EBS Mbit/s, EFA, $/h
_ROWS: tuple[
    tuple[str, int, int, str | None, int, int | None, str | None, int, int, float, int, int, float | None],
    ...,
] = (
    ("g5.xlarge", 4, 16, "A10G", 1, 22888, None, 250, 1, 2.5, 3500, 0, 1.006),
    ("g5.2xlarge", 8, 32, "A10G", 1, 22888, None, 450, 1, 5.0, 3500, 0, 1.212),
    ("g5.4xlarge", 16, 64, "A10G", 1, 22888, None, 600, 1, 10.0, 4750, 0, 1.624),
    ("g5.8xlarge", 32, 128, "A10G", 1, 22888, None, 900, 1, 25.0, 16000, 1, 2.448),
    ("g5.12xlarge", 48, 192, "A10G", 4, 22888, "pcie", 3800, 1, 40.0, 16000, 1, 5.672),
    ("g5.16xlarge", 64, 256, "A10G", 1, 22888, None, 1900, 1, 25.0, 16000, 1, 4.096),
    ("g5.24xlarge", 96, 384, "A10G", 4, 22888, "pcie", 3800, 1, 50.0, 19000, 1, 8.144),
    ("g5.48xlarge", 192, 768, "A10G", 8, 22888, "pcie", 7600, 2, 100.0, 19000, 1, 16.288),
    ("g6.xlarge", 4, 16, "L4", 1, 22888, None, 250, 1, 2.5, 5000, 0, 0.8048),
    ("g6.2xlarge", 8, 32, "L4", 1, 22888, None, 450, 1, 5.0, 5000, 0, 0.9776),
    ("g6.4xlarge", 16, 64, "L4", 1, 22888, None, 600, 1, 10.0, 8000, 0, 1.3232),
    ("g6.8xlarge", 32, 128, "L4", 1, 22888, None, 900, 2, 25.0, 16000, 1, 2.0144),
    ("g6.12xlarge", 48, 192, "L4", 4, 22888, "pcie", 3760, 4, 40.0, 20000, 1, 4.6016),
    ("g6.16xlarge", 64, 256, "L4", 1, 22888, None, 1880, 2, 25.0, 20000, 1, 3.3968),
    ("g6.24xlarge", 96, 384, "L4", 4, 22888, "pcie", 3760, 4, 50.0, 30000, 1, 6.6752),
    ("g6.48xlarge", 192, 768, "L4", 8, 22888, "pcie", 7520, 8, 100.0, 60000, 1, 13.3504),
    ("g6e.xlarge", 4, 32, "L40S", 1, 45776, None, 250, 1, 2.5, 5000, 0, 1.861),
    ("g6e.2xlarge", 8, 64, "L40S", 1, 45776, None, 450, 1, 5.0, 5000, 0, 2.24208),
    ("g6e.4xlarge", 16, 128, "L40S", 1, 45776, None, 600, 1, 20.0, 8000, 0, 3.00424),
    ("g6e.8xlarge", 32, 256, "L40S", 1, 45776, None, 900, 2, 25.0, 16000, 1, 4.52856),
    ("g6e.12xlarge", 48, 384, "L40S", 4, 45776, "pcie", 3800, 2, 100.0, 20000, 1, 10.49264),
    ("g6e.16xlarge", 64, 512, "L40S", 1, 45776, None, 1900, 2, 35.0, 20000, 1, 7.57719),
    ("g6e.24xlarge", 96, 768, "L40S", 4, 45776, "pcie", 3800, 2, 200.0, 30000, 2, 15.06559),
    ("g6e.48xlarge", 192, 1536, "L40S", 8, 45776, "pcie", 7600, 4, 400.0, 60000, 4, 30.13118),
    ("g7e.2xlarge", 8, 64, "RTX-PRO-6000", 1, 98304, None, 1900, 1, 50.0, 5000, 0, 3.36312),
    ("g7e.4xlarge", 16, 128, "RTX-PRO-6000", 1, 98304, None, 1900, 1, 50.0, 8000, 0, 3.99816),
    ("g7e.8xlarge", 32, 256, "RTX-PRO-6000", 1, 98304, None, 1900, 1, 100.0, 16000, 1, 5.26824),
    ("g7e.12xlarge", 48, 512, "RTX-PRO-6000", 2, 98304, "pcie", 3800, 1, 400.0, 25000, 1, 8.28608),
    ("g7e.24xlarge", 96, 1024, "RTX-PRO-6000", 4, 98304, "pcie", 7600, 2, 800.0, 50000, 2, 16.57216),
    ("g7e.48xlarge", 192, 2048, "RTX-PRO-6000", 8, 98304, "pcie", 15200, 4, 1600.0, 100000, 4, 33.14432),
    ("p4d.24xlarge", 96, 1152, "A100-40", 8, 40960, "nvlink", 8000, 8, 400.0, 19000, 4, 21.957642),
    ("p4de.24xlarge", 96, 1152, "A100-80", 8, 81920, "nvlink", 8000, 8, 400.0, 19000, 4, 27.44705),
    ("p5.4xlarge", 16, 256, "H100", 1, 81920, None, 3800, 1, 100.0, 10000, 1, 6.88),
    ("p5.48xlarge", 192, 2048, "H100", 8, 81920, "nvlink", 30400, 8, 3200.0, 80000, 32, 55.04),
    ("p5e.48xlarge", 192, 2048, "H200", 8, 144384, "nvlink", 30400, 8, 3200.0, 80000, 32, None),
    ("p5en.48xlarge", 192, 2048, "H200", 8, 144384, "nvlink", 30400, 8, 3200.0, 100000, 16, 63.296),
    ("p6-b200.48xlarge", 192, 2048, "B200", 8, 183359, "nvlink", 30400, 8, 3200.0, 100000, 8, 113.9328),
    ("m6i.large", 2, 8, None, 0, None, None, 0, 0, 0.781, 10000, 0, 0.096),
    ("m6i.xlarge", 4, 16, None, 0, None, None, 0, 0, 1.562, 10000, 0, 0.192),
    ("m6i.2xlarge", 8, 32, None, 0, None, None, 0, 0, 3.125, 10000, 0, 0.384),
    ("m6i.4xlarge", 16, 64, None, 0, None, None, 0, 0, 6.25, 10000, 0, 0.768),
    ("m7i.xlarge", 4, 16, None, 0, None, None, 0, 0, 1.562, 10000, 0, 0.2016),
    ("m7i.2xlarge", 8, 32, None, 0, None, None, 0, 0, 3.125, 10000, 0, 0.4032),
    ("m8i.xlarge", 4, 16, None, 0, None, None, 0, 0, 1.875, 10000, 0, 0.21168),
    ("c7i.xlarge", 4, 8, None, 0, None, None, 0, 0, 1.562, 10000, 0, 0.1785),
)

INSTANCE_TYPES: Mapping[str, InstanceType] = MappingProxyType(
    {row[0]: InstanceType(*row, spot=_SPOT.get(row[0], ())) for row in _ROWS}
)
"""Every instance type by name."""
