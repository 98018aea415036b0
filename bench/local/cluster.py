"""A Ray cluster of several nodes on this machine, one for each pod that the stack's RayService would have.

All nodes share the loopback address, so each has its own ports; the proxies of nodes other than the head answer at
`Node.url`. A node is ended as a kubelet ends a pod: SIGTERM to Ray, and SIGKILL to everything after the pod's grace.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.local.plan import LOOPBACK, Plan, plan_for
from bench.local.ray import LocalError, RayNode, ServeApi, free_ports, own_address, remove, session_folder
from tools.lifetime import Startable

Say = Callable[[str], None]

_DEPLOY_SECONDS = 400


@dataclass
class Node:
    """A running pod's stand-in."""

    name: str
    ray: RayNode
    port: int

    @property
    def url(self) -> str:
        """The OpenAI API through this node's own proxy."""
        return f"http://{LOOPBACK}:{self.port}/v1"


class Cluster(Startable):
    """Head and workers; `with Cluster(objects, home) as cluster:`."""

    def __init__(
        self,
        objects: Iterable[Mapping[str, Any]],
        home: Path,
        *,
        variables: Mapping[str, str] | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        say: Say = lambda _text: None,
    ) -> None:
        self.objects = list(objects)
        self.folder = session_folder()
        self.programs = home / "bin"
        self.say = say
        self.plan: Plan = plan_for(
            self.objects, weights=home / "tiny", port=free_ports(1)[0], folder=self.folder
        )
        if change:
            change(self.plan.document)
        self._variables = {**self.plan.environment, **(variables or {})}
        (self.folder / "code").mkdir()
        for name, text in self.plan.code.items():
            (self.folder / "code" / name).write_text(text)
        service = next(o for o in self.objects if o["kind"] == "RayService")
        self._groups = {g["groupName"]: g for g in service["spec"]["rayClusterConfig"]["workerGroupSpecs"]}
        self.nodes: dict[str, Node] = {}
        self._leaving: list[Node] = []
        # A node that joins takes the machine's own address whatever it is told, so the head has to have it too.
        self._ip = own_address()
        self._made = 0
        self.head: RayNode
        self.api: ServeApi

    @property
    def groups(self) -> tuple[str, ...]:
        """Worker groups of the RayService."""
        return tuple(self._groups)

    @property
    def application(self) -> str:
        """Name of the Serve application."""
        return str(self.plan.document["applications"][0]["name"])

    def start(self) -> None:
        """Start the head; workers are added."""
        self.start_head()

    def start_head(self, port: int | None = None) -> None:
        """The head: control only, as in the stack. `port` names the one of a head that came before."""
        token = self.head.token if hasattr(self, "head") else None
        # A head's successor is a pod of its own with an empty folder. Here Ray would find this file, see the raylets of
        # the other nodes with the same address in their command lines, and refuse to start beside itself.
        (self.folder / "h" / "ray" / "ray_current_cluster").unlink(missing_ok=True)
        self.head = RayNode(
            self.programs,
            self.folder / "h",
            self._variables,
            {"CPU": 0},
            ip=self._ip,
            gcs_port=port,
            token=token,
        )
        self.api = ServeApi(self.head)
        self.api.wait_for_dashboard()

    def add(self, group: str) -> Node:
        """A pod of a group joins, with what Ray counts on it and the group's own variables."""
        spec = self._groups[group]
        self._made += 1
        port = free_ports(1)[0]
        own = {
            v["name"]: v["value"] for v in spec["template"]["spec"]["containers"][0]["env"] if "value" in v
        }
        # What names a place or a service here wins over the emitted value; the drain time is the group's own.
        grace = {k: own[k] for k in ("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S",) if k in own}
        variables = {**own, **self._variables, **grace, "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(port)}
        resources = {
            ("CPU" if k == "GPU" else k): float(v) for k, v in spec["resources"].items() if ":" not in k
        }
        name = f"{group}-{self._made}"
        node = RayNode(
            self.programs,
            self.folder / f"n{self._made}",
            variables,
            resources,
            address=self.head.address,
            ip=self._ip,
            token=self.head.token,
        )
        self.nodes[name] = Node(name, node, port)
        return self.nodes[name]

    def revive(self) -> None:
        """Start anew what has ended by itself, as the kubelet does with a pod's containers."""
        for node in list(self.nodes.values()):
            if not node.ray.alive():
                self.nodes.pop(node.name)
                self.add(node.name.rpartition("-")[0])

    def deploy(self, wait: bool = True) -> float:  # noqa: FBT001, FBT002 - one switch, always named
        """Apply the document; seconds until everything runs."""
        self.api.deploy(self.plan.document)
        return self.wait_until_whole() if wait else 0.0

    def wait_until_whole(self, replicas: int | None = None, seconds: float = _DEPLOY_SECONDS) -> float:
        """Seconds until every deployment has its replicas running (the engine's: `replicas`, if given).

        Raises:
            LocalError: not within the time.
        """
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            self.revive()  # Ray gives a node 30 s to join, which is short on a busy machine
            with contextlib.suppress(OSError, ValueError, KeyError):
                if self.is_whole(replicas):
                    return time.monotonic() - started
            time.sleep(0.5)
        raise LocalError(
            f"not whole after {seconds:.0f} s: {self.api.replicas(self.application)}; see {self.folder}"
        )

    def is_whole(self, replicas: int | None = None) -> bool:
        """Whether all deployments have as many running replicas as they want."""
        application = self.api.status()["applications"][self.application]
        for name, deployment in application["deployments"].items():
            running = sum(replica["state"] == "RUNNING" for replica in deployment["replicas"])
            wanted = deployment["target_num_replicas"]
            if name.startswith("LLMServer") and replicas is not None:
                wanted = replicas
            if running < max(1, wanted):
                return False
        return str(application["status"]) == "RUNNING"

    def replica_pids(self) -> list[int]:
        """Process ids of the engine's running replicas."""
        deployments = self.api.status()["applications"][self.application]["deployments"]
        return [
            int(replica["pid"])
            for name, deployment in deployments.items()
            if name.startswith("LLMServer")
            for replica in deployment["replicas"]
            if replica["state"] == "RUNNING"
        ]

    def end_as_kubelet(self, node: Node, grace: float) -> Callable[[], float]:
        """SIGTERM now; returns a function that waits for the end, kills after the grace, and says how long it took."""
        started = time.monotonic()
        node.ray.drain()
        self._leaving.append(self.nodes.pop(node.name))  # a pod that is deleted is no endpoint any more

        def finish() -> float:
            while node.ray.alive() and time.monotonic() - started < grace:
                time.sleep(0.2)
            node.ray.stop()
            return time.monotonic() - started

        return finish

    def kill(self, node: Node) -> None:
        """As if its machine were gone."""
        node.ray.kill()
        self.nodes.pop(node.name, None)

    def stop(self) -> None:
        """End all nodes and remove the session's folder."""
        for node in [*self.nodes.values(), *self._leaving]:
            node.ray.stop()
        if hasattr(self, "head"):
            self.head.stop()
        remove(self.folder)
