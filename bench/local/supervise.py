"""Runs one command and leaves nothing of it behind: `python supervise.py COMMAND…`. Standard library only.

Ray starts processes in sessions of their own, and `ray stop` forgets some of them (HAProxy stays on its ports). This
process is the reaper of every orphan among its descendants, so whatever lost its parent is its child, and it ends when
no child is left. It ends the command when it is told to (SIGTERM, SIGINT), when its own parent dies in any way, and
when the command ends by itself. SIGUSR1 is passed on as SIGTERM without more: a node that is told to drain.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
GRACE_SECONDS = 10.0


def main(command: list[str]) -> int:
    """Start the command, wait for its end or for a reason to end it, and sweep up."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: asked.append(received))
    process = subprocess.Popen(command, start_new_session=True)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: _send(process.pid, signal.SIGTERM))
    while process.poll() is None and not asked and os.getppid() == parent:
        _reap(process.pid)
        time.sleep(0.2)
    if process.poll() is None:
        _send(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    sweep()
    return process.poll() or 0


def sweep() -> None:
    """Kill every descendant; what loses its parent becomes a child of this process, so repeat until none is left."""
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        family = list(descendants(os.getpid()))
        if not family:
            return
        for pid in family:
            _send(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.05)


def descendants(root: int) -> Iterator[int]:
    """Every process below one, nearest first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    waiting = list(children.get(root, ()))
    while waiting:
        pid = waiting.pop(0)
        yield pid
        waiting.extend(children.get(pid, ()))


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _reap(own: int = 0) -> None:
    """Take the exit codes of adopted children; the command's own is left to its Popen."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid() and (pid := int(stat.parent.name)) != own:
                os.waitpid(pid, os.WNOHANG)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
