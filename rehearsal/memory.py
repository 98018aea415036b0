"""How much memory a process and all its children take, followed from outside while something runs."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

PERIOD_SECONDS = 10.0  # one look costs up to a second of a busy core
# Anonymous and shared memory, each page divided by the processes that have it: Ray's share their object stores, and
# forked ones most of what they are. What files lend is left out.
OWN = ("Pss_Anon", "Pss_Shmem")
KIB_PER_GIB = 1 << 20


def _parent(pid: int) -> int:
    """The parent of a process. Raises OSError for one that is gone."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("PPid:")), 0)


def _own_kib(pid: int) -> int:
    """The memory of a process in KiB; none for one that is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.partition(":")[0] in OWN)


def tree_gib(marker: str = "", root: int | None = None) -> float:
    """Memory of a process tree, and of processes whose environment or command line holds a text, in GiB."""
    parents: dict[int, int] = {}
    family = {root or os.getpid()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                parents[int(entry.name)] = _parent(int(entry.name))
                if (
                    marker
                    and marker.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                ):
                    family.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return sum(_own_kib(pid) for pid in family) / KIB_PER_GIB


class Peak:
    """Follows the memory in a thread; `gib` is the most that was seen. Nothing where there is no /proc."""

    def __init__(self, marker: str) -> None:
        """Take a text that marks processes which are nobody's children here (kept control planes)."""
        self.marker, self.gib = marker, 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        if Path("/proc/self/status").exists():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def _follow(self) -> None:
        ended = False
        while not ended:
            self.gib = max(self.gib, tree_gib(self.marker))
            ended = self._done.wait(PERIOD_SECONDS)
