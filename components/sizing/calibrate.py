"""Fitting the parameters of `calibration` to measured runs: damped Gauss-Newton on logarithms, standard library only.

The residual of a run is the logarithm of predicted over measured time, so 10 % too fast and 10 % too slow weigh the
same; a soft loss keeps a few odd runs from pulling the rest. Parameters are fitted as logarithms, hence positive, and
stay inside the bounds that their meaning gives (a part of a peak is at most 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Residuals = Callable[[Sequence[float]], list[float]]
_SOFT = 0.1  # residuals above about 10 % weigh less than their square
_STEP = 1e-4  # of the numerical derivative, in logarithms


def fit_positive(
    residuals: Residuals, start: Sequence[float], bounds: Sequence[tuple[float, float]], rounds: int = 40
) -> tuple[float, ...]:
    """The positive parameters within `bounds` that make the residuals small, from `start`.

    `residuals` maps parameters to one number per measured run. Stops early when a round changes nothing.
    """
    logs = [math.log(value) for value in start]
    limits = [(math.log(low), math.log(high)) for low, high in bounds]
    damping, current = 1e-3, _residuals(residuals, logs)
    for _ in range(rounds):
        jacobian = _jacobian(residuals, logs, current)
        moved = False
        for _ in range(8):
            step = _solve(*_normal_equations(jacobian, current, damping))
            trial = [min(max(x + d, low), high) for x, d, (low, high) in zip(logs, step, limits, strict=True)]
            values = _residuals(residuals, trial)
            if _loss(values) < _loss(current) * (1 - 1e-9):
                logs, current, damping, moved = trial, values, damping / 4, True
                break
            damping *= 4
        if not moved:
            break
    return tuple(math.exp(x) for x in logs)


def _residuals(residuals: Residuals, logs: Sequence[float]) -> list[float]:
    return residuals([math.exp(x) for x in logs])


def _loss(values: Sequence[float]) -> float:
    return sum(2 * _SOFT**2 * (math.sqrt(1 + (r / _SOFT) ** 2) - 1) for r in values)


def _jacobian(residuals: Residuals, logs: list[float], current: list[float]) -> list[list[float]]:
    """One row per parameter: how each residual changes with its logarithm."""
    rows = []
    for index in range(len(logs)):
        moved = [*logs]
        moved[index] += _STEP
        rows.append([(a - b) / _STEP for a, b in zip(_residuals(residuals, moved), current, strict=True)])
    return rows


def _normal_equations(
    jacobian: list[list[float]], current: list[float], damping: float
) -> tuple[list[list[float]], list[float]]:
    weights = [1 / math.sqrt(1 + (r / _SOFT) ** 2) for r in current]
    matrix = [
        [sum(w * a * b for w, a, b in zip(weights, x, y, strict=True)) for y in jacobian] for x in jacobian
    ]
    for index, row in enumerate(matrix):
        row[index] = row[index] * (1 + damping) + 1e-9
    right = [-sum(w * a * r for w, a, r in zip(weights, x, current, strict=True)) for x in jacobian]
    return matrix, right


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivoting; the matrix is small and damped, so it is never singular."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][k] * solution[k] for k in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution
