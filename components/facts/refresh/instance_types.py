"""Write `components/facts/instance_types.py`'s rows again.

Sources: an `aws ec2 describe-instance-types` answer (or the copy inside the Python package moto) and the price file
of the Go module github.com/aws/karpenter-provider-aws (`pkg/providers/pricing/zz_generated.pricing_aws.go`).

    python -m components.facts.refresh.instance_types --types TYPES.json[.gz] --prices PRICES.go

Prints the rows; the reviewer pastes them and reads the difference.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import Any

FAMILIES = ("g5", "g6", "g6e", "g7e", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200")
CPU_TYPES = (
    "m6i.large", "m6i.xlarge", "m6i.2xlarge", "m6i.4xlarge", "m7i.xlarge", "m7i.2xlarge", "m8i.xlarge", "c7i.xlarge",
)  # fmt: skip
NVLINK_FAMILIES = ("p4d", "p4de", "p5", "p5e", "p5en", "p6-b200")
_PRICE = re.compile(r'"([a-z0-9-]+\.[a-z0-9-]+)":\s*([0-9.]+)')
_GPU_KEYS = {
    ("A10G", 22_888): "A10G", ("L4", 22_888): "L4", ("L40S", 45_776): "L40S", ("A100", 40_960): "A100-40",
    ("A100", 81_920): "A100-80", ("H100", 81_920): "H100", ("H200", 144_384): "H200", ("B200", 183_359): "B200",
    ("RTX PRO Server 6000", 98_304): "RTX-PRO-6000",
}  # fmt: skip


def read_types(path: Path) -> dict[str, dict[str, Any]]:
    """Instance types by name, from a list or a mapping, gzipped or not."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    data = json.loads(text)
    if isinstance(data, dict) and "InstanceTypes" in data:
        data = data["InstanceTypes"]
    return {item["InstanceType"]: item for item in data} if isinstance(data, list) else data


def read_prices(path: Path) -> dict[str, float]:
    """US dollars an hour, on demand, by instance type, from Karpenter's generated Go file."""
    return {name: float(value) for name, value in _PRICE.findall(path.read_text())}


def gpu_of(described: dict[str, Any]) -> tuple[str | None, int, int | None]:
    """Key of GPUS, number of GPUs, memory of one in MiB."""
    gpus = described.get("GpuInfo", {}).get("Gpus", [])
    if not gpus:
        return None, 0, None
    memory = gpus[0]["MemoryInfo"]["SizeInMiB"]
    return _GPU_KEYS[(gpus[0]["Name"], memory)], gpus[0]["Count"], memory


def network_gbps(network: dict[str, Any]) -> float:
    """What the name of the performance class says; for "Up to" the baseline."""
    said = re.fullmatch(r"(?:(\d+)x )?(\d+) Gigabit", network["NetworkPerformance"])
    if said:
        return float(int(said[1] or 1) * int(said[2]))
    return float(sum(card["BaselineBandwidthInGbps"] for card in network["NetworkCards"]))


def fields(name: str, described: dict[str, Any], price: float | None) -> tuple[Any, ...]:
    """The values of one line of the table, in its order."""
    gpu, gpus, memory = gpu_of(described)
    family = name.split(".", maxsplit=1)[0]
    link = None if gpus <= 1 else "nvlink" if family in NVLINK_FAMILIES else "pcie"
    disks = described.get("InstanceStorageInfo", {})
    return (
        name, described["VCpuInfo"]["DefaultVCpus"], described["MemoryInfo"]["SizeInMiB"] // 1024, gpu, gpus, memory,
        link, disks.get("TotalSizeInGB", 0), sum(disk["Count"] for disk in disks.get("Disks", [])),
        network_gbps(described["NetworkInfo"]),
        described["EbsInfo"]["EbsOptimizedInfo"]["MaximumBandwidthInMbps"],
        described["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0), price,
    )  # fmt: skip


def row(values: tuple[Any, ...]) -> str:
    """One line of the table as Python."""
    return (
        "    ("
        + ", ".join(json.dumps(value) if isinstance(value, str) else repr(value) for value in values)
        + "),"
    )


def main() -> None:
    """Print the rows of every family and CPU type of the platform."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", type=Path, required=True)
    parser.add_argument("--prices", type=Path, required=True)
    arguments = parser.parse_args()
    types, prices = read_types(arguments.types), read_prices(arguments.prices)
    names = [name for name in types if name.split(".")[0] in FAMILIES] + list(CPU_TYPES)
    families = [*FAMILIES, "m6i", "m7i", "m8i", "c7i"]
    for name in sorted(
        names, key=lambda n: (families.index(n.split(".")[0]), types[n]["VCpuInfo"]["DefaultVCpus"])
    ):
        print(row(fields(name, types[name], prices.get(name))))


if __name__ == "__main__":
    main()
