"""Compare the memory of GPUs in `components/facts/gpus.py` with EC2's own answer.

    aws ec2 describe-instance-types > TYPES.json     (or the copy inside the Python package moto)
    python -m components.facts.refresh.gpus TYPES.json

Prints every difference. Peaks, bandwidth and usable memory come from datasheets and measurements and have no file that
could be read; each row names its source.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from components.facts.gpus import GPUS
from components.facts.refresh.instance_types import FAMILIES, gpu_of, read_types


def differences(types: dict[str, dict[str, Any]]) -> list[str]:
    """One line per GPU whose memory EC2 gives otherwise, over the families of the platform."""
    found = set()
    for name, described in types.items():
        if name.split(".", maxsplit=1)[0] in FAMILIES and "GpuInfo" in described:
            gpu, _, memory = gpu_of(described)
            if gpu is not None and GPUS[gpu].memory_mib != memory:
                found.add(f"{gpu}: table {GPUS[gpu].memory_mib} MiB, EC2 {memory} MiB ({name})")
    return sorted(found)


def main() -> None:
    """Print the differences; exit code 1 when there are any."""
    found = differences(read_types(Path(sys.argv[1])))
    print("\n".join(found) or "no differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
