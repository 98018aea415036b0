"""What the kubelet reports about a pod and its containers, as the API has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rehearsal.api import Manifest

State = dict[str, dict[str, Any]]


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting(reason: str, message: str = "") -> State:
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def running(since: str) -> State:
    """The state of a container that runs."""
    return {"running": {"startedAt": since}}


def terminated(code: int, since: str, container_id: str, reason: str = "", message: str = "") -> State:
    """The state of a container that has ended. An exit code above 128 names the signal that ended it."""
    row: dict[str, Any] = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": since,
        "finishedAt": now(),
        "containerID": container_id,
    }
    return {"terminated": row | ({"message": message} if message else {})}


@dataclass
class ContainerStatus:
    """What is reported about one container."""

    name: str
    image: str
    state: State = field(default_factory=lambda: waiting("PodInitializing"))
    last_state: State = field(default_factory=dict)
    restarts: int = 0
    started: bool = False
    ready: bool = False
    container_id: str = ""

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Its exit code, when it has ended and does not wait for a restart."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def report(self) -> dict[str, Any]:
        """As the API has it."""
        return {
            "name": self.name,
            "image": self.image,
            "imageID": self.image,
            "containerID": self.container_id,
            "state": self.state,
            "lastState": self.last_state,
            "restartCount": self.restarts,
            "started": self.started,
            "ready": self.ready,
        }


def previous(pod: Manifest, name: str) -> dict[str, Any] | None:
    """What was reported about a container before, for instance by a kubelet that has ended since."""
    status = pod.get("status") or {}
    rows = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    return next((row for row in rows if row["name"] == name), None)


def phase(containers: Sequence[ContainerStatus], policy: str, *, initialized: bool, init_failed: bool) -> str:
    """The phase of a pod, from its main containers."""
    if init_failed:
        return "Failed"
    if not initialized:
        return "Pending"
    codes = [one.exit_code for one in containers]
    if policy != "Always" and all(code is not None for code in codes):
        good = all(code == 0 for code in codes)
        if good:
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    touched = any(one.is_running or one.exit_code is not None or one.restarts for one in containers)
    return "Running" if touched else "Pending"


def conditions(
    values: Mapping[str, tuple[bool, str, str]], known: Sequence[Manifest]
) -> list[dict[str, Any]]:
    """Conditions from type -> (value, reason, message); the time of change is kept while the value stays."""
    before = {row["type"]: row for row in known}
    result = []
    for kind, (value, reason, message) in values.items():
        text = "True" if value else "False"
        old = before.get(kind, {})
        same = old.get("status") == text
        row = {
            "type": kind,
            "status": text,
            "lastProbeTime": None,
            "lastTransitionTime": old.get("lastTransitionTime") if same else now(),
            "reason": reason or None,
            "message": message or None,
        }
        result.append(row)
    return result


def pod_conditions(
    pod: Manifest,
    containers: Sequence[ContainerStatus],
    *,
    initialized: bool,
    ended: bool,
    known: Sequence[Manifest],
) -> list[dict[str, Any]]:
    """The conditions that a kubelet reports."""
    unready = [one.name for one in containers if not one.ready]
    reason = "PodCompleted" if ended else "ContainersNotReady" if unready else ""
    message = f"containers with unready status: [{' '.join(unready)}]" if unready and not ended else ""
    all_ready = not unready and not ended
    given = {row["type"]: row["status"] for row in (pod.get("status") or {}).get("conditions") or []}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or []]
    closed = [gate for gate in gates if given.get(gate) != "True"]
    ready = (all_ready and not closed, reason, message)
    if all_ready and closed:
        ready = (False, "ReadinessGatesNotReady", f"the conditions {' '.join(closed)} are not True")
    values = {
        "Initialized": (initialized, "" if initialized else "ContainersNotInitialized", ""),
        "ContainersReady": (all_ready, reason, message),
        "Ready": ready,
        "PodScheduled": (True, "", ""),
    }
    return conditions(values, known)
