"""How much memory a process and all its children take, followed from outside while something runs."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

PERIOD_SECONDS = 1.0
KIB_PER_GIB = 1 << 20


def _status(pid: int) -> tuple[int, int]:
    """Parent and private memory in KiB (resident, without what files lend); nothing for one that is gone."""
    parent = anonymous = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "PPid":
            parent = int(value)
        elif name in ("RssAnon", "RssShmem"):
            anonymous += int(value.split()[0])
    return parent, anonymous


def tree_gib(marker: str = "", root: int | None = None) -> float:
    """Memory of a process tree, and of processes whose environment or command line holds a text, in GiB."""
    rows: dict[int, tuple[int, int]] = {}
    family = {root or os.getpid()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                rows[int(entry.name)] = _status(int(entry.name))
                if (
                    marker
                    and marker.encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                ):
                    family.add(int(entry.name))
    while more := {pid for pid, (parent, _) in rows.items() if parent in family} - family:
        family |= more
    return sum(rows[pid][1] for pid in family if pid in rows) / KIB_PER_GIB


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
        while not self._done.wait(PERIOD_SECONDS):
            self.gib = max(self.gib, tree_gib(self.marker))
