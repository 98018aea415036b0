"""Time of an all-reduce between the GPUs of one node: measured, by link, number of GPUs and message size.

Source: the communication tables of aiconfigurator-core 0.12.0 (Apache-2.0), vLLM's own all-reduce in a CUDA graph and
NCCL, the better of the two at each size; `refresh/links.py` prints the rows again and says why sizes are bytes there.

A system that was not measured borrows a row, and `TABLE_OF` says which: A10G, L4 and GeForce cards sit on PCIe 4 as
the measured L40S does (g5's own topology is known to be poorer, NVIDIA/nccl issue 1298, so this is optimistic there).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType

MESSAGE_BYTES = (2**13, 2**14, 2**16, 2**17, 2**18, 2**19, 2**20, 2**21, 2**22, 2**24, 2**25)
"""Message sizes of the rows below."""

ALL_REDUCE_MICROSECONDS: Mapping[tuple[str, int], tuple[float, ...]] = MappingProxyType({
    ("a100-nvlink", 2): (5.3, 5.3, 5.5, 5.7, 6.6, 8.0, 10.7, 15.2, 25.2, 126.3, 222.2),
    ("a100-nvlink", 4): (5.5, 6.0, 6.6, 7.8, 9.9, 14.5, 18.3, 26.0, 41.5, 182.5, 288.0),
    ("a100-nvlink", 8): (6.3, 6.5, 8.4, 11.4, 17.1, 18.9, 21.7, 27.9, 45.4, 214.2, 364.3),
    ("h100-nvlink", 2): (4.4, 4.5, 4.5, 4.8, 5.2, 6.3, 8.3, 12.4, 20.2, 81.4, 156.3),
    ("h100-nvlink", 4): (4.8, 4.8, 5.2, 5.8, 7.2, 11.4, 12.8, 18.6, 30.2, 98.8, 191.2),
    ("h100-nvlink", 8): (5.1, 5.3, 6.4, 7.9, 10.8, 12.0, 15.0, 19.4, 30.8, 92.4, 177.8),
    ("b200-nvlink", 2): (7.0, 7.1, 7.1, 7.4, 7.7, 9.4, 13.1, 25.3, 33.7, 57.4, 87.2),
    ("b200-nvlink", 4): (7.1, 7.4, 7.4, 8.1, 8.6, 18.0, 18.4, 23.8, 30.0, 68.0, 119.0),
    ("b200-nvlink", 8): (7.8, 8.1, 8.6, 9.4, 25.8, 26.1, 17.2, 20.7, 26.3, 63.2, 111.3),
    ("l40s-pcie4", 2): (5.7, 6.2, 9.9, 11.0, 18.1, 32.1, 60.2, 116.8, 221.5, 850.4, 1689.3),
    ("l40s-pcie4", 4): (13.0, 16.1, 32.2, 57.7, 109.7, 163.0, 268.3, 622.1, 1235.4, 4922.3, 9836.6),
    ("l40s-pcie4", 8): (27.6, 27.4, 72.9, 108.3, 207.1, 444.5, 582.6, 2079.9, 4014.5, 15805.9, 30062.3),
    ("rtx-pro-pcie5", 2): (4.5, 5.1, 6.2, 8.2, 11.1, 17.6, 30.1, 55.7, 106.0, 473.5, 930.6),
    ("rtx-pro-pcie5", 4): (13.5, 14.7, 16.9, 24.9, 41.0, 76.5, 86.1, 141.7, 245.4, 886.9, 1792.1),
    ("rtx-pro-pcie5", 8): (26.6, 27.0, 31.2, 47.8, 84.3, 156.1, 131.5, 221.2, 345.5, 1248.0, 2493.6),
})  # fmt: skip
"""Microseconds by (system, GPUs), one per message size."""

TABLE_OF: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("A100-40", "nvlink"): "a100-nvlink",
        ("A100-80", "nvlink"): "a100-nvlink",
        ("H100", "nvlink"): "h100-nvlink",
        ("H200", "nvlink"): "h100-nvlink",
        ("B200", "nvlink"): "b200-nvlink",
        ("RTX-PRO-6000", "pcie"): "rtx-pro-pcie5",
    }
)
"""Row to use for a GPU and a link; anything else on PCIe takes `l40s-pcie4`, on NVLink `a100-nvlink`."""

FASTEST_OF_LINK: Mapping[str, str] = MappingProxyType({"nvlink": "h100-nvlink", "pcie": "rtx-pro-pcie5"})
"""The fastest measured system of a kind of link: what a floor may assume of a system that was not measured."""


def all_reduce_seconds(system: str, gpus: int, message_bytes: float) -> float:
    """Time of one all-reduce, interpolated between measured sizes on a logarithmic scale; 0 for one GPU.

    Below the smallest size the time is that of the smallest, above the largest it grows with the size. A number of
    GPUs that was not measured takes the next larger row (3 takes 4), and more than 8 takes 8.
    """
    if gpus <= 1:
        return 0.0
    row = ALL_REDUCE_MICROSECONDS[system, next((n for n in (2, 4, 8) if n >= gpus), 8)]
    if message_bytes <= MESSAGE_BYTES[0]:
        return row[0] * 1e-6
    if message_bytes >= MESSAGE_BYTES[-1]:
        return row[-1] * 1e-6 * message_bytes / MESSAGE_BYTES[-1]
    above = bisect_right(MESSAGE_BYTES, message_bytes)
    low, high = MESSAGE_BYTES[above - 1], MESSAGE_BYTES[above]
    part = math.log(message_bytes / low) / math.log(high / low)
    return 1e-6 * math.exp((1 - part) * math.log(row[above - 1]) + part * math.log(row[above]))


def system_of(gpu: str, link: str | None) -> str:
    """Name of the row for GPUs of one kind on a link; no named link counts as PCIe, the slower one."""
    kind = link or "pcie"
    return TABLE_OF.get((gpu, kind), "a100-nvlink" if kind == "nvlink" else "l40s-pcie4")


def fastest_system(gpu: str, link: str | None) -> str:
    """The row that a floor uses: the faster of this GPU's own and the fastest measured of the link."""
    kind = link or "pcie"
    return TABLE_OF.get((gpu, kind), FASTEST_OF_LINK[kind])
