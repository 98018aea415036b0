"""Child processes that never outlive their keeper, and files that say which are running.

On Linux the kernel itself kills a child when the thread that started it ends (PR_SET_PDEATHSIG), so even a
SIGKILL of the keeper leaves nothing behind. Elsewhere (macOS) the next start finds the leftovers by the state
folder in their command lines and ends those.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TAIL_LINES = 25
STOP_SECONDS = 5.0


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """A hook for Popen's `preexec_fn` that sends the child a signal when this thread ends; None where there is no such call."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def hook() -> None:
        prctl(PR_SET_PDEATHSIG, by)
        if os.getppid() != parent:
            os._exit(1)

    return hook


def adopt_orphans() -> None:
    """On Linux, make this process the parent of whatever its children leave behind, so that it can be ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _parents() -> dict[int, int]:
    """The parent of every process."""
    if sys.platform != "linux":
        done = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)
        return {int(pid): int(parent) for pid, parent in (row.split() for row in done.stdout.splitlines())}
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            # "pid (name) state parent …", and a name may hold anything, parentheses too
            found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def end_descendants() -> None:
    """SIGKILL all children of this process and theirs, in whatever process group or session they are."""
    parents = _parents()
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in family - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def start(argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own (Ctrl-C does not reach it), its output appended to a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - one system call, no lock is taken
            env=dict(os.environ if env is None else env),
        )


def stop_all(processes: Sequence[subprocess.Popen[bytes]], seconds: float = STOP_SECONDS) -> None:
    """SIGTERM to all, then SIGKILL to those that have not ended after some seconds in all."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    deadline = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, indented; a note when there is none."""
    if not path.is_file():
        return "    (no log)"
    kept = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"    {line[:400]}" for line in kept) or "    (empty log)"


def free_port(address: str, preferred: int = 0) -> int:
    """A TCP port that nothing listens on now: the preferred one if it is free, else any."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((address, port))
            return int(probe.getsockname()[1])
    message = f"no free port on {address}"
    raise OSError(message)


def command_line(pid: int) -> str:
    """The command line of a process, or an empty text when there is no such process."""
    done = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)]
        if sys.platform != "linux"
        else ["cat", f"/proc/{pid}/cmdline"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.replace("\0", " ").strip()


def end_leftovers(pids: Iterable[int], marker: str) -> list[int]:
    """SIGKILL those processes whose command line holds the marker (a state folder); gives back whom.

    A pid alone proves nothing: the system gives numbers again.
    """
    ended = []
    for pid in pids:
        if marker in command_line(pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
                ended.append(pid)
    return ended


@contextlib.contextmanager
def beside(follow: Callable[[threading.Event], None]) -> Iterator[None]:
    """While the block runs, another thread follows something; it is given the event that tells it to end."""
    done = threading.Event()
    thread = threading.Thread(target=follow, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def wait_until(condition: Callable[[], bool], seconds: float, pause: float = 0.1) -> bool:
    """Whether a condition became true within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True
