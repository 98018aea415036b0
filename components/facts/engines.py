"""Engine contracts: which vLLM goes with which Ray, and which arguments a vLLM version knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

RAY_TO_VLLM: Mapping[str, str] = MappingProxyType(
    {
        "2.53": ">=0.12",
        "2.54.1": ">=0.15",
        "2.55.1": ">=0.18",
        "2.56.1": "==0.22.0",
        "2.57.1": "==0.25.1",
        "2.58.1": "==0.26.0",
        "2.59.0": "==0.27.0",
        "2.60.0": "==0.29.0",
    }
)
"""What `ray[llm]` of a version asks for, from the metadata of each release; an exact pin from 2.56 on."""

_ARGUMENTS = Path(__file__).parent / "data" / "engine_arguments.json"


def vllm_for(ray: str) -> str | None:
    """The vLLM requirement of a Ray release, or None where it is not in the table."""
    return RAY_TO_VLLM.get(ray)


def engine_versions() -> tuple[str, ...]:
    """The vLLM versions whose arguments are known."""
    return tuple(_tables())


def engine_arguments(version: str) -> frozenset[str]:
    """Names of the engine arguments of a vLLM version, in the spelling of Python (`max_model_len`).

    Raises KeyError, naming the known versions, for another one.
    """
    return frozenset(argument_types(version))


def argument_types(version: str) -> Mapping[str, str | None]:
    """The annotation of each argument as vLLM writes it, None where it has none."""
    tables = _tables()
    if version not in tables:
        raise KeyError(f"vLLM {version} is not in the table of engine arguments; known: {', '.join(tables)}")
    return tables[version]


@cache
def _tables() -> Mapping[str, Mapping[str, str | None]]:
    # Read on first use: an import must cost nothing.
    table: dict[str, dict[str, str | None]] = json.loads(_ARGUMENTS.read_text())
    return table
