"""The kubelet's side of a pod's namespaces: makes them, starts commands in them, and looks into them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from rehearsal.kubelet import inside

INSIDE = Path(__file__).with_name("inside.py")
_LINK_NAME = 15  # the kernel's limit for the name of a network interface is one less
_OUTPUT = 2000


class SandboxError(Exception):
    """A pod's namespaces could not be made, or a command not be started in them."""


@dataclass(frozen=True)
class Bridge:
    """The bridge to which every pod's link goes: its name, and its own address with the network's width."""

    name: str
    interface: IPv4Interface

    @classmethod
    def find(cls, address: str) -> Bridge:
        """The interface with an address. Raises SandboxError when there is none."""
        done = subprocess.run(["ip", "-json", "-4", "addr"], capture_output=True, text=True, check=True)
        for link in json.loads(done.stdout):
            for row in link.get("addr_info", []):
                if row.get("local") == address:
                    return cls(link["ifname"], IPv4Interface(f"{address}/{row['prefixlen']}"))
        raise SandboxError(
            f"No network interface has the address {address}. The kubelet must run in the rehearsal's network "
            "namespace, in which a bridge with that address is made first."
        )


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(INSIDE), *arguments]


class Sandbox:
    """The namespaces of one pod. They end with the process that holds them."""

    def __init__(self, *, name: str, uid: str, address: str, bridge: Bridge) -> None:
        """Make them, with a link to the bridge. Raises SandboxError."""
        self.address = address
        self._process = subprocess.Popen(
            _python("sandbox"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        plan = {
            "parent": os.getpid(),
            "hostname": name,
            "address": address,
            "bits": bridge.interface.network.prefixlen,
            "gateway": str(bridge.interface.ip),
        }
        link = f"p{uid.replace('-', '')}"[: _LINK_NAME - 1]
        try:
            self._tell(json.dumps(plan))
            self._hear("unshared")
            self._link(link, bridge.name)
            self._tell("go")
            self._hear("ready")
        except BaseException:
            self.end()
            raise

    def _link(self, link: str, bridge: str) -> None:
        batch = (
            f"link add {link} type veth peer name eth0 netns {self.pid}\n"
            f"link set {link} master {bridge}\n"
            f"link set {link} up\n"
        )
        done = subprocess.run(["ip", "-batch", "-"], input=batch, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SandboxError(f"the pod's network link could not be made: {done.stderr.strip()}")

    @property
    def pid(self) -> int:
        """The process that holds the namespaces."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the namespaces are still there."""
        return self._process.poll() is None

    def _tell(self, line: str) -> None:
        if self._process.stdin:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def _hear(self, word: str) -> None:
        line = self._process.stdout.readline() if self._process.stdout else ""
        if line.strip() != word:
            seen = self._process.stderr.read() if self._process.stderr else ""
            raise SandboxError(
                f"the pod's namespaces could not be made: {seen.strip().rpartition(chr(10))[2]}"
            )

    def end(self) -> None:
        """Let the namespaces go. What still runs in them is not ended by this."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Process:
    """A container's command, running as the first process of its own namespace."""

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        root: Path,
        mounts: Sequence[Mapping[str, Any]],
        command: Sequence[str],
        variables: Mapping[str, str],
        cwd: str | None,
        log: Path,
    ) -> None:
        """Start it. Raises SandboxError with the reason when it does not start."""
        root.mkdir(parents=True, exist_ok=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        self.variables = dict(variables)
        read, write = os.pipe()
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                _python("container", str(write)),
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                pass_fds=(write,),
                start_new_session=True,
            )
        os.close(write)
        plan = {
            "parent": os.getpid(),
            "sandbox": sandbox.pid,
            "root": str(root),
            "mounts": list(mounts),
            "command": list(command),
            "variables": dict(variables),
            "cwd": cwd,
        }
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(plan).encode() + b"\n")
                self._process.stdin.close()
        with os.fdopen(read) as report:
            lines = report.read().splitlines()
        self.pid = next((int(line[4:]) for line in lines if line.startswith("pid ")), 0)
        errors = [line[6:] for line in lines if line.startswith("error ")]
        if errors or not self.pid:
            self._process.wait()
            raise SandboxError(errors[0] if errors else f"it did not start; see {log}")

    def wait(self) -> int:
        """Wait until it ends; its exit code, 128 and the signal's number when a signal ended it."""
        return self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the first process. SIGKILL ends all processes of the container."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def run(self, command: Sequence[str], seconds: float) -> tuple[int | None, str]:
        """Run a command in the container: its exit code (None when it took too long) and the end of its output."""
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--root")
        process = subprocess.Popen(
            ["nsenter", "-t", str(self.pid), *spaces, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.variables,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output[-_OUTPUT:].decode(errors="replace")


def own_mounts() -> None:
    """Keep what this process mounts (memory volumes) to itself and its children, so that nothing stays mounted."""
    inside.private_mounts()


def mount_memory(folder: Path, size: int | None) -> None:
    """A folder in memory, as large as a volume asks for."""
    folder.mkdir(parents=True, exist_ok=True)
    options = "mode=1777" + (f",size={size}" if size else "")
    inside.mount("tmpfs", str(folder), "tmpfs", inside.MS_NOSUID | inside.MS_NODEV, options)


def unmount(folder: Path) -> None:
    """Let a folder in memory go."""
    ctypes.CDLL(None).umount2(str(folder).encode(), inside.DETACH)
