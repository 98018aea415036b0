"""The trade-off between price and latency, as text for a terminal and as a PNG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from components.sizing.ranking import CurvePoint, Option

_MARKS = "123456789abcdefghijklmnopqrstuvwxyz"
_WIDTH, _HEIGHT = 64, 16


def text_chart(
    curves: Sequence[tuple[Option, Sequence[CurvePoint]]], width: int = _WIDTH, height: int = _HEIGHT
) -> str:
    """Latency between tokens (across) against dollars per million tokens (up), both logarithmic, one mark per option."""
    points = [
        (mark, point.itl_ms.likely, point.usd_per_million)
        for mark, (_, curve) in zip(_MARKS, curves, strict=False)
        for point in curve
    ]
    if not points:
        return "nothing to draw: no option holds the objective"
    across, up = _axis([x for _, x, _ in points]), _axis([y for _, _, y in points])
    grid = [[" "] * width for _ in range(height)]
    for mark, x, y in points:
        column, row = _place(x, across, width), height - 1 - _place(y, up, height)
        grid[row][column] = mark if grid[row][column] in (" ", mark) else "*"
    lines = [f"{'$/M tokens' if row == 0 else '':>10} |{''.join(cells)}" for row, cells in enumerate(grid)]
    lines[0] = f"{up[1]:>10,.2f} |{''.join(grid[0])}"
    lines[-1] = f"{up[0]:>10,.2f} |{''.join(grid[-1])}"
    floor = f"{'':>10} +{'-' * width}"
    scale = (
        f"{'$/M tok':>10}  {across[0]:<{width // 2}.0f}{across[1]:>{width - width // 2}.0f} ms between tokens"
    )
    return "\n".join([*lines, floor, scale, *_legend(curves)])


def _legend(curves: Sequence[tuple[Option, Sequence[CurvePoint]]]) -> list[str]:
    return [
        f"  {mark} {option.instance_type} TP {option.deployment.tp} ({option.confidence})"
        for mark, (option, _) in zip(_MARKS, curves, strict=False)
    ]


def _axis(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low * 0.9, high * 1.1)


def _place(value: float, axis: tuple[float, float], cells: int) -> int:
    part = math.log(value / axis[0]) / math.log(axis[1] / axis[0])
    return min(cells - 1, max(0, round(part * (cells - 1))))


def png_chart(curves: Sequence[tuple[Option, Sequence[CurvePoint]]], path: Path, title: str) -> None:
    """The same as a PNG, with the bounds of latency as bars. Raises ImportError where matplotlib is not installed."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for option, curve in curves:
        x = [point.itl_ms.likely for point in curve]
        spread = [
            [point.itl_ms.likely - point.itl_ms.floor for point in curve],
            [point.itl_ms.high - point.itl_ms.likely for point in curve],
        ]
        label = f"{option.instance_type} TP {option.deployment.tp}, {option.confidence}"
        axes.errorbar(
            x,
            [p.usd_per_million for p in curve],
            xerr=spread,
            marker="o",
            label=label,
            alpha=0.8,
            elinewidth=0.6,
        )
    axes.set(xscale="log", yscale="log", xlabel="ms between tokens (bar: floor to high)", title=title)
    axes.set_ylabel("$ per million output tokens, on demand")
    axes.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def matplotlib_pyplot() -> Any:
    """Pyplot without a display. Raises ImportError with what to install."""
    try:
        import_module("matplotlib").use("Agg")
        return import_module("matplotlib.pyplot")
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install matplotlib") from error
