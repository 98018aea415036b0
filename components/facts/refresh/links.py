"""Print `components/facts/links.py`'s rows again: measured all-reduce times.

Source: the tables inside the wheel of aiconfigurator-core 0.12.0 (Apache-2.0), `systems/data/*/comm`. Their
`message_size` counts 16-bit elements, not bytes (its own `perf_database.py` factors an element count, and read as
bytes the 32 MiB rows would need half the bandwidth that NCCL reaches on the same machines), so bytes are twice that.

    pip download --no-deps --dest DIR aiconfigurator-core==0.12.0 && unzip DIR/*.whl -d DIR
    python -m components.facts.refresh.links DIR/aiconfigurator_core/systems/data     # needs pyarrow
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MIB = 2**20
BYTES = (2**13, 2**14, 2**16, 2**17, 2**18, 2**19, MIB, 2 * MIB, 4 * MIB, 16 * MIB, 32 * MIB)
# Name of the table, folder, version of the vLLM table, version of the NCCL table or None.
SYSTEMS = (
    ("a100-nvlink", "a100_sxm", "0.14.0", "2.27.3"),
    ("h100-nvlink", "h100_sxm", "0.24.0", None),
    ("b200-nvlink", "b200_sxm", "0.24.0", None),
    ("l40s-pcie4", "l40s", "0.14.0", "2.27.3"),
    ("rtx-pro-pcie5", "rtx_pro_6000_server", "0.24.0", "2.29.2"),
)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows of a Parquet file; pyarrow is only needed here."""
    rows: list[dict[str, Any]] = import_module("pyarrow.parquet").read_table(path).to_pylist()
    return rows


def microseconds(rows: list[dict[str, Any]], gpus: int, size: int) -> float | None:
    """Best time for a message of `size` bytes between `gpus` GPUs; None where it was not measured."""
    times = [
        row["latency"] * 1000
        for row in rows
        if row["num_gpus"] == gpus and row["message_size"] * 2 == size and row["op_name"] == "all_reduce"
        and row.get("backend") != "vllm_eager" and row.get("nccl_dtype", "half") in ("half", "bfloat16")
    ]  # fmt: skip
    return round(min(times), 1) if times else None


def main() -> None:
    """Print one row per system and number of GPUs."""
    root = Path(sys.argv[1])
    for name, folder, vllm, nccl in SYSTEMS:
        rows = rows_of(root / folder / "comm" / "vllm" / vllm / "custom_allreduce_perf.parquet")
        if nccl:
            rows += rows_of(root / folder / "comm" / "nccl" / nccl / "nccl_perf.parquet")
        for gpus in (2, 4, 8):
            print(f'    ("{name}", {gpus}): {tuple(microseconds(rows, gpus, size) for size in BYTES)},')


if __name__ == "__main__":
    main()
