"""Probes as a pod writes them: how often, how many times, and what counts as an answer."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.api import Manifest

KINDS = ("startup", "readiness", "liveness")
_GOOD = range(200, 400)

# Runs a command in the container within some seconds; gives back its exit code (None: too slow) and its output.
Run = Callable[[list[str], float], tuple[int | None, str]]


@dataclass(frozen=True)
class Probe:
    """One probe with the defaults of Kubernetes filled in."""

    kind: str
    action: Mapping[str, Any]
    delay: float
    period: float
    timeout: float
    successes: int
    failures: int

    @classmethod
    def of(cls, container: Manifest, kind: str) -> Probe | None:
        """The probe of a kind, or None when the container has none."""
        row = container.get(f"{kind}Probe")
        if not row:
            return None
        return cls(
            kind=kind,
            action={name: row[name] for name in ("exec", "httpGet", "tcpSocket") if name in row},
            delay=float(row.get("initialDelaySeconds", 0)),
            period=float(row.get("periodSeconds") or 10),
            timeout=float(row.get("timeoutSeconds") or 1),
            successes=int(row.get("successThreshold") or 1),
            failures=int(row.get("failureThreshold") or 3),
        )


class Counter:
    """Turns single answers into a verdict, which changes only after so many equal answers in a row."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._last: bool | None = None
        self._run = 0

    def take(self, good: bool) -> bool | None:  # noqa: FBT001 - one answer
        """The verdict after this answer, or None while it is not reached."""
        self._run = self._run + 1 if good == self._last else 1
        self._last = good
        enough = self._probe.successes if good else self._probe.failures
        return good if self._run >= enough else None


def port_number(container: Manifest, port: object) -> int:
    """A probe's port: a number, or the name of one of the container's ports."""
    if isinstance(port, int) or str(port).isdigit():
        return int(str(port))
    for row in container.get("ports") or []:
        if row.get("name") == port:
            return int(row["containerPort"])
    raise ValueError(f"container {container['name']} has no port named {port}")


def ask(probe: Probe, container: Manifest, address: str, run: Run) -> tuple[bool, str]:
    """Ask once: whether the answer is good, and what was seen otherwise."""
    try:
        if action := probe.action.get("exec"):
            code, output = run(list(action["command"]), probe.timeout)
            if code is None:
                return False, f"command timed out after {probe.timeout:g}s"
            return code == 0, f"exit code {code}: {output.strip()}"
        if action := probe.action.get("httpGet"):
            return _http(action, container, action.get("host") or address, probe.timeout)
        action = probe.action["tcpSocket"]
        where = (action.get("host") or address, port_number(container, action["port"]))
        with socket.create_connection(where, timeout=probe.timeout):
            return True, ""
    except KeyError:
        return False, "this kubelet knows exec, httpGet and tcpSocket probes only"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return False, str(error)


def _http(action: Manifest, container: Manifest, host: str, timeout: float) -> tuple[bool, str]:
    port = port_number(container, action["port"])
    connection: http.client.HTTPConnection
    if action.get("scheme") == "HTTPS":
        # As the kubelet does: a probe asks whether somebody answers, not who.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        headers = {row["name"]: row["value"] for row in action.get("httpHeaders") or []}
        connection.request(
            "GET", action.get("path") or "/", headers={"User-Agent": "kube-probe/1", **headers}
        )
        status = connection.getresponse().status
    finally:
        connection.close()
    return status in _GOOD, f"HTTP probe failed with statuscode: {status}"


class Prober:
    """Asks one probe of one container again and again in a thread, and tells each verdict and each bad answer."""

    def __init__(
        self,
        probe: Probe,
        ask_once: Callable[[], tuple[bool, str]],
        started: threading.Event,
        tell: Callable[[str, bool | None, str], None],
    ) -> None:
        self.probe = probe
        self._ask = ask_once
        self._started = started
        self._tell = tell
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin. Readiness and liveness wait until the container counts as started."""
        threading.Thread(target=self._loop, name=f"{self.probe.kind} probe", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()
        self._started.set()

    def _loop(self) -> None:
        if self.probe.kind != "startup":
            self._started.wait()
        counter = Counter(self.probe)
        pause = self.probe.delay
        while not self._stop.wait(pause):
            good, seen = self._ask()
            verdict = counter.take(good)
            if self._stop.is_set():
                return
            if verdict is not None or not good:
                self._tell(self.probe.kind, verdict, seen)
            if verdict is True and self.probe.kind == "startup":
                return
            pause = self.probe.period
