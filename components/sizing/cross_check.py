"""An independent second opinion: aiconfigurator's measured tables beside our estimate, where both have data.

Optional: `pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0` (670 MB, x86-64 Linux). Upstream moved to
`aisimulate`, which fetches from an index of its own, so the version is pinned. It has no A10G, no A100 with 40 GB, and
nothing measured on L4.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from components.sizing.deployment import Deployment, Load

SYSTEMS: Mapping[str, str] = MappingProxyType(
    {"A100-80": "a100_sxm", "H100": "h100_sxm", "H200": "h200_sxm", "B200": "b200_sxm", "L40S": "l40s"}
)
MODELS: Mapping[str, str] = MappingProxyType(
    {
        "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
        "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
        "llama-3.1-405b": "meta-llama/Meta-Llama-3.1-405B",
        "mixtral-8x7b": "mistralai/Mixtral-8x7B-v0.1",
        "mixtral-8x22b": "mistralai/Mixtral-8x22B-v0.1",
        "qwen3-8b": "Qwen/Qwen3-8B",
        "qwen3-32b": "Qwen/Qwen3-32B",
        "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
        "qwen3-235b-a22b": "Qwen/Qwen3-235B-A22B",
        "gpt-oss-120b": "openai/gpt-oss-120b",
    }
)


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Milliseconds to the first token and between tokens, by another model of the same machine."""

    source: str
    ttft_ms: float
    itl_ms: float


def second_opinion(deployment: Deployment, load: Load) -> SecondOpinion | None:
    """What aiconfigurator says for a number of requests at a time.

    None where it is not installed, knows the GPU, the model or the quantization not, or says that it does not fit.
    """
    known = deployment.gpu.name in SYSTEMS and deployment.model.name in MODELS
    if not known or load.concurrency is None or deployment.quantization not in ("none", "fp8"):
        return None
    try:
        api = import_module("aiconfigurator.cli.api")
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            given = api.cli_estimate(
                MODELS[deployment.model.name], SYSTEMS[deployment.gpu.name], backend_name="vllm",
                isl=load.input_tokens, osl=load.output_tokens, batch_size=round(load.concurrency),
                tp_size=deployment.tp, gemm_quant_mode="fp8" if deployment.quantization == "fp8" else None,
            )  # fmt: skip
    except Exception:  # noqa: BLE001 - a second opinion that fails is none; its errors are of many kinds
        return None
    finally:
        logging.disable(logging.NOTSET)
    return SecondOpinion("aiconfigurator 0.12.0", float(given.ttft), float(given.tpot))
