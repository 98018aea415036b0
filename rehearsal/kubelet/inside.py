"""Runs between the kubelet and a container: enters namespaces, builds the container's file tree, starts its command.

`python -I -S inside.py sandbox` holds a pod's network, host name and IPC namespaces; `… container` runs one command in
them, in a process namespace of its own. Each takes a plan as JSON on its standard input. Standard library only, and
no import of the project nor of pathlib: it starts in a few milliseconds. Everything here ends with the kubelet: the kernel kills a
child when its parent ends, and a process namespace when its first process ends.
"""

# ruff: noqa: PTH101, PTH102, PTH103, PTH112, PTH115, PTH120, PTH123, PTH211, S606
import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

NEW_MOUNTS, NEW_NAMES, NEW_IPC, NEW_PIDS, NEW_NET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
JOINED = (("ipc", NEW_IPC), ("uts", NEW_NAMES), ("net", NEW_NET))
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
DETACH = 2
PR_SET_PDEATHSIG = 1
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, ATTR_READ_ONLY = 442, -100, 0x8000, 1
# Not taken from the machine: made for each container.
FRESH = ("/proc", "/run", "/tmp", "/dev/shm")  # noqa: S108 - names inside the container
CANNOT_START = 128

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """The system call of that name."""
    result = _libc.mount(_text(source), target.encode(), _text(kind), ctypes.c_ulong(flags), _text(options))
    _check(result, f"mount {source or kind} at {target}")


def make_read_only(target: str) -> None:
    """Make a mount and all below it read-only; other restrictions stay, so it is allowed in a user namespace too."""
    attributes = (ctypes.c_uint64 * 4)(ATTR_READ_ONLY, 0, 0, 0)
    result = _libc.syscall(
        MOUNT_SETATTR,
        AT_FDCWD,
        target.encode(),
        AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
    )
    _check(result, f"make {target} read-only")


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show a folder or file in another place, with what is mounted below it."""
    mount(source, target, None, MS_BIND | MS_REC)
    if read_only:
        make_read_only(target)


def unshare(flags: int) -> None:
    """New namespaces for this process (a process namespace: for its children)."""
    _check(_libc.unshare(flags), "unshare")


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends; end now when it already has."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)


def private_mounts() -> None:
    """A mount namespace of its own, whose mounts nobody else sees."""
    unshare(NEW_MOUNTS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)


# --- the file tree of a container


def missing(targets: Sequence[str]) -> set[str]:
    """The places where something is to be mounted and that this machine does not have."""
    return {target for target in targets if not os.path.lexists(target)}


def touch(path: str) -> None:
    """Make an empty file, with its folders."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab"):
        pass


def populate(folder: str, new: str, absent: set[str]) -> None:
    """Show the machine's folder below the new root, read-only.

    A folder in which a mount point must be made becomes a new one, whose entries are shown one by one; so nothing is
    ever made on the machine itself.
    """
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        goal = new + entry.path
        with contextlib.suppress(FileNotFoundError):  # it went away meanwhile
            if entry.path in FRESH:
                os.mkdir(goal)
            elif entry.is_symlink():
                os.symlink(os.readlink(entry.path), goal)
            elif not entry.is_dir():
                touch(goal)
                bind(entry.path, goal, read_only=True)
            elif any(target.startswith(f"{entry.path}/") for target in absent):
                os.mkdir(goal)
                os.chmod(goal, stat.S_IMODE(entry.stat().st_mode))
                populate(entry.path, new, absent)
            else:
                os.mkdir(goal)
                # A device is written to through its node, which a read-only mount would forbid for pipes and terminals.
                bind(entry.path, goal, read_only=entry.path != "/dev")


def place(new: str, row: dict[str, Any]) -> None:
    """Put one mount of the plan into the new root."""
    target, source = new + row["target"], row.get("source")
    if source is None:
        os.makedirs(target, exist_ok=True)
        mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, row["options"])
        return
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    elif not os.path.lexists(target):
        touch(target)
    bind(source, target, read_only=bool(row.get("read_only")))


