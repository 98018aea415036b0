"""Words of a command line or a stack as the values of sizing. Every error is a sentence about what was given."""

from __future__ import annotations

import json
import math
from pathlib import Path

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from components.facts.models import MODELS, ModelShape
from components.sizing.replicas import Objective

_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
_OBJECTIVES = {"itl": "itl_p99", "itl_p99": "itl_p99", "ttft": "ttft_p99", "ttft_p99": "ttft_p99"}


def model_named(text: str) -> ModelShape:
    """A built-in model by its name, or the shape of a `config.json` by its path.

    Raises ValueError for an unknown name, a file that cannot be read, or an architecture that is not understood.
    """
    if text in MODELS:
        return MODELS[text]
    path = Path(text)
    if path.suffix != ".json":
        raise ValueError(
            f"model {text!r} is not known; known: {', '.join(MODELS)}, or the path of a config.json"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{text}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{text}: is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{text}: is not a model's configuration: it is no object")  # noqa: TRY004 - bad input, not a bug
    return ModelShape.from_config(config, path.parent.name or path.stem)


def known_instance(name: str) -> str:
    """The name again. Raises ValueError when it is not a GPU instance type of the table."""
    instance = INSTANCE_TYPES.get(name)
    if instance is None or instance.gpu is None:
        known = ", ".join(sorted(one.name for one in INSTANCE_TYPES.values() if one.gpu))
        raise ValueError(f"instance {name!r} is not a known GPU type; known: {known}")
    return name


def known_gpu(name: str) -> str:
    """The name again. Raises ValueError when it is not in the table of GPUs."""
    if name not in GPUS:
        raise ValueError(f"GPU {name!r} is not known; known: {', '.join(GPUS)}")
    return name


def parse_objective(text: str) -> Objective:
    """`itl=40ms,ttft_p99=1s`: 99th percentiles. Raises ValueError for another form."""
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, amount = part.strip().partition("=")
        if name not in _OBJECTIVES or not amount:
            raise ValueError(
                f"objective {part.strip()!r} is not NAME=TIME; names: {', '.join(_OBJECTIVES)}; times: 40ms, 1s"
            )
        values[_OBJECTIVES[name]] = parse_seconds(amount)
    return Objective(**values)


def parse_seconds(text: str) -> float:
    """`40ms`, `1s`, `2min` or `0.5` as seconds. Raises ValueError for another form."""
    unit = next((unit for unit in ("ms", "min", "s") if text.endswith(unit)), "")
    try:
        seconds = float(text.removesuffix(unit)) * _SECONDS.get(unit, 1.0)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write 40ms, 1s or 2min") from None
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text!r} is not a time above zero")
    return seconds
