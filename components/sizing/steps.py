"""Time of a step: the floor that no engine beats, and the calibrated estimate. Seconds."""

from __future__ import annotations

from components.sizing.calibration import FIRST_TOKEN, STEP, FirstTokenParameters, StepParameters
from components.sizing.deployment import Deployment, Load
from components.sizing.work import best_limits, decode_work, prefill_work, usual_limits

EAGER_SECONDS_PER_LAYER = 0.15e-3
"""Least time of a layer without CUDA graphs: about fifteen kernels, each started by Python in some ten microseconds."""


def decode_floor(deployment: Deployment, batch: float, context: float) -> float:
    """Seconds that no engine can beat: the longer of memory and compute, then joining, kernels where not captured."""
    work = decode_work(deployment, batch, context, best_limits(deployment))
    eager = 0.0 if deployment.engine.uses_cuda_graphs else EAGER_SECONDS_PER_LAYER * deployment.model.layers
    return max(work.weights + work.kv, work.compute) + work.all_reduce + eager


def step_seconds(
    deployment: Deployment, batch: float, load: Load, parameters: StepParameters = STEP
) -> float:
    """Calibrated time between two tokens of a request while `batch` requests run."""
    work = decode_work(deployment, batch, load.mean_context, usual_limits(deployment))
    compute, joining = _prefill_beside(deployment, batch, load)
    engine = parameters.layer * deployment.model.layers + parameters.sequence * batch
    if deployment.engine.is_v0:
        engine += parameters.v0_step + parameters.v0_sequence * batch
    gpu = max(work.weights / parameters.weights, work.compute / parameters.compute) + work.kv / parameters.kv
    return engine + gpu + work.all_reduce + compute / parameters.compute + joining


def _prefill_beside(deployment: Deployment, batch: float, load: Load) -> tuple[float, float]:
    """Compute and joining at peak of the prefill that shares an average step: that of the other requests."""
    others = max(0.0, batch - 1)
    tokens = others * load.prefill_tokens / load.output_tokens
    work = prefill_work(deployment, tokens, load.input_tokens, usual_limits(deployment))
    return work.compute, work.all_reduce


def first_token_seconds(
    deployment: Deployment, load: Load, together: float, parameters: FirstTokenParameters = FIRST_TOKEN
) -> float:
    """Calibrated time to first token when `together` requests are served at a time and none waits for a place."""
    work = prefill_work(deployment, load.prefill_tokens, load.input_tokens, usual_limits(deployment))
    own = work.compute / parameters.compute + work.all_reduce
    neighbours = 1 + parameters.neighbour * max(0.0, together - 1)
    return parameters.server + parameters.layer * deployment.model.layers + own * neighbours


def first_token_floor(deployment: Deployment, load: Load) -> float:
    """Seconds that no engine can beat: the prompt's own prefill at peak, and at least one reading of the weights."""
    work = prefill_work(deployment, load.prefill_tokens, load.input_tokens, best_limits(deployment))
    read = decode_work(deployment, 1, load.input_tokens, best_limits(deployment))
    return max(work.compute, read.weights) + work.all_reduce


def prefill_floor(deployment: Deployment, tokens: float, load: Load) -> float:
    """Seconds that no engine beats for computing `tokens` prompt tokens."""
    return prefill_work(deployment, tokens, load.input_tokens, best_limits(deployment)).compute
