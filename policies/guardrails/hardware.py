"""EC2 instance types as the rules need them: every type there is, thin (see `data/refresh.py` for the source)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from components.facts.gpus import GPUS
from components.facts.instance_types import allocatable_memory_mib, reserved_cpu_millis

_TABLE = Path(__file__).parent / "data" / "ec2_types.json"
_NAME = re.compile(r"(?P<category>[a-z]+?)(?P<generation>\d+)?(?P<rest>[a-z0-9-]*)")

# Compute capability by EC2's own GPU names (NVIDIA, "CUDA GPU compute capability"); those in `GPUS` agree by a test.
CAPABILITIES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "M60": (5, 2), "V100": (7, 0), "T4": (7, 5), "T4g": (7, 5), "A100": (8, 0), "A10G": (8, 6), "L4": (8, 9),
        "L40S": (8, 9), "H100": (9, 0), "H200": (9, 0), "B200": (10, 0), "B300": (10, 3), "RTX PRO 4500": (12, 0),
        "RTX PRO Server 6000": (12, 0),
    }
)  # fmt: skip

# Families that were sold once, or that this table's source does not list: naming one is old, not a typing error.
RETIRED_FAMILIES = frozenset(
    {
        "c1",
        "cc2",
        "cg1",
        "cr1",
        "f1",
        "g2",
        "g3",
        "g3s",
        "g4ad",
        "hs1",
        "i2",
        "m1",
        "m2",
        "m3",
        "p2",
        "p3",
        "r3",
        "dl1",
    }
)


@dataclass(frozen=True, slots=True, eq=False)  # each type is one object of the table, so identity is equality
class Hardware:
    """One instance type. Memory in MiB, NVMe in GB; `gpu` is EC2's name of an NVIDIA GPU."""

    name: str
    vcpus: int
    memory_mib: int
    arch: str
    gpu: str | None
    gpus: int
    gpu_mib: int
    efa: int
    nvme_gb: int
    eni_pods: int

    @property
    def family(self) -> str:
        """Of "g5.12xlarge" the "g5"."""
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        """Of "g5.12xlarge" the "12xlarge"."""
        return self.name.partition(".")[2]

    @property
    def category(self) -> str:
        """Of "g5.12xlarge" the "g", of "p4d.24xlarge" the "p"."""
        return re.split(r"\d", self.family, maxsplit=1)[0].rstrip("-")

    @property
    def generation(self) -> int | None:
        """5 of "g5.12xlarge", 4 of "p4d.24xlarge"."""
        found = re.search(r"\d+", self.family)
        return int(found[0]) if found else None

    @property
    def capability(self) -> tuple[int, int] | None:
        """CUDA compute capability; None without an NVIDIA GPU."""
        return CAPABILITIES.get(self.gpu) if self.gpu else None

    @property
    def gpu_key(self) -> str | None:
        """Key of `components.facts.gpus.GPUS`, None for a GPU that is not there."""
        if self.gpu == "A100":
            return f"A100-{self.gpu_mib // 1024}"
        if self.gpu == "RTX PRO Server 6000":
            return "RTX-PRO-6000"
        return self.gpu if self.gpu in GPUS else None

    def allocatable_mib(self, max_pods: int | None = None) -> int:
        """Memory for pods; `max_pods` is the kubelet's setting, the ENI limit when unset (AL2023's rule)."""
        return allocatable_memory_mib(self.memory_mib // 1024, max_pods or self.eni_pods)

    @property
    def allocatable_cpu(self) -> float:
        """Cores for pods."""
        return (self.vcpus * 1000 - reserved_cpu_millis(self.vcpus)) / 1000


@cache
def ec2_types() -> Mapping[str, Hardware]:
    """Every instance type by name. Read on first use: an import costs nothing."""
    rows: dict[str, list[object]] = json.loads(_TABLE.read_text())
    return MappingProxyType({name: Hardware(name, *row) for name, row in rows.items()})  # type: ignore[arg-type]


@cache
def families() -> frozenset[str]:
    """Every family name, also of those that are no longer sold."""
    return frozenset(item.family for item in ec2_types().values()) | RETIRED_FAMILIES


@cache
def sizes() -> frozenset[str]:
    """Every size name, such as "xlarge", "12xlarge" and "metal"."""
    return frozenset(item.size for item in ec2_types().values())


def hardware(name: str) -> Hardware | None:
    """An instance type, or None where there is none of that name."""
    return ec2_types().get(name)


def hardware_of(names: Iterator[str] | tuple[str, ...]) -> tuple[Hardware, ...]:
    """The types that exist among these names."""
    return tuple(found for name in names if (found := hardware(name)) is not None)
