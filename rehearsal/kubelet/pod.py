"""The life of one process pod, in a thread of its own: volumes, namespaces, containers, probes, status, deletion."""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.api import Api, Manifest
from rehearsal.errors import ApiError, RehearsalError
from rehearsal.kubelet import container as containers
from rehearsal.kubelet import environment, images, names, status
from rehearsal.kubelet.container import Container
from rehearsal.kubelet.environment import NotStartableError
from rehearsal.kubelet.probes import Probe
from rehearsal.kubelet.sandbox import Bridge, Process, Sandbox, SandboxError
from rehearsal.kubelet.volumes import DEFAULT_SHM, Sources, Volumes
from tools import terminal

STRATEGIC = "application/strategic-merge-patch+json"
# Addresses would be added to those of an earlier kubelet's report otherwise.
REPLACE = {"$patch": "replace"}
RETRY_SECONDS = 2.0
IDLE_SECONDS = 3600.0
NOT_FOUND, CONFLICT, SERVER_ERROR = 404, 409, 500
HOME = "/home/ray"


@dataclass(frozen=True)
class Surroundings:
    """What all pods of a kubelet share."""

    api: Api
    state: Path
    bridge: Bridge
    sources: Sources
    time_factor: float
    # namespace, pod's host name, address -> the text of its hosts file
    hosts: Callable[[str, str, str], str]
    node_address: Callable[[str], str]
    base: Callable[[images.Local], dict[str, str]]


