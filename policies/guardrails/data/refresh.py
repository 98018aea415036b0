"""Write `ec2_types.json`: every EC2 instance type, for rules about manifests that other people wrote.

`components/facts/instance_types.py` holds the few types that this platform starts, with prices and links. Manifests name
any type, and a rule must tell a type that does not exist from one that is merely unusual; hence this wide and thin table.

    pip download --no-deps --dest DIR moto==5.2.5
    python policies/guardrails/data/refresh.py DIR/moto-5.2.5-py3-none-any.whl

Columns: vCPUs, memory MiB, architecture, GPU, GPUs, MiB of one GPU, EFA interfaces, NVMe GB, pods by the ENI limit.
"""

import argparse
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("ec2_types.json")
MEMBER = "moto/ec2/resources/instance_types.json.gz"

# Types that EC2 still runs for those who have them but no longer describes everywhere (EC2 user guide, previous
# generation): a manifest that names one is old, not wrong.
OLDER = {
    "p3.2xlarge": (8, 62464, "amd64", "V100", 1, 16384, 0, 0, 58),
    "p3.8xlarge": (32, 249856, "amd64", "V100", 4, 16384, 0, 0, 234),
    "p3.16xlarge": (64, 499712, "amd64", "V100", 8, 16384, 0, 0, 234),
    "g3.4xlarge": (16, 124928, "amd64", "M60", 1, 8192, 0, 0, 234),
    "g3.8xlarge": (32, 249856, "amd64", "M60", 2, 8192, 0, 0, 234),
    "g3.16xlarge": (64, 499712, "amd64", "M60", 4, 8192, 0, 0, 737),
    "dl1.24xlarge": (96, 786432, "amd64", None, 0, 0, 4, 4000, 737),
}


def row(described: dict[str, Any]) -> tuple[object, ...]:
    """One type's columns."""
    gpus = [gpu for gpu in described.get("GpuInfo", {}).get("Gpus", []) if gpu["Manufacturer"] == "NVIDIA"]
    first: dict[str, Any] = gpus[0] if gpus else {"Name": None, "Count": 0, "MemoryInfo": {"SizeInMiB": 0}}
    network = described["NetworkInfo"]
    pods = network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
    card = network["NetworkCards"][0] if network.get("NetworkCards") else {}
    if card.get("MaximumNetworkInterfaces"):  # Karpenter counts the interfaces of the first card only
        pods = card["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2
    architecture = "arm64" if "arm64" in described["ProcessorInfo"]["SupportedArchitectures"] else "amd64"
    return (
        described["VCpuInfo"]["DefaultVCpus"], described["MemoryInfo"]["SizeInMiB"], architecture,
        first["Name"], first["Count"], first["MemoryInfo"]["SizeInMiB"],
        network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0), pods,
    )  # fmt: skip


def main() -> None:
    """Write the table, one line a type so that a change is a line in a review."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    with zipfile.ZipFile(parser.parse_args().wheel) as wheel:
        described: dict[str, dict[str, Any]] = json.loads(gzip.decompress(wheel.read(MEMBER)))
    table = {**OLDER, **{name: row(item) for name, item in described.items()}}
    lines = (f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table))
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
