"""The measured rows by which the product is judged, with stable ids; `RUNS` in runs.csv is what the fit may use.

Sources: AM = AccelMark (FreedomIntelligence/AccelMark, Apache-2.0, "verified" runs), ME = ML.ENERGY leaderboard,
IX = InferenceX-style runs and GA = gap-analysis runs, both inside aiconfigurator-core 0.12.0 (Apache-2.0), PS = philschmid/text-generation-inference-tests (Apache-2.0), LD =
llm-d-planner's empirical memory results, BL = inference-sim. Lengths that a source does not publish are assumptions
and marked so: AM is ShareGPT (input median 280, output median 310; at a rate the means 420 and 300 count), ME's
arena chats are taken as 300 in and 500 out, PS as 10 in and 50 out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One published result. `load` is "closed" (a number at a time), "rate" (a second) or "saturated".

    Measured values are None where the row has none. `in_runs` says that runs.csv already holds the row.
    """

    id: str
    gpu: str
    model: str
    engine: str
    value: float
    tp: int = 1
    link: str | None = None
    quantization: str = "none"
    load: str = "closed"
    input_tokens: int = 280
    output_tokens: int = 310
    ttft_ms: float | None = None
    itl_ms: float | None = None
    tokens_per_s: float | None = None
    utilization: float = 0.9
    batched_tokens: int | None = None
    sequences: int | None = None
    in_runs: bool = False
    source: str = "AM"
    note: str = ""


_A100X8 = {"gpu": "A100-40", "model": "llama-3.1-70b", "tp": 8, "link": "nvlink"}
_H100X4 = {"gpu": "H100", "model": "llama-3.1-70b", "tp": 4, "link": "nvlink", "source": "ME"}
_FP8X2 = {"gpu": "H100", "model": "llama-3.1-70b", "tp": 2, "link": "nvlink", "quantization": "fp8"}
_ME = {"engine": "vllm=0.11.1", "input_tokens": 300, "output_tokens": 500}
_IX = {"engine": "vllm=0.11", "source": "IX", "in_runs": True}
_TGI = {"engine": "tgi=1.0.3", "input_tokens": 10, "output_tokens": 50, "source": "PS"}
_AM7 = "vllm=0.7.3"

