"""The fit behind `components/sizing/calibration.py`, and its honest error: predicting a kind of GPU left out of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from components.sizing.calibrate import fit_positive
from components.sizing.calibration import FIRST_TOKEN, STEP, FirstTokenParameters, StepParameters
from components.sizing.fit import fit
from components.sizing.speed import batch_limits, steady_batch
from components.sizing.steps import first_token_seconds, step_seconds
from tests.ground_truth.measured import QUEUED_MS, Measured, points, runs

FITTED_GPUS = ("A100-40", "A100-80", "H100", "H200")
STEP_BOUNDS = ((1e-6, 1e-3), (1e-7, 1e-3), (0.4, 1.0), (0.3, 1.0), (0.2, 1.0), (1e-6, 1e-2), (1e-7, 2e-3))
FIRST_TOKEN_BOUNDS = ((1e-4, 0.1), (1e-6, 5e-3), (0.1, 1.0), (1e-4, 1.0))


def usable(point: Measured) -> bool:
    """A dense model on vLLM and on a GPU of the fit, whose requests had room: none queued, by measure or by memory."""
    deployment, load = point.deployment, point.load
    if (
        deployment.model.experts is not None
        or deployment.engine.name != "vllm"
        or point.system not in FITTED_GPUS
    ):
        return False
    if (point.ttft_ms or 0) > QUEUED_MS:
        return False
    return (load.concurrency or 0) <= batch_limits(deployment, fit(deployment), load)[0]


def fit_points() -> list[Measured]:
    """What the fit uses: the runs, and the rows that are not among them and have a time between tokens."""
    rows = [p for p in points().values() if p.itl_ms is not None and not p.id.endswith("s")]
    known = {
        (p.deployment.gpu.name, p.deployment.tp, p.load, p.itl_ms and round(p.itl_ms, 1)) for p in runs()
    }
    new = [
        p for p in rows if (p.system, p.deployment.tp, p.load, p.itl_ms and round(p.itl_ms, 1)) not in known
    ]
    return [p for p in (*runs(), *new) if usable(p)]


def predicted_step(point: Measured, parameters: StepParameters = STEP) -> float:
    """Seconds between tokens for the load of a point; at a rate, for the batch that the rate leads to."""
    deployment, load = point.deployment, point.load
    if load.concurrency is not None:
        return step_seconds(deployment, load.concurrency, load, parameters)
    # Many halvings: the derivatives of the fit need more digits than a plan does.
    batch = steady_batch(
        load, deployment.max_num_seqs, lambda n: step_seconds(deployment, n, load, parameters), 45
    )
    return step_seconds(deployment, batch or deployment.max_num_seqs, load, parameters)


def fit_step(measured: Sequence[Measured]) -> StepParameters:
    """Parameters of the time between tokens."""
    chosen = [p for p in measured if p.itl_ms is not None]

    def residuals(vector: Sequence[float]) -> list[float]:
        parameters = StepParameters(*vector)
        return [math.log(predicted_step(p, parameters) * 1000 / (p.itl_ms or 1)) for p in chosen]

    return StepParameters(*fit_positive(residuals, (5e-5, 4e-5, 0.9, 0.8, 0.7, 2e-3, 1.5e-4), STEP_BOUNDS))


def fit_first_token(measured: Sequence[Measured]) -> FirstTokenParameters:
    """Parameters of the time to first token, from requests at a fixed number at a time."""
    chosen = [p for p in measured if p.ttft_ms is not None and p.load.concurrency is not None]

    def residuals(vector: Sequence[float]) -> list[float]:
        parameters = FirstTokenParameters(*vector)
        return [
            math.log(predicted_first_token(p, parameters) * 1000 / (p.ttft_ms or 1)) for p in chosen
        ]  # fmt: skip

    return FirstTokenParameters(*fit_positive(residuals, (5e-3, 4e-4, 0.5, 0.05), FIRST_TOKEN_BOUNDS))


def predicted_first_token(point: Measured, parameters: FirstTokenParameters = FIRST_TOKEN) -> float:
    """Seconds to the first token for the load of a point."""
    return first_token_seconds(point.deployment, point.load, point.load.concurrency or 1, parameters)


def leave_one_out(measured: Sequence[Measured]) -> dict[str, list[tuple[str, float]]]:
    """By kind of GPU: the id and the relative error of each of its points, predicted from the other kinds."""
    errors = {}
    for system in FITTED_GPUS:
        parameters = fit_step([p for p in measured if p.system != system])
        errors[system] = [
            (p.id, predicted_step(p, parameters) * 1000 / (p.itl_ms or 1) - 1)
            for p in measured
            if p.system == system and p.itl_ms is not None
        ]
    return errors


def quantile(values: Sequence[float], part: float) -> float:
    """Quantile with linear interpolation."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
