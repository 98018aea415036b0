"""Nodes of the simulation: how a replica starts, how often nodes are taken, what is kept warm."""

from __future__ import annotations

from dataclasses import dataclass

from components.sizing.cold_start import ColdStart


@dataclass(frozen=True, slots=True)
class NodeModel:
    """What the simulation knows about nodes.

    `spot_part` is the part of launches that get spot capacity, the rest falls back to on-demand. `headroom` nodes are
    ready with the image and replaced when used. A node that lost its replica stays for `consolidate_after_s`, and a
    new replica takes it first.
    """

    start: ColdStart
    nodes_per_replica: int = 1
    spot_part: float = 0.0
    spot_mean_life_h: float | None = None
    headroom: int = 0
    consolidate_after_s: float = 600.0
    drain_s: float = 80.0
    retry: bool = True
