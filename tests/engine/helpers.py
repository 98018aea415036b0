"""Looks at running processes from outside the code under test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLE = ROOT / "tests" / "engine" / "sample" / "__main__.py"


def alive(marker: str) -> dict[int, str]:
    """Pid and command line of the processes whose command line or environment holds a text (a state folder)."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                text, environment = ((entry / name).read_bytes() for name in ("cmdline", "environ"))
            except OSError:
                continue
            line = text.replace(b"\0", b" ").decode(errors="replace")
            if marker in line or marker in environment.decode(errors="replace"):
                found[int(entry.name)] = line
    return found


def pid_of(marker: str, name: str) -> int:
    """The process with both texts in its command line."""
    return next(pid for pid, line in alive(marker).items() if name in line)


def soon(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Whether a condition becomes true within some seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def start_module(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `python ARGUMENTS` in the checkout, as a person at a terminal would, and give back the process."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs so, and children inherit it: Ctrl-C would do nothing in the tests.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_module(
    *arguments: str, env: Mapping[str, str] | None = None, seconds: float = 240
) -> tuple[int, str, str]:
    """Run `python ARGUMENTS` to its end: exit code, stdout, stderr."""
    process = start_module(*arguments, env=env)
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err
