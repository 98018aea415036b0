"""Ray nodes on loopback: own session folder, own ports, nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.local.plan import LOOPBACK
from bench.local.supervise import descendants

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_READY_SECONDS = 90
_END_SECONDS = 30
_PORTS = range(20_000, 30_000)  # Ray's workers have 10002 to 19999, its replicas 30000 to 31000
_STORE_BYTES = 200_000_000  # serving passes only small objects


class LocalError(Exception):
    """The local service does not run. The message says why and where its logs are."""


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different.

    Below those that the system gives to outgoing connections: Ray binds some later, and three of five nodes once died of that.
    """
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for port in random.sample(_PORTS, len(_PORTS)):
            one = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind((LOOPBACK, port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise LocalError(
        f"Fewer than {count} ports from {_PORTS[0]} to {_PORTS[-1]} are free; end what uses them."
    )


def own_address() -> str:
    """The machine's address as others see it; no packet is sent for that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation, which nobody has
        except OSError:
            return LOOPBACK
        return str(probe.getsockname()[0])


@dataclass(frozen=True, kw_only=True)
class Ports:
    """The ports of one Ray node that would clash with another node of this machine."""

    gcs: int
    dashboard: int
    agent: int
    metrics: int
    client: int
    haproxy_metrics: int
    haproxy_stats: int

    @classmethod
    def free(cls) -> Ports:
        """Ports nobody uses now."""
        names = ("gcs", "dashboard", "agent", "metrics", "client", "haproxy_metrics", "haproxy_stats")
        return cls(**dict(zip(names, free_ports(len(names)), strict=True)))


class RayNode:
    """One Ray node: a head, or one that joins the head at `address`. Ends with this process, however that ends."""

    def __init__(
        self,
        programs: Path,
        folder: Path,
        environment: Mapping[str, str],
        resources: Mapping[str, float],
        *,
        address: str | None = None,
        ip: str = LOOPBACK,
        token: str | None = None,
        gcs_port: int | None = None,
    ) -> None:
        free = Ports.free()
        self.ports = free if gcs_port is None else replace(free, gcs=gcs_port)
        self.ip = ip
        # Whoever reaches Ray's own API runs code as this user, so it asks for a token even on loopback.
        self.token = token or secrets.token_hex(32)
        self.folder = folder
        self.log = folder / "ray-start.log"
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(programs / "ray"),
            "start",
            "--block",
            "--disable-usage-stats",
            *self._arguments(address),
        ]
        command += ["--resources", json.dumps({k: v for k, v in resources.items() if k != "CPU"})]
        command += ["--num-cpus", str(int(resources.get("CPU", 0)))]
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                [sys.executable, str(_SUPERVISOR), *command],
                env=self._environment(environment),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )

    def _arguments(self, address: str | None) -> list[str]:
        ports = self.ports
        # The session folder must be short: Ray makes Unix sockets below it, whose names end at 107 characters.
        common = [
            f"--node-ip-address={self.ip}",
            f"--dashboard-agent-listen-port={ports.agent}",
            f"--metrics-export-port={ports.metrics}",
            f"--object-store-memory={_STORE_BYTES}",
        ]
        if address:
            return [f"--address={address}", *common]
        return [
            "--head",
            f"--port={ports.gcs}",
            f"--dashboard-host={self.ip}",
            f"--dashboard-port={ports.dashboard}",
            f"--ray-client-server-port={ports.client}",
            f"--temp-dir={self.folder / 'ray'}",
            *common,
        ]

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The user's variables without what would mix in another Python, and a folder of its own for HAProxy."""
        mixed = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "RAY_ADDRESS")
        own = {name: value for name, value in os.environ.items() if name not in mixed}
        haproxy = self.folder / "p"  # short: with the 56 characters that Ray adds its sockets may have 97
        haproxy.mkdir(exist_ok=True)
        return {
            **own,
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(haproxy / "haproxy.cfg"),
            "RAY_SERVE_HAPROXY_SOCKET_PATH": str(haproxy / "admin.sock"),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(haproxy),
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(haproxy / "state"),
            "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(haproxy / "metrics.sock"),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(self.ports.haproxy_metrics),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(self.ports.haproxy_stats),
            **extra,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
        }

    @property
    def address(self) -> str:
        """Where other nodes join."""
        return f"{self.ip}:{self.ports.gcs}"

    @property
    def dashboard(self) -> str:
        """Ray's own API, the one that KubeRay talks to."""
        return f"http://{self.ip}:{self.ports.dashboard}"

    @property
    def metrics(self) -> str:
        """What a PodMonitor scrapes of this node."""
        return f"{self.ip}:{self.ports.metrics}"

    def alive(self) -> bool:
        """Whether its processes run."""
        return self.process.poll() is None

    def drain(self) -> None:
        """SIGTERM to Ray as a pod's first process gets it, and no more."""
        self.process.send_signal(signal.SIGUSR1)

    def kill(self) -> None:
        """SIGKILL to all of it at once, as when its machine is gone."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End it and everything it started."""
        if self.alive():
            self.process.terminate()
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def request_json(
    url: str, *, method: str = "GET", body: Any = None, token: str | None = None, timeout: float = 10.0
) -> Any:
    """One request to an HTTP API on loopback; no proxy of the user's is asked."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)  # noqa: S310 - loopback
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=timeout) as answer:
        text = answer.read().decode()
    try:
        return json.loads(text)
    except ValueError:
        return text


class ServeApi:
    """Ray Serve's REST API, as KubeRay uses it."""

    def __init__(self, node: RayNode) -> None:
        self.node = node
        self._url = f"{node.dashboard}/api/serve/applications/"

    def wait_for_dashboard(self, seconds: float = _READY_SECONDS) -> None:
        """Wait until Ray answers.

        Raises:
            LocalError: it does not, or has ended.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.node.alive():
            with contextlib.suppress(OSError, ValueError):
                self.status()
                return
            time.sleep(0.3)
        raise LocalError(f"Ray did not start; see {self.node.log}:\n{_tail(self.node.log)}")

    def deploy(self, document: Mapping[str, Any]) -> None:
        """Apply a Serve document.

        Raises:
            LocalError: Ray refuses it; the text is Ray's.
        """
        try:
            request_json(self._url, method="PUT", body=document, token=self.node.token, timeout=60)
        except urllib.error.HTTPError as error:
            raise LocalError(f"Ray refuses the Serve document: {error.read().decode()[-1500:]}") from None

    def status(self) -> dict[str, Any]:
        """Everything that Serve says about itself."""
        answer: dict[str, Any] = request_json(self._url, token=self.node.token)
        return answer

    def replicas(self, application: str) -> dict[str, dict[str, int]]:
        """Deployment -> state -> number of replicas."""
        deployments = self.status()["applications"].get(application, {}).get("deployments", {})
        counts: dict[str, dict[str, int]] = {}
        for name, deployment in deployments.items():
            states = [replica["state"] for replica in deployment.get("replicas", ())]
            counts[name] = {state: states.count(state) for state in sorted(set(states))}
        return counts


def _tail(path: Path, lines: int = 15) -> str:
    kept = path.read_text(errors="replace").splitlines()[-lines:] if path.exists() else []
    return "\n".join(f"    {line}" for line in kept)


def session_folder() -> Path:
    """A new short folder for one run; the caller removes it."""
    return Path(tempfile.mkdtemp(prefix="llmp-"))


def remove(folder: Path) -> None:
    """Remove a session folder."""
    shutil.rmtree(folder, ignore_errors=True)
