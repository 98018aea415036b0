"""Words and a picture for one result of the load tool. The figures are the tool's own, none is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.load import PERCENTILES, errors_by_kind
from bench.picture import Bar, bars

NAMES = {"ttft": "first token", "itl": "between tokens", "tpot": "per output token", "e2el": "whole answer"}


def summary(figures: Mapping[str, Any]) -> str:
    """A table of percentiles in milliseconds, rates and errors."""
    heads = " ".join(f"{'p' + str(p):>9}" for p in PERCENTILES)
    lines = [f"{'milliseconds':18}{'mean':>9} {heads}"]
    for metric, name in NAMES.items():
        if f"mean_{metric}_ms" in figures:
            numbers = " ".join(f"{figures[f'p{p}_{metric}_ms']:9.1f}" for p in PERCENTILES)
            lines.append(f"{name:18}{figures[f'mean_{metric}_ms']:9.1f} {numbers}")
    lines.append(f"requests/s        {figures['request_throughput']:9.2f}")
    lines.append(f"output tokens/s   {figures['output_throughput']:9.1f}")
    if figures.get("request_goodput") is not None:
        lines.append(f"good requests/s   {figures['request_goodput']:9.2f}")
    lines.append(f"finished {figures['completed']}, failed {figures.get('failed', 0)}")
    lines += [f"    {count} x {kind}" for kind, count in sorted(errors_by_kind(figures).items())]
    return "\n".join(lines) + "\n"


def svg(figures: Mapping[str, Any]) -> str:
    """Percentiles of the first token and of the whole answer."""
    rows = []
    for series, metric in enumerate(("ttft", "e2el")):
        if f"mean_{metric}_ms" in figures:
            for percentile in PERCENTILES:
                value = float(figures[f"p{percentile}_{metric}_ms"])
                label = f"{NAMES[metric]} p{percentile}"
                rows.append(Bar(label=label, value=value, least=value, greatest=value, series=series))
    return bars("Latency under load", "milliseconds", rows)