@dataclass
class Pod:
    """One pod. `update` and `lost` are called from other threads; all else happens in its own."""

    item: Manifest
    address: str
    around: Surroundings
    gone: Callable[[str], None]
    _events: queue.SimpleQueue[tuple[str, str, Any]] = field(default_factory=queue.SimpleQueue)
    _all: list[Container] = field(default_factory=list)
    _sandbox: Sandbox | None = None
    _initialized: bool = False
    _init_failed: bool = False
    _deadline: float | None = None
    _hard: bool = False
    _reported: dict[str, Any] = field(default_factory=dict)
    _conditions: list[dict[str, Any]] = field(default_factory=list)
    _since: str = ""

    def __post_init__(self) -> None:
        metadata = self.item["metadata"]
        self.uid = str(metadata["uid"])
        self.namespace = str(metadata["namespace"])
        self.name = str(metadata["name"])
        self.node = str(self.item["spec"]["nodeName"])
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = self.around.state / "run" / self.uid
        self.logs = self.around.state / "pods" / f"{self.namespace}_{self.name}"
        self._since = (self.item.get("status") or {}).get("startTime") or status.now()
        self._conditions = list((self.item.get("status") or {}).get("conditions") or [])
        self.item = self._with_address(self.item)
        self.volumes = Volumes(self.item, self.folder / "volumes", self.around.sources)
        self._policy = str(self.item["spec"].get("restartPolicy") or "Always")

    # --- from other threads

    def start(self) -> None:
        """Begin its life."""
        threading.Thread(target=self._run, name=f"pod {self.name}", daemon=True).start()

    def update(self, item: Manifest) -> None:
        """The pod's object has changed."""
        self._events.put(("", "object", item))

    def lost(self) -> None:
        """The pod's node or object is gone: everything of it ends at once."""
        self._events.put(("", "lost", None))

    def refresh(self) -> None:
        """Something that its files are made from has changed."""
        self._events.put(("", "refresh", None))

    # --- its own thread

    def _with_address(self, item: Manifest) -> dict[str, Any]:
        """The object as the downward API sees it: with the addresses, which the API may not have yet."""
        known = {"podIP": self.address, "hostIP": self.around.node_address(self.node)}
        return {**item, "status": {**(item.get("status") or {}), **known}}

    def _run(self) -> None:
        try:
            self._all = containers.of_pod(self.item, lambda *event: self._events.put(event))
            self._note_deletion(self.item)
            self._live()
        except Exception:  # noqa: BLE001 - one pod's failure must not be silent, nor stop the others
            terminal.say(f"{self.namespace}/{self.name}: {traceback.format_exc()}", "kubelet")
        finally:
            self._clear_away()
            self.gone(self.uid)

    def _live(self) -> None:
        while not self._hard and self._deadline is None:
            wait = self._advance()
            self._publish()
            if self._ended():
                break
            self._take(wait)
        self._let_end()
        if not self._hard:
            self._publish()
            if self._deadline is not None:
                self._delete()

    def _ended(self) -> bool:
        phase = self._phase()
        if phase not in ("Succeeded", "Failed"):
            return False
        return all(one.process is None for one in self._all if not one.sidecar)

    def _main(self) -> list[Container]:
        return [one for one in self._all if not one.init]

    def _advance(self) -> float:
        """Start what is due; gives back the seconds until something else is."""
        try:
            self._prepare()
        except (NotStartableError, SandboxError, RehearsalError, OSError) as error:
            for one in self._all:
                one.status.state = status.waiting(getattr(error, "reason", "ContainerCreating"), str(error))
            return RETRY_SECONDS
        waits = [self._start_if_due(one) for one in self._startable()]
        return min([IDLE_SECONDS, *waits])

    def _prepare(self) -> None:
        if self._sandbox and self._sandbox.alive():
            return
        self._mark_logs()
        self.volumes.make()
        self._write_names()
        self._sandbox = Sandbox(name=self.name, uid=self.uid, address=self.address, bridge=self.around.bridge)

    def _mark_logs(self) -> None:
        """Keep the logs of an earlier pod of the same name under its uid."""
        mark = self.logs / "uid"
        if mark.is_file() and mark.read_text() != self.uid:
            self.logs.rename(f"{self.logs}.{mark.read_text()[:8]}")
        self.logs.mkdir(parents=True, exist_ok=True)
        mark.write_text(self.uid)

    def _startable(self) -> list[Container]:
        """The containers that may be started: init containers one after the other, then all others."""
        found = []
        for one in self._all:
            if not one.init:
                continue
            if one.sidecar:
                found += [one] if one.wants_start() else []
                if not one.status.started and not self._initialized:
                    return found
            elif not self._initialized and one.status.exit_code != 0:
                self._init_failed = one.finished
                return found if one.finished else [*found, one]
        self._initialized = True
        return found + [one for one in self._main() if one.wants_start()]

    def _start_if_due(self, one: Container) -> float:
        """Start a container, or give back how long it has to wait."""
        if one.process is not None:
            return IDLE_SECONDS
        wait = one.due - time.monotonic()
        if wait > 0:
            return wait
        try:
            process = self._process(one)
        except (NotStartableError, RehearsalError) as error:
            reason = getattr(error, "reason", "CreateContainerConfigError")
            one.status.state = status.waiting(reason, str(error))
            return RETRY_SECONDS
        except (SandboxError, OSError) as error:
            with (self.logs / f"{one.name}.log").open("a") as log:
                log.write(f"kubelet: {error}\n")
            one.due = 0.0
            one.ended(128, self._policy, message=str(error))
            one.starts += 1
            self._events.put((one.name, "again", None))
            return IDLE_SECONDS
        one.due = 0.0
        one.started_as(process, self.address)
        # An init container or sidecar may open the way for the next.
        self._events.put((one.name, "again", None))
        return IDLE_SECONDS

    def _process(self, one: Container) -> Process:
        local = images.local_of(one.spec["image"])
        if local is None or local is images.BROKEN:
            raise NotStartableError(
                "ErrImagePull", f"image {one.spec['image']} has no environment on this machine"
            )
        base = self.around.base(local)
        variables = environment.variables(
            one.spec, self.item, self.around.sources.find, base=base, node=self.around.sources.node(self.node)
        )
        command = environment.command(one.spec, variables)
        mounts = [*self._own_mounts(one, local), *self.volumes.mounts(one.spec, variables)]
        if self._sandbox is None:
            raise SandboxError("the pod has no namespaces")
        one.restarting()
        return Process(
            self._sandbox,
            root=self.folder / one.name / "root",
            mounts=mounts,
            command=command,
            variables=variables,
            cwd=one.spec.get("workingDir"),
            log=containers.log_file(self.logs, one.name, one.status.restarts),
        )

    def _own_mounts(self, one: Container, local: images.Local) -> list[dict[str, Any]]:
        """What every container has beside its volumes: a fresh /tmp and home, names, and its environment's folder."""
        own = self.folder / one.name
        rows: list[dict[str, Any]] = [{"target": "/dev/shm", "options": DEFAULT_SHM}]  # noqa: S108
        for target, name in (("/tmp", "tmp"), (HOME, "home")):  # noqa: S108 - inside the container
            place = own / name
            shutil.rmtree(place, ignore_errors=True)  # a restarted container begins with an empty one
            place.mkdir(parents=True)
            place.chmod(0o1777)
            rows.append({"source": str(place), "target": target})
        rows += [
            {"source": str(self.folder / name), "target": f"/etc/{name}"}
            for name in ("hosts", "resolv.conf", "profile")
        ]
        # Those that lie below a folder which a container has of its own would be hidden.
        folder = local.folder()
        rows += [
            {"source": str(place), "target": str(place), "read_only": True}
            for place in (folder, PROGRAMS)
            if place and place.parts[1] in ("tmp", "run")
        ]
        return rows

    def _write_names(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "resolv.conf").write_text(names.RESOLVER)
        # A login shell reads this file, and the machine's own would set PATH anew.
        (self.folder / "profile").write_text("# PATH stays that of the container\n")
        hosts = self.folder / "hosts"
        text = self.around.hosts(self.namespace, names.host_name(self.item), self.address)
        if not hosts.exists() or hosts.read_text() != text:
            rewrite(hosts, text)

    # --- events

    def _take(self, seconds: float) -> None:
        """Wait for an event, then take all there are."""
        with contextlib.suppress(queue.Empty):
            event = self._events.get(timeout=max(seconds, 0.0))
            while True:
                self._handle(*event)
                event = self._events.get_nowait()

    def _handle(self, name: str, kind: str, content: Any) -> None:
        if kind == "object":
            self.item = self._with_address(content)
            self.volumes.pod = self.item
            self._note_deletion(content)
        elif kind == "lost":
            self._hard = True
        elif kind == "refresh" and self._sandbox:
            self._write_names()
            with contextlib.suppress(
                RehearsalError
            ):  # the server is away; the next change comes by the watch
                self.volumes.refresh()
        elif kind in ("ended", "probe"):
            one = next(row for row in self._all if row.name == name)
            process, *rest = content
            if process is one.process:
                self._ended_or_probed(one, kind, rest)

    def _ended_or_probed(self, one: Container, kind: str, rest: list[Any]) -> None:
        if kind == "ended":
            one.ended(rest[0], "Never" if self._deadline is not None else self._policy)
            return
        probe, verdict, seen = rest
        if verdict is not True:
            self._unhealthy(one, probe, seen)
        if verdict is None:
            return
        if verdict is False and probe in ("liveness", "startup"):
            self._restart(one)
        else:
            one.verdict(probe, verdict)

    def _unhealthy(self, one: Container, probe: str, seen: str) -> None:
        with (self.logs / "probes.log").open("a") as log:
            log.write(f"{status.now()} {one.name} {probe} probe failed: {seen}\n")

    def _restart(self, one: Container) -> None:
        """End a container that its probe found dead; its restart follows from its end."""
        if one.doomed or self._deadline is not None:
            return
        one.doomed = True
        one.stop_probes()
        process = one.process
        given = Probe.of(one.spec, "liveness")
        own = (one.spec.get("livenessProbe") or {}).get("terminationGracePeriodSeconds") if given else None
        grace = own or self.item["spec"].get("terminationGracePeriodSeconds", 30)
        if process:
            process.signal(signal.SIGTERM)
            killer = threading.Timer(
                float(grace) / self.around.time_factor, process.signal, (signal.SIGKILL,)
            )
            killer.daemon = True
            killer.start()

    # --- the end

    def _note_deletion(self, item: Manifest) -> None:
        metadata = item["metadata"]
        if metadata.get("deletionTimestamp"):
            grace = float(metadata.get("deletionGracePeriodSeconds") or 0) / self.around.time_factor
            deadline = time.monotonic() + grace
            self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    def _let_end(self) -> None:
        """SIGTERM to the containers and wait for the grace, sidecars after the others; then SIGKILL."""
        for group in (self._main() + [one for one in self._all if one.init and not one.sidecar],
                      [one for one in reversed(self._all) if one.sidecar]):  # fmt: skip
            if not self._hard:
                self._ask_to_end(group)
            self._wait_for_end(group)
        if self._hard:
            self._wait_for_end(self._all)

    def _ask_to_end(self, group: list[Container]) -> None:
        if self._deadline is None:  # the pod is done, and only its sidecars still run
            self._deadline_of_done = time.monotonic() + 30.0 / self.around.time_factor
        for one in group:
            if one.process is not None:
                one.stop_probes("startup", "liveness")
                threading.Thread(target=self._end, args=(one, one.process), daemon=True).start()

    def _end(self, one: Container, process: Process) -> None:
        """The container's own hook, then SIGTERM to its first process."""
        hook = (one.spec.get("lifecycle") or {}).get("preStop") or {}
        left = max((self._deadline or 0.0) - time.monotonic(), 0.0)
        if action := hook.get("exec"):
            process.run(action["command"], left)
        elif pause := hook.get("sleep"):
            time.sleep(min(float(pause["seconds"]) / self.around.time_factor, left))
        process.signal(signal.SIGTERM)

    def _wait_for_end(self, group: list[Container]) -> None:
        killed = False
        while any(one.process for one in group):
            limit = self._deadline if self._deadline is not None else self._deadline_of_done
            left = limit - time.monotonic()
            if self._hard or left <= 0:
                for one in group if not killed else ():
                    if one.process:
                        one.process.signal(signal.SIGKILL)
                killed = True
                left = IDLE_SECONDS
            self._take(left)
            if not self._hard:
                self._publish()

    _deadline_of_done: float = 0.0

    def _clear_away(self) -> None:
        for one in self._all:
            one.stop_probes()
            if one.process:
                one.process.signal(signal.SIGKILL)
                one.process.wait()
        if self._sandbox:
            self._sandbox.end()
        keep_ray_logs(self.folder, self.logs)
        self.volumes.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _delete(self) -> None:
        """Tell the API server that nothing of the pod runs any more."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        self._persist(lambda: self.around.api.request("DELETE", self.path, body))

    def _persist(self, send: Callable[[], object]) -> None:
        """Send until the server answers; that the pod is gone, or that another has its name, is an answer too."""
        while not self._hard:
            try:
                send()
            except ApiError as error:
                if error.status not in (NOT_FOUND, CONFLICT):
                    terminal.say(f"{self.namespace}/{self.name}: {error}", "kubelet")
                if error.status < SERVER_ERROR:
                    return
            except RehearsalError:
                pass  # the server is away
            else:
                return
            self._wait_for_server()

    def _wait_for_server(self) -> None:
        deadline = time.monotonic() + RETRY_SECONDS
        while not self._hard and time.monotonic() < deadline:
            self._take(deadline - time.monotonic())

    # --- what is reported

    def _phase(self) -> str:
        states = [one.status for one in self._main()]
        if self._deadline is not None and all(one.process is None for one in self._all):
            bad = any(state.exit_code not in (0, None) for state in states)
            return "Failed" if bad else "Succeeded"
        return status.phase(
            states, self._policy, initialized=self._initialized, init_failed=self._init_failed
        )

    def _publish(self) -> None:
        phase = self._phase()
        states = [one.status for one in self._main()]
        self._conditions = status.pod_conditions(
            self.item,
            states,
            initialized=self._initialized,
            ended=phase in ("Succeeded", "Failed"),
            known=self._conditions,
        )
        report: dict[str, Any] = {
            "phase": phase,
            "startTime": self._since,
            "hostIP": self.around.node_address(self.node),
            "hostIPs": [REPLACE, {"ip": self.around.node_address(self.node)}],
            "conditions": self._conditions,
            "containerStatuses": [state.report() for state in states],
            "initContainerStatuses": [one.status.report() for one in self._all if one.init],
        }
        if self._sandbox:
            report |= {"podIP": self.address, "podIPs": [REPLACE, {"ip": self.address}]}
        if report == self._reported:
            return
        body: Mapping[str, Any] = {"metadata": {"uid": self.uid}, "status": report}
        self._persist(lambda: self.around.api.request("PATCH", f"{self.path}/status", body, STRATEGIC))
        self._reported = report


PROGRAMS = Path(__file__).with_name("programs")


def rewrite(path: Path, text: str) -> None:
    """Write a file in place, for a container has this very file mounted; a reader never finds it empty."""
    content = text.encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def keep_ray_logs(folder: Path, logs: Path) -> None:
    """Ray's own logs lie in its session folder, which goes with the pod; they are the first thing to look at."""
    for place in folder.glob("*/**/session_*/logs"):
        if place.is_dir() and not place.parent.is_symlink():
            target = logs / "ray"
            shutil.rmtree(target, ignore_errors=True)
            with contextlib.suppress(OSError):
                shutil.copytree(place, target, symlinks=True, ignore=_no_sockets)


def _no_sockets(folder: str, found: list[str]) -> set[str]:
    return {
        name for name in found if not (Path(folder) / name).is_file() and not (Path(folder) / name).is_dir()
    }
