"""Rows and runs as deployments and loads of the product."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from components.facts.gpus import GPUS
from components.facts.models import MODELS
from components.sizing.deployment import Deployment, Engine, Load, default_batch
from tests.ground_truth.rows import MEMORY_ROWS, SPEED_ROWS, MemoryRow, Row

RUNS = Path(__file__).with_name("runs.csv")
QUEUED_MS = 5_000  # a time to first token above this means that requests waited for a place


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured point: what ran, under which load, and its times in milliseconds (None: not published)."""

    id: str
    deployment: Deployment
    load: Load
    ttft_ms: float | None
    itl_ms: float | None
    tokens_per_s: float | None = None

    @property
    def system(self) -> str:
        """The kind of GPU."""
        return self.deployment.gpu.name


def deployment_of(row: Row) -> Deployment:
    """The deployment of a row; where the source names no batch limits they are the engine's own defaults."""
    gpu = GPUS[row.gpu]
    tokens, sequences = default_batch(gpu)
    return Deployment(
        MODELS[row.model], gpu, tp=row.tp, link=row.link, quantization=row.quantization, max_model_len=4096,
        max_num_seqs=row.sequences or max(sequences, 512), max_num_batched_tokens=row.batched_tokens or tokens,
        gpu_memory_utilization=row.utilization, engine=Engine.parse(row.engine),
    )  # fmt: skip


def load_of(row: Row) -> Load:
    """The load of a row."""
    lengths = {"input_tokens": row.input_tokens, "output_tokens": row.output_tokens}
    if row.load == "rate":
        return Load(rate=row.value, **lengths)
    return Load(concurrency=row.value, **lengths)


def points() -> dict[str, Measured]:
    """Every speed row by its id."""
    return {
        row.id: Measured(row.id, deployment_of(row), load_of(row), row.ttft_ms, row.itl_ms, row.tokens_per_s)
        for row in SPEED_ROWS
    }


def memory_deployment(row: MemoryRow) -> Deployment:
    """The deployment of a memory row."""
    return Deployment(
        MODELS[row.model], GPUS[row.gpu], tp=row.tp, link="nvlink" if row.tp > 1 else None,
        quantization=row.quantization, max_model_len=row.max_model_len, max_num_seqs=row.sequences,
        max_num_batched_tokens=row.batched_tokens, gpu_memory_utilization=0.9, engine=Engine("vllm", row.vllm),
    )  # fmt: skip


def runs() -> list[Measured]:
    """Every run of runs.csv. Their servers ran with vLLM's default limits and 0.9 of the memory.

    Where the source leaves the version blank (runs of October 2025) 0.11 stands in the file, the release of that month.
    """
    with RUNS.open() as file:
        return [_run(number, line) for number, line in enumerate(csv.DictReader(file))]


def _run(number: int, line: dict[str, str]) -> Measured:
    gpu, tp = GPUS[line["gpu"]], int(line["tp"])
    tokens, sequences = default_batch(gpu)
    lengths = {"input_tokens": int(line["input_tokens"]), "output_tokens": int(line["output_tokens"])}
    value = float(line["value"])
    return Measured(
        f"{line['source']}{number}",
        Deployment(
            MODELS[line["model"]], gpu, tp=tp, link=line["link"] if tp > 1 else None,
            quantization=line["quantization"], max_model_len=sum(lengths.values()), max_num_seqs=sequences,
            max_num_batched_tokens=tokens, gpu_memory_utilization=0.9, engine=Engine("vllm", line["vllm"]),
        ),
        Load(rate=value, **lengths) if line["load"] == "rate" else Load(concurrency=value, **lengths),
        float(line["ttft_ms"]), float(line["itl_ms"]),
    )  # fmt: skip


def kv_rows() -> tuple[MemoryRow, ...]:
    """The memory rows."""
    return MEMORY_ROWS
