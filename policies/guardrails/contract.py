"""What the engine of a version knows: its arguments, flags and metric names (tables made from vLLM's own sources)."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from components import facts
from components.facts.engines import RAY_TO_VLLM

_DATA = Path(facts.__file__).parent / "data"

Version = tuple[int, ...]

# What arguments and metrics that people still write are called now (vLLM release notes).
RENAMED_ARGUMENTS: Mapping[str, str] = {
    "guided_decoding_backend": "structured_outputs_config",
    "rope_scaling": "hf_overrides",
    "rope_theta": "hf_overrides",
    "cuda_graph_sizes": "compilation_config",
    "max_seq_len_to_capture": "compilation_config",
    "task": "runner",
    "enable_multimodal_encoder_data_parallel": "mm_encoder_tp_mode",
    "override_pooler_config": "pooler_config",
    "use_v2_block_manager": "",
    "num_lookahead_slots": "speculative_config",
    "speculative_model": "speculative_config",
    "num_speculative_tokens": "speculative_config",
    "swap_space": "kv_offloading_size",
    "disable_log_requests": "enable_log_requests",
    "engine_use_ray": "distributed_executor_backend",
    "worker_use_ray": "distributed_executor_backend",
    "preemption_mode": "",
}
RENAMED_METRICS: Mapping[str, str] = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:cpu_cache_usage_perc": "",
    "vllm:num_requests_swapped": "vllm:num_preemptions_total",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
    "vllm:gpu_prefix_cache_hits": "vllm:prefix_cache_hits",
    "vllm:gpu_prefix_cache_queries": "vllm:prefix_cache_queries",
    "vllm:gpu_prefix_cache_hit_rate": "vllm:prefix_cache_hits_total / vllm:prefix_cache_queries_total",
    "vllm:avg_generation_throughput_toks_per_s": "rate(vllm:generation_tokens_total[1m])",
    "vllm:avg_prompt_throughput_toks_per_s": "rate(vllm:prompt_tokens_total[1m])",
}


def version_of(written: str | None) -> Version | None:
    """(0, 29, 0) of "0.29.0", "v0.29.0" or "0.29.0+cpu"; None where there is none."""
    if not written:
        return None
    digits = written.lstrip("v").split("+")[0].split("-")[0].split(".")
    parts = [part for part in digits[:3] if part.isdigit()]
    return tuple(int(part) for part in parts) if len(parts) >= 2 else None  # noqa: PLR2004 - major and minor


@cache
def _table(name: str) -> Mapping[Version, frozenset[str]]:
    rows: dict[str, list[str] | dict[str, str]] = json.loads((_DATA / f"engine_{name}.json").read_text())
    return {version_of(version) or (): frozenset(names) for version, names in rows.items()}


@cache
def metric_kinds() -> Mapping[str, str]:
    """Kind of each metric of any version, "" where it could not be read."""
    rows: dict[str, dict[str, str]] = json.loads((_DATA / "engine_metrics.json").read_text())
    return {name: kind for version in rows.values() for name, kind in version.items()}


def knows(table: str, version: str | None, name: str) -> bool | None:
    """Whether a version knows a name; None where the tables do not say.

    Between two releases of the table a name counts as known if either has it. Newer than the table, only a name that an
    older release had and the newest has not counts as gone.
    """
    releases = _table(table)
    wanted = version_of(version)
    if wanted is None:
        return True if any(name in names for names in releases.values()) else None
    if wanted in releases:
        return name in releases[wanted]
    older = [release for release in releases if release < wanted]
    newer = [release for release in releases if release > wanted]
    if older and newer:
        return name in releases[max(older)] or name in releases[min(newer)]
    if older:
        return True if name in releases[max(older)] else _gone(releases, name)
    return True if name in releases[min(newer)] else None


def _gone(releases: Mapping[Version, frozenset[str]], name: str) -> bool | None:
    return False if any(name in names for names in releases.values()) else None


def names(table: str, version: str | None) -> frozenset[str]:
    """All names of the release nearest below a version (the newest without one)."""
    releases = _table(table)
    wanted = version_of(version)
    below = [release for release in releases if wanted is None or release <= wanted]
    return releases[max(below)] if below else frozenset()


def suggestion(table: str, version: str | None, name: str) -> str:
    """What a name that is gone or misspelt probably is now; empty where nothing is near."""
    renamed = {**RENAMED_ARGUMENTS, **RENAMED_METRICS}
    if name in renamed:
        return renamed[name]
    near = get_close_matches(name, names(table, version), n=1, cutoff=0.82)
    return near[0] if near else ""


def vllm_of_ray(ray: str | None) -> str | None:
    """The vLLM inside Ray's own LLM image of a version; the same minor release stands in for one not in the table."""
    wanted = version_of(ray)
    if wanted is None:
        return None
    for release, requirement in RAY_TO_VLLM.items():
        if (version_of(release) or ())[:2] == wanted[:2] and requirement.startswith("=="):
            return requirement.removeprefix("==")
    return None
