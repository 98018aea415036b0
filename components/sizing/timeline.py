"""A simulated day as lines of text and as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from components.sizing.picture import matplotlib_pyplot
from components.sizing.scenario import Outcome
from components.sizing.traffic import HOUR

_BARS = " ▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 64) -> str:
    """Values as bars; each character shows the largest of its part."""
    if not values:
        return ""
    cells = [values[len(values) * i // width : max(len(values) * i // width + 1, len(values) * (i + 1) // width)]
             for i in range(min(width, len(values)))]  # fmt: skip
    peaks = [max(cell) for cell in cells]
    top = max(peaks) or 1
    return "".join(_BARS[-1 if value >= top else round(value / top * (len(_BARS) - 1))] for value in peaks)


def timeline_text(outcome: Outcome) -> list[str]:
    """Replicas and queue over time, with their largest values."""
    replicas = [ready for _, ready, _, _ in outcome.timeline]
    queue = [waiting for _, _, _, waiting in outcome.timeline]
    return [
        f"replicas |{sparkline(replicas)}| most {max(replicas, default=0)}",
        f"queue    |{sparkline(queue)}| most {max(queue, default=0)}",
    ]


def timeline_png(outcome: Outcome, path: Path, title: str) -> None:
    """Replicas that serve and start, and the queue, over the hours. Raises ImportError without matplotlib."""
    pyplot = matplotlib_pyplot()
    hours = [time / HOUR for time, _, _, _ in outcome.timeline]
    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(9, 5))
    above.step(hours, [ready for _, ready, _, _ in outcome.timeline], where="post", label="serving")
    above.step(
        hours,
        [ready + new for _, ready, new, _ in outcome.timeline],
        where="post",
        label="and starting",
        alpha=0.5,
    )
    above.set(ylabel="replicas", title=f"{title} (simulated)")
    above.legend(fontsize="small")
    below.step(hours, [waiting for _, _, _, waiting in outcome.timeline], where="post", color="tab:red")
    below.set(ylabel="waiting requests", xlabel="hour")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
