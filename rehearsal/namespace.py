"""A network, mount and process namespace of its own for a control plane, so that its pods can have addresses.

Pods are processes with an address each (`rehearsal/kubelet`), which the machine's own network has no place for. The
keeper therefore steps into namespaces without a name: they are gone with the last process in them, and the kernel ends
every process in them with the keeper, however that one ends. Two control planes side by side see nothing of each
other. Nobody needs to be root where the system lets users make namespaces.

Inside there is the loopback and one bridge. Pods get a cable to it, and the servers listen on its address, because the
API server's proxy refuses to speak to a loopback address. The way in from the machine is `doorway.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import FrameType

from rehearsal.errors import ControlPlaneError

BRIDGE = "pods"
ADDRESS = "10.244.0.1"
MASK = 16
PROBE_SECONDS = 20
PROGRAMS = {"ip": "iproute2", "mount": "util-linux", "unshare": "util-linux", "nsenter": "util-linux"}

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1

NETWORK = (
    ("ip", "link", "set", "lo", "up"),
    ("ip", "link", "add", BRIDGE, "type", "bridge"),
    ("ip", "addr", "add", f"{ADDRESS}/{MASK}", "dev", BRIDGE),
    ("ip", "link", "set", BRIDGE, "up"),
)
# The process list of the new process namespace in the place of the machine's, for whatever reads /proc.
MOUNTS = (("mount", "--make-rprivate", "/"), ("mount", "-t", "proc", "proc", "/proc"))
NOT_COVERED = "pods that run as processes, so no model answers"


def unprivileged() -> bool:
    """Whether a user namespace is needed first."""
    return os.geteuid() != 0


@cache
def missing() -> str:
    """Why this machine has no namespaces for us, as the end of a sentence; empty when it has."""
    if sys.platform != "linux":
        return f"{platform.system()} has no network namespaces"
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"the program {program} is not on PATH (install {package})"
    user = ["--user", "--map-root-user"] if unprivileged() else []
    script = " && ".join(" ".join(row) for row in (*MOUNTS, *NETWORK))
    try:
        done = subprocess.run(
            ["unshare", *user, "--net", "--mount", "--pid", "--fork", "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"making one took longer than {PROBE_SECONDS} s"
    return "" if done.returncode == 0 else f"the system refuses it: {done.stderr.strip()[-200:]}"


def enter() -> int:
    """Go on in new namespaces, as their first process; gives back the process id that the machine sees.

    The process that called stays behind as a guard: it passes on signals, ends with the same code, and the kernel
    ends what is inside when the guard is killed. Raises ControlPlaneError.
    """
    _unshare()
    child = os.fork()
    if child:
        _guard(child)
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    number = int(Path("/proc/self").readlink().name)  # still the machine's /proc
    for row in (*MOUNTS, *NETWORK):
        done = subprocess.run(row, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ControlPlaneError(f"`{' '.join(row)}` failed in the new namespace: {done.stderr.strip()}")
    return number


def _unshare() -> None:
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID
    if not unprivileged():
        _call("unshare", flags)
        return
    _call("unshare", flags | CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")


def _call(name: str, *arguments: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise ControlPlaneError(f"{name} failed: {os.strerror(ctypes.get_errno())}")


def _guard(child: int) -> None:
    """Wait for the first process inside, without holding a file, a lock or a pipe of it. Does not come back."""
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)

    def forward(number: int, _frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def command(pid: int, words: list[str]) -> list[str]:
    """The same command, to run in the namespaces of a process."""
    user = ["--user", "--preserve-credentials"] if unprivileged() else []
    return [
        "nsenter",
        f"--target={pid}",
        *user,
        "--net",
        "--mount",
        "--pid",
        f"--wdns={Path.cwd()}",
        "--",
        *words,
    ]
