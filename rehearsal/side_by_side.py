"""Stages without a model that answers, played beside each other: their engines wait more than they work.

Each kind of stage is a process of its own, so that Ctrl-C, a crash and a lost control plane end as they do for one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehearsal.control_plane import STOP_SECONDS
from rehearsal.engine import INTERRUPT_SECONDS
from rehearsal.processes import die_with_parent, stop_all
from tools import terminal

TOGETHER = 2
POLL_SECONDS = 1.0
# The engine ends its running steps and saves its state, then the control plane is asked to end, and then killed.
END_SECONDS = INTERRUPT_SECONDS + 2 * STOP_SECONDS + 10


@dataclass(frozen=True)
class Part:
    """One kind of stage: the arguments of `rehearsal.rehearse` that play it, and where its report is written."""

    kind: str
    arguments: Sequence[str]
    report: Path

    def start(self) -> subprocess.Popen[bytes]:
        """Start it; its progress goes to this process's stderr. Ctrl-C does not reach it, SIGTERM ends it in order."""
        self.report.unlink(missing_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "rehearsal.rehearse", *self.arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # its table; the whole one comes at the end
            start_new_session=True,
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one system call, no lock is taken
        )

    def seen(self) -> dict[str, Any]:
        """What it has reported until now; it replaces the file in one step."""
        content: dict[str, Any] = json.loads(self.report.read_text()) if self.report.exists() else {}
        return content


def play(parts: Sequence[Part], take: Callable[[Part, int | None], None]) -> None:
    """Play all, two at a time, in their order; `take` gets each while it runs and, with its exit code, when it ended."""
    waiting, running = list(parts), dict[Part, subprocess.Popen[bytes]]()
    try:
        while waiting or running:
            while waiting and len(running) < TOGETHER:
                part = waiting.pop(0)
                running[part] = part.start()
            time.sleep(POLL_SECONDS)
            for part, code in [(part, process.poll()) for part, process in running.items()]:
                take(part, code)
                if code is not None:
                    del running[part]
    finally:
        if running:
            terminal.say(f"ending what runs: {', '.join(part.kind for part in running)}", "rehearse")
        stop_all(list(running.values()), END_SECONDS)
        for part in running:
            take(part, None)
