"""Follows an operation of the engine from outside, by what it prints, and strikes at a chosen step."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.processes import beside

POLL_SECONDS = 0.02
STACK = "pulumi:pulumi:Stack"
# " +  aws:ec2:Vpc network-vpc creating (0s)": the engine says it when a step begins, and again every few seconds.
BEGINNING = re.compile(
    r"^\s*\S{1,2}\s+(?P<type>\S+) (?P<name>\S+) (?P<operation>creating|updating|deleting|replacing) \(0s\)"
)


def processes(marker: str, name: str) -> list[int]:
    """The processes of a program whose environment or command line holds a text (a state folder)."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                line = (entry / "cmdline").read_bytes().split(b"\0")
                if Path(line[0].decode(errors="replace")).name != name:
                    continue
                if marker.encode() in b" ".join(line) + (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def kill(marker: str, name: str) -> int:
    """SIGKILL these processes; gives back how many."""
    pids = processes(marker, name)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(pids)


@dataclass
class Steps:
    """The steps that change something, in the order in which they began: operation, type and name."""

    begun: list[tuple[str, str, str]] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Take one line of the engine's output."""
        found = BEGINNING.match(line)
        if found and found["type"] != STACK:
            self.begun.append((found["operation"], found["type"], found["name"]))


def _lines(path: Path, place: int, done: threading.Event) -> Iterator[str]:
    """Whole lines of a file from a place on, as they are written."""
    rest = ""
    while not done.is_set():
        text = ""
        with contextlib.suppress(FileNotFoundError), path.open() as log:
            log.seek(place)
            text = log.read()
            place = log.tell()
        if not text:
            done.wait(POLL_SECONDS)
            continue
        *lines, rest = (rest + text).split("\n")
        yield from lines


@contextlib.contextmanager
def struck(
    log: Path, when: Callable[[Steps], bool], strike: Callable[[], object]
) -> Iterator[list[tuple[str, str, str]]]:
    """While the block runs one operation, strike once when its steps fulfil a condition.

    `log` is the engine's output. The list given holds, after the block, the step at which it struck; it is empty when
    the condition never held.
    """
    place = log.stat().st_size if log.exists() else 0
    steps = Steps()
    hit: list[tuple[str, str, str]] = []

    def follow(done: threading.Event) -> None:
        for line in _lines(log, place, done):
            steps.take(line)
            if steps.begun and when(steps):
                hit.append(steps.begun[-1])
                strike()
                return

    with beside(follow):
        yield hit
