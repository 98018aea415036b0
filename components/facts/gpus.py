"""GPUs: what the driver offers to an engine, and the peaks that no engine can exceed.

Peaks are dense (without the sparsity of two in four) and are upper bounds: they carry the physical floors of
`components.sizing.speed`, so where two sources differ the higher value stands here and `note` says so.

`memory_mib` is what EC2 reports for one GPU. `usable_memory_mib` is the total that the CUDA runtime reports, which
is what vLLM multiplies by `gpu_memory_utilization`: measured where `note` says so, otherwise 1.5 % less than the
memory of the card (the difference seen on the measured ones is 1.0 to 1.6 %).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MARGIN_OF_RUNTIME = 0.985
"""Usable part of a card's memory where it was not measured; see the module docstring."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Memory in MiB, bandwidth in GB/s (10^9 bytes), peaks in TFLOPS or TOPS, all per GPU.

    `fp8_tflops` is None where the tensor cores know no FP8 (compute capability below 8.9): FP8 weights then only
    save memory. `ray_accelerator_type` is the name that Ray finds by itself on a node, and None where Ray has no
    constant for the GPU. `karpenter_gpu_name` is the value of `karpenter.k8s.aws/instance-gpu-name`, None for a GPU
    that no EC2 instance has. `usual_bf16_tflops` is the peak that engines meet where it differs from the highest one:
    with 32-bit accumulation, or as the cloud names it.
    """

    name: str
    compute_capability: tuple[int, int]
    memory_mib: int
    usable_memory_mib: int
    bf16_tflops: float
    fp8_tflops: float | None
    int8_tops: float
    memory_gb_per_s: float
    ray_accelerator_type: str | None
    karpenter_gpu_name: str | None
    source: str
    note: str = ""
    usual_bf16_tflops: float | None = None

    @property
    def usable_memory_bytes(self) -> int:
        """The total that `gpu_memory_utilization` is a part of."""
        return self.usable_memory_mib * 2**20


def _usable(memory_mib: int) -> int:
    return int(memory_mib * MARGIN_OF_RUNTIME)


_EC2 = "EC2 DescribeInstanceTypes (memory)"
_GEFORCE = "NVIDIA GeForce / RTX product pages (memory, bandwidth, peaks)"

_ROWS = (
    Gpu("A10G", (8, 6), 22_888, _usable(22_888), 125.0, None, 250.0, 600.0, "A10G", "a10g",
        f"{_EC2}; NVIDIA A10 datasheet (peaks, bandwidth)",
        "AWS names 70 TFLOPS BF16 for the A10G; the A10's 125 stands here because a floor needs the higher one",
        usual_bf16_tflops=70.0),
    Gpu("L4", (8, 9), 22_888, _usable(22_888), 121.0, 242.0, 242.0, 300.0, "L4", "l4",
        f"{_EC2}; NVIDIA L4 datasheet"),
    Gpu("L40S", (8, 9), 45_776, _usable(45_776), 362.0, 733.0, 733.0, 864.0, "L40S", "l40s",
        f"{_EC2}; NVIDIA L40S datasheet"),
    Gpu("A100-40", (8, 0), 40_960, _usable(40_960), 312.0, None, 624.0, 1_555.0, "A100", "a100",
        f"{_EC2}; NVIDIA A100 datasheet",
        "Ray finds A100 by itself; A100-40G must be added to the node as a resource by hand (Ray, accelerators.py)"),
    Gpu("A100-80", (8, 0), 81_920, _usable(81_920), 312.0, None, 624.0, 2_039.0, "A100", "a100",
        f"{_EC2}; NVIDIA A100 datasheet (SXM)",
        "Ray finds A100 by itself; A100-80G must be added to the node as a resource by hand (Ray, accelerators.py)"),
    Gpu("H100", (9, 0), 81_920, 81_080, 989.0, 1_979.0, 1_979.0, 3_350.0, "H100", "h100",
        f"{_EC2}; NVIDIA H100 datasheet (SXM)",
        "usable memory measured: 79.18 GiB, llm-d-planner empirical-vllm-memory-results"),
    Gpu("H200", (9, 0), 144_384, _usable(144_384), 989.0, 1_979.0, 1_979.0, 4_800.0, "H200", "h200",
        f"{_EC2}; NVIDIA H200 datasheet (SXM)"),
    Gpu("B200", (10, 0), 183_359, _usable(183_359), 2_250.0, 4_500.0, 4_500.0, 8_000.0, "B200", "b200",
        f"{_EC2}; NVIDIA DGX B200 datasheet"),
    Gpu("RTX-PRO-6000", (12, 0), 98_304, 97_887, 504.0, 1_008.0, 1_008.0, 1_792.0, None,
        "rtx-pro-server-6000", f"{_EC2}; NVIDIA RTX PRO 6000 Blackwell Server Edition datasheet",
        "usable memory as nvidia-smi reports it (aiconfigurator-core 0.12.0, rtx_pro_6000_server.yaml); "
        "no constant in the Ray source that was read"),
    Gpu("RTX-4090", (8, 9), 24_564, _usable(24_564), 330.0, 661.0, 661.0, 1_008.0, None, None, _GEFORCE,
        "peak with 16-bit accumulation; half of it with 32-bit", usual_bf16_tflops=165.0),
    Gpu("RTX-A6000", (8, 6), 49_140, _usable(49_140), 155.0, None, 310.0, 768.0, None, None, _GEFORCE),
    Gpu("RTX-3090Ti", (8, 6), 24_564, _usable(24_564), 160.0, None, 320.0, 1_008.0, None, None, _GEFORCE,
        "peak with 16-bit accumulation; half of it with 32-bit", usual_bf16_tflops=80.0),
)  # fmt: skip

GPUS: Mapping[str, Gpu] = MappingProxyType({gpu.name: gpu for gpu in _ROWS})
"""Every GPU by the name that settings and `llmp size --gpu` use."""
