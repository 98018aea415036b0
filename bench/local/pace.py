"""Gives the tiny model the pace of a large one: a step of the engine takes at least `PACE_SECONDS`. Runs in vLLM only.

Without it a stream of the tiny model lasts as long as the machine happens to need, 1,900 tokens 16 s on a quiet one.
"""

from __future__ import annotations

import os
import time
from typing import Any

from vllm.v1.sample.logits_processor import LogitsProcessor


class Pace(LogitsProcessor):  # type: ignore[misc] # vLLM is not in the environment of the checks
    """A processor that changes nothing and takes its time."""

    def __init__(self, *_arguments: Any) -> None:
        self._step = float(os.environ.get("PACE_SECONDS", "0"))
        self._next = 0.0

    def apply(self, logits: Any) -> Any:
        """Sleep until the step's time is over."""
        now = time.monotonic()
        if self._next > now:
            time.sleep(self._next - now)
        self._next = max(self._next, now) + self._step
        return logits

    def is_argmax_invariant(self) -> bool:
        """Not, or a greedy batch would leave it out."""
        return False

    def update_state(self, _update: Any) -> None:
        """No state."""