SPEED_ROWS = (
    Row("A1", engine=_AM7, value=1, ttft_ms=81.7, itl_ms=20.93, **_A100X8),
    Row("A2", engine=_AM7, value=100, tokens_per_s=1704, **_A100X8, note="offline: 100 requests at once, not steady"),
    Row("A3", engine=_AM7, value=5, load="rate", input_tokens=420, output_tokens=300, itl_ms=62.2, **_A100X8,
        note="its TTFT is a 99th percentile, 267 ms"),
    Row("A4", "A100-40", "llama-3.1-8b", _AM7, 1, ttft_ms=39.8, itl_ms=14.27),
    Row("A4s", "A100-40", "llama-3.1-8b", _AM7, 512, load="saturated", input_tokens=420, output_tokens=300,
        tokens_per_s=2416),
    Row("A5", "A100-40", "llama-3.1-8b", _AM7, 8, itl_ms=8000 / 491.9, tokens_per_s=491.9),
    Row("A5q", "A100-40", "llama-3.1-8b", _AM7, 8, quantization="w4a16", itl_ms=8000 / 813.5, tokens_per_s=813.5),
    Row("A6", "RTX-4090", "llama-3.1-70b", _AM7, 1, tp=8, link="pcie", ttft_ms=277, itl_ms=29.8),
    Row("A6s", "RTX-4090", "llama-3.1-70b", _AM7, 512, tp=8, link="pcie", load="saturated", input_tokens=420,
        output_tokens=300, tokens_per_s=441),
    Row("A7", "H100", "llama-3.1-8b", _AM7, 1, ttft_ms=20.1, itl_ms=7.74),
    Row("A7s", "H100", "llama-3.1-8b", _AM7, 512, load="saturated", input_tokens=420, output_tokens=300,
        tokens_per_s=5113),
    Row("A8", value=8, itl_ms=16.6, tokens_per_s=470, **_H100X4, **_ME),
    Row("A9", value=32, itl_ms=20.0, tokens_per_s=1487, **_H100X4, **_ME),
    Row("A10", value=128, itl_ms=27.9, tokens_per_s=3876, **_H100X4, **_ME),
    Row("A11", value=512, itl_ms=73.9, tokens_per_s=5921, **_H100X4, **_ME),
    Row("A12", gpu="H100", model="llama-3.1-8b", value=8, itl_ms=7.3, tokens_per_s=1070, source="ME", **_ME),
    Row("A13", gpu="H100", model="llama-3.1-8b", value=64, itl_ms=11.5, tokens_per_s=5147, source="ME", **_ME),
    Row("A14", gpu="H100", model="qwen3-32b", tp=2, link="nvlink", value=16, itl_ms=16.0, tokens_per_s=970,
        source="ME", **_ME),
    Row("A15", gpu="H100", model="llama-3.1-70b", tp=4, link="nvlink", quantization="fp8", value=16,
        input_tokens=1024, output_tokens=1024, ttft_ms=121.4, itl_ms=13.19, **_IX),
    Row("A16", value=8, input_tokens=1024, output_tokens=1024, ttft_ms=150.2, itl_ms=18.22, **_FP8X2, **_IX),
    Row("A17", gpu="H100", model="llama-3.1-70b", tp=4, link="nvlink", quantization="fp8", value=8,
        input_tokens=8192, output_tokens=1024, ttft_ms=582.9, itl_ms=15.77, **_IX),
    Row("A18", value=64, input_tokens=1024, output_tokens=8192, ttft_ms=30_787, itl_ms=41.68, **_FP8X2, **_IX,
        note="KV exhausted"),
    Row("A19", gpu="H200", model="llama-3.1-70b", quantization="fp8", value=16, input_tokens=1024,
        output_tokens=1024, ttft_ms=315.8, itl_ms=24.72, **_IX),
    Row("A20", gpu="H100", model="qwen3-32b", tp=4, link="nvlink", engine="vllm=0.12.0", value=32,
        input_tokens=1024, output_tokens=1024, ttft_ms=177.9, itl_ms=13.69, source="GA", in_runs=True),
    Row("A21", gpu="A100-40", model="llama-2-70b", tp=8, link="nvlink", value=1, itl_ms=41.3, tokens_per_s=24.5,
        **_TGI),
    Row("A22", gpu="A10G", model="llama-2-70b", tp=4, link="pcie", quantization="gptq", value=1, itl_ms=57.2,
        tokens_per_s=14.7, **_TGI),
    Row("A23", gpu="A10G", model="llama-2-7b", value=1, itl_ms=31.0, tokens_per_s=32.4, **_TGI),
    Row("A24", gpu="A10G", model="llama-2-13b", tp=4, link="pcie", value=10, itl_ms=43.5, tokens_per_s=226, **_TGI),
    Row("A25", gpu="RTX-3090Ti", model="llama-3.1-70b", tp=4, link="pcie", quantization="awq", engine="vllm=0.5.3",
        value=1, input_tokens=300, output_tokens=300, itl_ms=1000 / 46, tokens_per_s=46, source="vllm#6955"),
    Row("A25c", gpu="RTX-3090Ti", model="llama-3.1-70b", tp=4, link="pcie", quantization="awq", engine="vllm=0.5.3",
        value=5, input_tokens=300, output_tokens=300, itl_ms=5000 / 152, tokens_per_s=152, source="vllm#6955"),
    Row("A26", value=25, input_tokens=5000, output_tokens=500, ttft_ms=688.7, itl_ms=38.75, tokens_per_s=623,
        engine="nim=1.8", source="docs.nvidia.com/nim/benchmarking", **_FP8X2),
    Row("A27", "H100", "llama-3.1-8b", "vllm=0.21", 1, input_tokens=300, output_tokens=300, ttft_ms=14.0,
        itl_ms=6.48, source="yobitelcomm"),
    Row("A27b", "H100", "llama-3.1-8b", "vllm=0.21", 4, input_tokens=300, output_tokens=300, ttft_ms=22.8,
        itl_ms=6.59, source="yobitelcomm"),
    Row("A27c", "H100", "llama-3.1-8b", "vllm=0.21", 16, input_tokens=300, output_tokens=300, ttft_ms=41.7,
        itl_ms=10.94, source="yobitelcomm"),
    Row("A28", value=1024, load="saturated", input_tokens=1000, output_tokens=1000, tokens_per_s=4205,
        engine="tensorrt-llm=1.0", source="TensorRT-LLM perf-overview", **_FP8X2),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Measured KV cache of one replica in tokens; None means that the engine refused to start."""

    id: str
    gpu: str
    model: str
    tp: int
    quantization: str
    vllm: str
    max_model_len: int
    batched_tokens: int
    sequences: int
    kv_tokens: float | None
    source: str


_GIB = 2**30
MEMORY_ROWS = (
    MemoryRow("AM1", "H100", "llama-3.1-8b", 1, "none", "0.11", 16_384, 8_192, 1_024, 51.38 * _GIB / 131_072, "LD"),
    MemoryRow("AM2", "H100", "llama-3.1-70b", 2, "fp8", "0.11", 16_384, 8_192, 1_024, 64.0 * _GIB / 327_680, "LD"),
    MemoryRow("AM3", "H100", "qwen3-32b", 1, "none", "0.11", 16_384, 8_192, 1_024, 4.45 * _GIB / 262_144, "LD"),
    MemoryRow("AM4", "H100", "llama-3.1-70b", 1, "fp8", "0.11", 16_384, 8_192, 1_024, None, "LD"),
    MemoryRow("AM5", "H100", "llama-3.1-70b", 4, "none", "0.15.1", 8_192, 2_048, 128, 30_425 * 16, "BL"),
    MemoryRow("AM6", "H100", "qwen2.5-7b", 1, "none", "0.15.1", 8_192, 2_048, 128, 65_352 * 16, "BL"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ColdStartRow:
    """Measured start of an engine with the weights already on a volume."""

    id: str
    instance: str
    weights_gb: float
    loader: str
    volume_mib_per_s: int
    load_s: float
    ready_s: float


COLD_START_ROWS = (
    ColdStartRow("AC1", "g5.12xlarge", 15.0, "safetensors", 1_000, 47.99, 66.13),
    ColdStartRow("AC1s", "g5.12xlarge", 15.0, "streamer-volume", 1_000, 14.34, 35.08),
)
