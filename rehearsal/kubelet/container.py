"""One container of a process pod: its starts, its ends, and when it starts again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.api import Manifest
from rehearsal.kubelet import probes, status
from rehearsal.kubelet.probes import Probe, Prober
from rehearsal.kubelet.sandbox import Process

# The kubelet of a cluster waits 10 s to 5 min between restarts; here nobody has the time.
FIRST_BACK_OFF, LONGEST_BACK_OFF = 1.0, 10.0
# After so long without an end a container counts as healthy, and its next restart comes at once.
HEALTHY_SECONDS = 600.0

# Container's name, kind of event, and what belongs to it.
Tell = Callable[[str, str, object], None]


def back_off(ends: int) -> float:
    """Seconds to wait before a restart, after so many ends in a row: none after the first."""
    return 0.0 if ends <= 1 else float(min(FIRST_BACK_OFF * 2.0 ** (ends - 2), LONGEST_BACK_OFF))


@dataclass
class Container:
    """The running or waiting container, and what is reported about it."""

    spec: Manifest
    pod: Manifest
    init: bool
    tell: Tell
    status: status.ContainerStatus
    process: Process | None = None
    due: float = 0.0
    ends: int = 0
    starts: int = 0
    doomed: bool = False  # somebody asked it to end (a probe), so its end is not its own
    _since: float = 0.0
    _probers: dict[str, Prober] = field(default_factory=dict)
    _started: threading.Event = field(default_factory=threading.Event)

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    @property
    def sidecar(self) -> bool:
        """Whether it is an init container that keeps running beside the others."""
        return self.init and self.spec.get("restartPolicy") == "Always"

    def policy(self, of_pod: str) -> str:
        """When it is started again: an init container only until it has succeeded."""
        if self.sidecar:
            return "Always"
        return "OnFailure" if self.init and of_pod == "Always" else of_pod

    def started_as(self, process: Process, address: str) -> None:
        """Take a process that has just started: report it and begin to probe it."""
        self.process = process
        self.starts += 1
        self._since = time.monotonic()
        self.doomed = False
        self.status.container_id = (
            f"process://{self.pod['metadata']['uid']}/{self.name}/{self.status.restarts}"
        )
        self.status.state = status.running(status.now())
        has = {kind: Probe.of(self.spec, kind) for kind in probes.KINDS}
        self._started = threading.Event()
        if has["startup"] is None:
            self._started.set()
        self.status.started = has["startup"] is None
        self.status.ready = self.status.started and has["readiness"] is None
        self._probers = {
            kind: self._prober(probe, process, address) for kind, probe in has.items() if probe is not None
        }
        for prober in self._probers.values():
            prober.start()
        threading.Thread(target=self._wait, args=(process,), daemon=True).start()

    def _prober(self, probe: Probe, process: Process, address: str) -> Prober:
        def ask() -> tuple[bool, str]:
            return probes.ask(probe, self.spec, address, process.run)

        def tell(kind: str, verdict: bool | None, seen: str) -> None:  # noqa: FBT001 - a probe's answer
            self.tell(self.name, "probe", (process, kind, verdict, seen))

        return Prober(probe, ask, self._started, tell)

    def _wait(self, process: Process) -> None:
        self.tell(self.name, "ended", (process, process.wait()))

    def verdict(self, kind: str, good: bool) -> None:  # noqa: FBT001 - a probe's answer
        """Take what a startup or readiness probe has found."""
        if kind == "startup" and good:
            self.status.started = True
            self.status.ready = "readiness" not in self._probers
            self._started.set()
        elif kind == "readiness":
            self.status.ready = good

    def stop_probes(self, *kinds: str) -> None:
        """Ask no more: the named probes, or all."""
        for kind, prober in self._probers.items():
            if not kinds or kind in kinds:
                prober.stop()

    def ended(self, code: int, of_pod: str, *, message: str = "") -> None:
        """Take the end of its process, or a start that failed: report it, and plan the restart if there is one."""
        self.stop_probes()
        healthy = self.process is not None and time.monotonic() - self._since > HEALTHY_SECONDS
        self.ends = 1 if healthy else self.ends + 1
        since = self.status.state.get("running", {}).get("startedAt", status.now())
        reason = "StartError" if message else ""
        end = status.terminated(code, since, self.status.container_id, reason, message)
        self.process = None
        self.status.state = end
        self.status.ready = self.status.started = False
        if self.init and not self.sidecar and code == 0:
            self.status.ready = True  # as the kubelet reports an init container that is done
        policy = self.policy(of_pod)
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            return
        pause = back_off(self.ends)
        self.due = time.monotonic() + pause
        if pause:
            self.status.last_state = end
            text = f"back-off {pause:g}s restarting failed container={self.name} pod={self.pod['metadata']['name']}"
            self.status.state = status.waiting("CrashLoopBackOff", text)

    def restarting(self) -> None:
        """Count a start that is not the first."""
        if ended := self.status.state.get("terminated"):
            self.status.last_state = {"terminated": ended}
        if self.starts or self.status.last_state:
            self.status.restarts += 1

    @property
    def finished(self) -> bool:
        """Whether it has ended for good (it is not running and no restart is planned)."""
        return self.process is None and self.status.exit_code is not None and not self.due

    def wants_start(self) -> bool:
        """Whether it is to be started now or later."""
        return self.process is None and not self.finished


def log_file(folder: Path, name: str, restarts: int) -> Path:
    """The log for a start; the one before keeps its number: `NAME.0.log` is that of the first start."""
    current = folder / f"{name}.log"
    if current.exists():
        current.replace(folder / f"{name}.{max(restarts - 1, 0)}.log")
    return current


def of_pod(pod: Manifest, tell: Tell) -> list[Container]:
    """The containers of a pod, init containers first.

    What an earlier kubelet reported as running is gone with it: it is reported as ended, and starts again by policy.
    """
    rows = [(row, True) for row in pod["spec"].get("initContainers") or []]
    rows += [(row, False) for row in pod["spec"]["containers"]]
    return [_container(spec, pod, init, tell) for spec, init in rows]


def _container(spec: Manifest, pod: Manifest, init: bool, tell: Tell) -> Container:  # noqa: FBT001 - one caller
    reported = status.ContainerStatus(spec["name"], spec["image"])
    made = Container(spec, pod, init, tell, reported)
    before: Mapping[str, object] | None = status.previous(pod, spec["name"])
    if before and (before.get("containerID") or before.get("restartCount")):
        state = before.get("state")
        lost = status.terminated(
            137,
            "",
            str(before.get("containerID", "")),
            "ContainerStatusUnknown",
            "The kubelet ended and its containers with it.",
        )
        was = state if isinstance(state, dict) and "terminated" in state else lost
        if isinstance(state, dict) and "running" in state:
            lost["terminated"]["startedAt"] = state["running"]["startedAt"]
        lost["terminated"]["startedAt"] = lost["terminated"]["startedAt"] or status.now()
        reported.restarts = int(str(before.get("restartCount") or 0))
        reported.last_state = was
        policy = made.policy(pod["spec"].get("restartPolicy", "Always"))
        code = int(was["terminated"]["exitCode"])
        if policy == "Never" or (policy == "OnFailure" and code == 0 and not init):
            reported.state, reported.last_state = was, {}
    return made
