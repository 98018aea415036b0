"""The kubelet: follows the API and keeps one thread for each process pod of all nodes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rehearsal.api import Api, Manifest
from rehearsal.errors import ApiError
from rehearsal.kubelet import images, names, sandbox
from rehearsal.kubelet.environment import NotStartableError
from rehearsal.kubelet.pod import HOME, NOT_FOUND, PROGRAMS, Pod, Surroundings
from rehearsal.kubelet.sandbox import Bridge
from rehearsal.kubelet.volumes import Sources
from rehearsal.kubelet.watch import Watch

# Upper half of the pods' network: the simulated kubelet names addresses of the lower half, which nobody has.
FIRST_ADDRESS = 128 * 256 + 2
DONE = ("Succeeded", "Failed")
NO_NODE_ADDRESS = "192.0.2.10"
_PATHS = {"ConfigMap": "configmaps", "Secret": "secrets", "ServiceAccount": "serviceaccounts"}
# Only what a program needs of the machine: none of its certificates, proxies and Python paths.
_TAKEN = ("LANG", "LC_ALL", "TZ")


@dataclass(frozen=True)
class Options:
    """The command line."""

    state: Path
    bridge: str
    bridge_name: str | None
    time_factor: float


class Kubelet:
    """All process pods of a cluster."""

    def __init__(self, api: Api, options: Options) -> None:
        """Find the bridge. Raises SandboxError when this is not the rehearsal's network namespace."""
        self._api = api
        found = Bridge.find(options.bridge)
        self._bridge = Bridge(options.bridge_name or found.name, found.interface)
        self._lock = threading.Lock()
        self._pods: dict[str, Pod] = {}
        self._address = FIRST_ADDRESS
        self._dirty = threading.Event()
        server = urlsplit(api.url)
        self._server = (server.hostname or "", str(server.port))
        self._watches = {
            "nodes": Watch(api, "/api/v1/nodes", self._node_changed),
            "slices": Watch(api, "/apis/discovery.k8s.io/v1/endpointslices", self._sources_changed),
            "configmaps": Watch(api, "/api/v1/configmaps", self._sources_changed),
            "secrets": Watch(api, "/api/v1/secrets", self._sources_changed),
            "pods": Watch(api, "/api/v1/pods", self._pod_changed, fieldSelector="spec.nodeName!="),
        }
        sources = Sources(
            find=self._find,
            token=self._token,
            authority=api.ca_file.read_bytes(),
            claims=options.state / "claims",
            nodes=options.state / "nodes",
            node=lambda name: self._watches["nodes"].get("", name) or {},
        )
        self._around = Surroundings(
            api=api,
            state=options.state,
            bridge=self._bridge,
            sources=sources,
            time_factor=options.time_factor,
            hosts=self._hosts,
            node_address=self._node_address,
            base=self._base,
        )
        # What an earlier kubelet left of its pods: they ended with it.
        shutil.rmtree(options.state / "run", ignore_errors=True)

    def run(self, stopped: threading.Event) -> None:
        """Follow the cluster until asked to stop; the pods' processes end with this one."""
        for name, watch in self._watches.items():
            if name != "pods":
                watch.start()
        for name, watch in self._watches.items():
            if name != "pods":
                watch.listed.wait()
        self._watches["pods"].start()
        while not stopped.is_set():
            if self._dirty.wait(0.5):
                self._dirty.clear()
                for pod in self._running():
                    pod.refresh()

    def _running(self) -> list[Pod]:
        with self._lock:
            return list(self._pods.values())

    # --- changes

    def _sources_changed(self, _item: Manifest, _gone: bool) -> None:  # noqa: FBT001 - of a watch
        self._dirty.set()

    def _node_changed(self, item: Manifest, gone: bool) -> None:  # noqa: FBT001 - of a watch
        if gone:
            for pod in self._running():
                if pod.node == item["metadata"]["name"]:
                    pod.lost()

    def _pod_changed(self, item: Manifest, gone: bool) -> None:  # noqa: FBT001 - of a watch
        uid = item["metadata"]["uid"]
        with self._lock:
            pod = self._pods.get(uid)
        if pod is not None:
            if gone:
                pod.lost()
            else:
                pod.update(item)
        elif not gone and images.runs_here(item):
            self._take(item)

    def _take(self, item: Manifest) -> None:
        if self._watches["nodes"].get("", item["spec"]["nodeName"]) is None:
            return  # its node is gone, so nobody can run it; the garbage collector of pods takes it away
        if (item.get("status") or {}).get("phase") in DONE and not item["metadata"].get("deletionTimestamp"):
            return
        pod = Pod(item, self._next_address(), self._around, self._gone)
        with self._lock:
            self._pods[pod.uid] = pod
        pod.start()

    def _gone(self, uid: str) -> None:
        with self._lock:
            self._pods.pop(uid, None)

    def _next_address(self) -> str:
        used = {(pod.get("status") or {}).get("podIP") for pod in self._watches["pods"].all()}
        used |= {pod.address for pod in self._running()}
        network = self._bridge.interface.network
        while True:
            number = self._address % (network.num_addresses - 1)
            self._address += 1
            address = str(network[number])
            if address not in used and address != str(self._bridge.interface.ip) and number:
                return address

    # --- what pods ask for

    def _find(self, kind: str, namespace: str, name: str) -> Manifest | None:
        plural = _PATHS[kind]
        known = self._watches[plural].get(namespace, name) if plural in self._watches else None
        # What was made a moment ago may not have come by the watch.
        return known or self._api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")

    def _token(self, pod: Manifest, audience: str, seconds: int) -> str:
        metadata = pod["metadata"]
        named = pod["spec"].get("serviceAccountName")
        account = named or "default"
        spec: dict[str, Any] = {"expirationSeconds": seconds}
        if named:  # the admission that writes the default's name into a pod is off, and a token may not be bound to one without
            bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
            spec["boundObjectRef"] = bound
        if audience:
            spec["audiences"] = [audience]
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            return str(self._api.request("POST", path, body)["status"]["token"])
        except ApiError as error:
            if error.status == NOT_FOUND:
                raise NotStartableError(
                    "ContainerCreating", f'serviceaccount "{account}" not found'
                ) from error
            raise

    def _hosts(self, namespace: str, host: str, address: str) -> str:
        slices = self._watches["slices"].all()
        return names.hosts(
            slices, namespace=namespace, host=host, address=address, api_address=self._server[0]
        )

    def _node_address(self, name: str) -> str:
        node = self._watches["nodes"].get("", name) or {}
        rows = (node.get("status") or {}).get("addresses") or []
        return next((row["address"] for row in rows if row["type"] == "InternalIP"), NO_NODE_ADDRESS)

    def _base(self, local: images.Local) -> dict[str, str]:
        """The variables of every container of an image: PATH with its programs first, and where the API server is."""
        folder = local.folder()
        return {
            **{name: os.environ[name] for name in _TAKEN if name in os.environ},
            "PATH": os.pathsep.join(self._search(folder)),
            "HOME": HOME,
            "KUBERNETES_SERVICE_HOST": self._server[0],
            "KUBERNETES_SERVICE_PORT": self._server[1],
            "KUBERNETES_SERVICE_PORT_HTTPS": self._server[1],
            **local.variables,
        }

    def _search(self, folder: Path | None) -> Iterator[str]:
        if folder:
            yield str(folder / "bin")
        yield os.environ.get("PATH", os.defpath)
        yield str(PROGRAMS)


def follow(api: Api, options: Options, stopped: threading.Event) -> None:
    """Run the kubelet, with mounts of its own."""
    sandbox.own_mounts()
    Kubelet(api, options).run(stopped)
