"""Pictures as SVG, without a library: bars with their spread and graphs over time, for reports and the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 760, 26, 230, 90, 46
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756")


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar: its value with the least and the greatest seen, and the series it belongs to (its colour)."""

    label: str
    value: float
    least: float
    greatest: float
    series: int = 0


def bars(title: str, unit: str, rows: Sequence[Bar], mark: float | None = None) -> str:
    """A picture of horizontal bars; `mark` draws a dashed line at a wanted value."""
    most = max([row.greatest for row in rows] + ([mark] if mark else [])) or 1.0
    scale = (_WIDTH - _LEFT - _RIGHT) / most
    height = _TOP + _ROW * len(rows) + 20
    spread = "; the thin line spans the runs" if any(row.least != row.greatest for row in rows) else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="38" fill="#666">{escape(unit)}{spread}</text>',
    ]
    for index, row in enumerate(rows):
        parts += _bar(row, _TOP + index * _ROW, scale)
    if mark is not None:
        x = _LEFT + mark * scale
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{height - 18}" stroke="#333" stroke-dasharray="4 3"/>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: Bar, top: float, scale: float) -> list[str]:
    middle = top + _ROW / 2
    colour = _COLOURS[row.series % len(_COLOURS)]
    start, end = _LEFT + row.least * scale, _LEFT + row.greatest * scale
    return [
        f'<text x="{_LEFT - 8}" y="{middle + 4:.1f}" text-anchor="end">{escape(row.label)}</text>',
        f'<rect x="{_LEFT}" y="{top + 4:.1f}" width="{row.value * scale:.1f}" height="{_ROW - 9}" fill="{colour}"/>',
        f'<line x1="{start:.1f}" x2="{end:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" stroke="black"/>',
        f'<text x="{max(end, _LEFT + row.value * scale) + 6:.1f}" y="{middle + 4:.1f}">{row.value:.3g}</text>',
    ]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One graph over time: its unit, and named lines of (seconds, value). A value holds until the next one."""

    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


_PANEL, _GAP = 130, 34


def timeline(title: str, panels: Sequence[Panel]) -> str:
    """A picture of graphs over the same seconds, one below the other."""
    last = (
        max((at for panel in panels for line in panel.lines.values() for at, _ in line), default=1.0) or 1.0
    )
    height = _TOP + len(panels) * (_PANEL + _GAP) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts += _panel(panel, _TOP + number * (_PANEL + _GAP), last)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, top: float, last: float) -> list[str]:
    left, right, bottom = 60, _WIDTH - 150, top + _PANEL
    most = max((value for line in panel.lines.values() for _, value in line), default=1.0) or 1.0
    parts = [
        f'<path d="M{left},{top} V{bottom} H{right}" fill="none" stroke="#333"/>',
        f'<text x="{left - 6}" y="{top + 10}" text-anchor="end">{most:.3g}</text>',
        f'<text x="{left - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{right}" y="{bottom + 15}" text-anchor="end">{last:.0f} s</text>',
        f'<text x="{left}" y="{top - 5}" fill="#666">{escape(panel.unit)}</text>',
    ]
    for number, (name, line) in enumerate(panel.lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = [
            (left + at / last * (right - left), bottom - value / most * (_PANEL - 6)) for at, value in line
        ]
        if points:
            first, *rest = points
            path = f"M{first[0]:.1f},{first[1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in rest)
            parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        parts.append(
            f'<text x="{right + 10}" y="{top + 14 + 16 * number}" fill="{colour}">{escape(name)}</text>'
        )
    return parts