def build_root(new: str, mounts: list[dict[str, Any]]) -> None:
    """The whole tree: the machine's folders, what every container has of its own, then the plan's mounts."""
    for row in mounts:
        row["target"] = os.path.realpath(row["target"])  # /var/run is often a link to /run
    mount("tmpfs", new, "tmpfs", MS_NOSUID, "mode=755")
    targets = [row["target"] for row in mounts]
    absent = {one for one in missing(targets) if not any(one.startswith(f"{fresh}/") for fresh in FRESH)}
    populate("/", new, absent)
    for name in FRESH:
        os.makedirs(new + name, exist_ok=True)
    mount("proc", f"{new}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", f"{new}/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    # Folders before what lies in them; of two at one place the later wins.
    for row in sorted(mounts, key=lambda one: one["target"].count("/")):
        place(new, row)


def enter_root(new: str) -> None:
    """Make the new tree the only one that can be seen."""
    os.chdir(new)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", DETACH), "umount of the old root")
    os.chdir("/")


def usual_signals() -> None:
    """Undo what a Python, or a shell that started the kubelet in the background, ignores: a command inherits it."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


# --- the two commands


def sandbox(plan: dict[str, Any]) -> NoReturn:
    """Hold a pod's namespaces: say that they are there, wait for the link, give it its address, then sleep."""
    die_with_parent(plan["parent"])
    unshare(NEW_NET | NEW_NAMES | NEW_IPC)
    name = plan["hostname"].encode()
    _check(_libc.sethostname(name, len(name)), "sethostname")
    print("unshared", flush=True)  # noqa: T201 - the kubelet reads it
    sys.stdin.readline()
    batch = (
        "link set lo up\n"
        f"addr add {plan['address']}/{plan['bits']} dev eth0\n"
        "link set eth0 up\n"
        f"route add default via {plan['gateway']}\n"
    )
    subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
    print("ready", flush=True)  # noqa: T201
    os.execvp("sleep", ["sleep", "infinity"])  # a hundredth of the memory of a Python


def join(pid: int) -> None:
    """Enter the namespaces of a pod."""
    for name, kind in JOINED:
        descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        _check(_libc.setns(descriptor, kind), f"enter the {name} namespace of the pod")
        os.close(descriptor)


def container(plan: dict[str, Any], report: int) -> NoReturn:
    """Run one command as the first process of a process namespace, and end as it ends."""
    die_with_parent(plan["parent"])
    join(plan["sandbox"])
    unshare(NEW_PIDS)
    os.set_inheritable(report, False)  # it closes when the command starts, which is the good news
    alive, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(held)
        _first_process(plan, alive, report)
    os.close(alive)
    os.write(report, f"pid {child}\n".encode())
    os.close(report)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _first_process(plan: dict[str, Any], alive: int, report: int) -> NoReturn:
    try:
        die_with_parent(0)
        # The parent's number cannot be seen from in here; its end of a pipe can.
        if select.select([alive], [], [], 0)[0]:
            os._exit(CANNOT_START)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        usual_signals()
        # As many open files as this machine allows, which is what container runtimes give.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        private_mounts()
        build_root(plan["root"], plan["mounts"])
        enter_root(plan["root"])
        os.chdir(plan.get("cwd") or "/")
        os.execvpe(plan["command"][0], plan["command"], plan["variables"])
    except FileNotFoundError as error:
        os.write(report, f"error {plan['command'][0]}: {error}\n".encode())
    except OSError as error:
        os.write(report, f"error {error}\n".encode())
    os._exit(CANNOT_START)


def main() -> NoReturn:
    """Read the plan and do what the first argument names; the second is where to report."""
    plan = json.loads(sys.stdin.readline())
    if sys.argv[1] == "sandbox":
        sandbox(plan)
    container(plan, int(sys.argv[2]))


if __name__ == "__main__":
    main()
