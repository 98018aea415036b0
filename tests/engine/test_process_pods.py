"""The kubelet of process pods, for real: pods as processes in namespaces, seen through the API server and from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.control_plane import ControlPlane
from rehearsal.kubelet import inside
from rehearsal.simulated_node import condition
from tests.engine.helpers import ROOT, alive, soon
from tools import cache
from tools.table import find

ADDRESS = "10.244.0.1"
BRIDGE = f"link set lo up\nlink add pods0 type bridge\naddr add {ADDRESS}/16 dev pods0\nlink set pods0 up\n"
IMAGE = "registry.example.com/llm-platform/machine:1"
PODS = "/api/v1/namespaces/default/pods"

pytestmark = [
    pytest.mark.server,
    pytest.mark.usefixtures("network"),
    pytest.mark.skipif(
        cache.locate(find("kube-controller-manager")) is None,
        reason="not built: kube-controller-manager; run `make tools`",
    ),
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="makes network namespaces: needs root on Linux"
    ),
]


@pytest.fixture(scope="module")
def network() -> Iterator[None]:
    """A network namespace with the pods' bridge, for this thread and what it starts."""
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    inside.unshare(inside.NEW_NET)
    try:
        subprocess.run(["ip", "-batch", "-"], input=BRIDGE, text=True, check=True)
        yield
    finally:
        inside._check(inside._libc.setns(outside, inside.NEW_NET), "setns")
        os.close(outside)


class Cluster:
    """A control plane with two nodes, and the kubelet as a process."""

    def __init__(self, plane: ControlPlane, state: Path) -> None:
        self.api = plane.api
        self.state = state
        self._kubeconfig = plane.kubeconfig
        for name in ("n1", "n2"):
            self.add_node(name)
        self.kubelet = self.start_kubelet()

    def add_node(self, name: str) -> None:
        """A node object that is ready."""
        self.api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        room = {"cpu": "8", "memory": "16Gi", "pods": "50"}
        status = {"capacity": room, "allocatable": room, "conditions": [condition("Ready")]}
        status["addresses"] = [{"type": "InternalIP", "address": "10.0.0.7"}]
        self.api.patch_status(f"/api/v1/nodes/{name}", status)

    def start_kubelet(self) -> subprocess.Popen[bytes]:
        """Start it as the rehearsal does."""
        command = [sys.executable, "-m", "rehearsal.kubelet", "--kubeconfig", str(self._kubeconfig)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.kubelet = subprocess.Popen([*command, "--state", str(self.state)], cwd=ROOT, env=environment)
        return self.kubelet

    def run(
        self, name: str, script: str, *, node: str = "n1", main: dict[str, Any] | None = None, **spec: Any
    ) -> None:
        """Make a pod of one container that runs a script in a login shell, as KubeRay's do."""
        container = {"name": "main", "image": IMAGE, "command": ["/bin/bash", "-lc", "--"], "args": [script]}
        container["env"] = [{"name": "MARK", "value": f"{self.state}/{name}"}]
        content = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 2,
            "containers": [container | (main or {})],
        }
        metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
        self.api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": content | spec})

    def status(self, name: str) -> dict[str, Any]:
        """A pod's status, empty when there is no such pod."""
        return (self.api.get(f"{PODS}/{name}") or {}).get("status", {})

    def phase(self, name: str, *wanted: str) -> bool:
        """Whether a pod comes to one of these phases."""
        return soon(lambda: self.status(name).get("phase") in wanted)

    def main(self, name: str) -> dict[str, Any]:
        """The status of a pod's main container."""
        return next(iter(self.status(name).get("containerStatuses", [])), {})

    def log(self, name: str, container: str = "main") -> str:
        """A container's log."""
        return (self.state / "pods" / f"default_{name}" / f"{container}.log").read_text()

    def processes(self, name: str) -> dict[int, str]:
        """The processes of a pod, by a variable that only they have."""
        return alive(f"MARK={self.state}/{name}")


@pytest.fixture(scope="module")
def cluster(network: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:  # noqa: ARG001 - it runs in there
    """One cluster for all tests of this file."""
    folder = tmp_path_factory.mktemp("pods")
    parts = ("etcd", "kube-apiserver", "kube-controller-manager")
    with ControlPlane(folder / "plane", parts=parts, address=ADDRESS) as plane:
        made = Cluster(plane, folder / "kubelet")
        try:
            assert soon(
                lambda: plane.api.get("/api/v1/namespaces/default/serviceaccounts/default") is not None
            )
            yield made
        finally:
            made.kubelet.terminate()
            assert made.kubelet.wait(20) == 0


def test_a_pod_has_a_world_of_its_own(cluster: Cluster) -> None:
    """Own address, host name, processes, /dev/shm and mounts; the machine's folders can be read but not written."""
    cluster.api.apply(
        {
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm", "namespace": "default"},
            "data": {"a.txt": "hello"},
        }
    )  # fmt: skip
    script = """
      say() { echo "$1=$2"; }
      say pid $BASHPID; say host "$(hostname)"; say ip "$IP"; say eth "$(ip -4 -o addr show eth0 | awk '{print $4}')"
      say shm "$(df -m --output=size /dev/shm | tail -1 | tr -d ' ')"; say file "$(cat /models/deep/a.txt)"
      say ca "${REQUESTS_CA_BUNDLE-none}"; say tmp "$(ls /tmp | wc -l)"; say processes "$(ls -d /proc/[0-9]* | wc -l)"
      touch /usr/made 2>/dev/null; say usr $?; touch /models/deep/made 2>/dev/null; say volume $?
      say who "$(curl -s -o /dev/null -w '%{http_code}' --cacert $T/ca.crt -H "Authorization: Bearer $(cat $T/token)" \
        https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version)"
      exit 3"""
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "T", "value": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    mounts = [{"name": "cm", "mountPath": "/models/deep"}, {"name": "shm", "mountPath": "/dev/shm"}]
    kept = [
        {"name": "cm", "configMap": {"name": "cm"}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "12Mi"}},
    ]
    cluster.run(
        "world", script, main={"env": env, "volumeMounts": mounts}, volumes=kept, restartPolicy="Never"
    )

    assert cluster.phase("world", "Failed"), json.dumps(cluster.status("world"))
    status = cluster.status("world")
    seen = dict(line.split("=", 1) for line in cluster.log("world").splitlines())
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert seen["eth"] == f"{status['podIP']}/16"
    assert int(seen.pop("processes")) < 6
    assert (
        int(seen.pop("tmp")) <= 1
    )  # a folder of its own, with no more in it than a checkout that lies in the machine's
    assert {name: seen[name] for name in seen if name not in ("eth", "ip")} == {
        "pid": "1", "host": "world", "shm": "12", "file": "hello", "ca": "none", "usr": "1", "volume": "1",
        "who": "200",
    }  # fmt: skip
    assert seen["ip"] == status["podIP"]
    assert not Path("/models/deep").exists()


def test_containers_start_in_order_and_names_lead_to_ready_pods(cluster: Cluster) -> None:
    """Init container, sidecar with startup probe, then main; another pod finds it by its Service once it is ready."""
    service = {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 8000}]}
    cluster.api.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": service,
        }
    )
    shared = [{"name": "shared", "mountPath": "/shared"}]
    first = {
        "name": "first",
        "image": IMAGE,
        "command": ["sh", "-c", "echo first > /shared/x"],
        "volumeMounts": shared,
    }
    car = {
        "name": "car", "image": IMAGE, "restartPolicy": "Always", "volumeMounts": shared,
        "command": ["sh", "-c", "sleep 0.3; echo car >> /shared/x; exec sleep 1000"],
        "startupProbe": {"exec": {"command": ["grep", "-q", "car", "/shared/x"]}, "periodSeconds": 1},
    }  # fmt: skip
    main = {"volumeMounts": shared, "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1}}
    cluster.run(
        "web",
        "cat /shared/x; cd /shared; exec python3 -u -m http.server 8000",
        main=main,
        initContainers=[first, car],
        volumes=[{"name": "shared", "emptyDir": {}}],
    )
    cluster.run(
        "asks",
        "for i in $(seq 100); do wget -q -O- http://web.default.svc:8000/x && exit 0; sleep 0.2; done; exit 1",
        restartPolicy="Never",
    )

    assert cluster.phase("asks", "Succeeded", "Failed")
    assert cluster.phase("asks", "Succeeded"), cluster.log("asks")
    assert cluster.log("asks") == "first\ncar\n"
    assert cluster.log("web").startswith("first\ncar\n")
    conditions = {row["type"]: row["status"] for row in cluster.status("web")["conditions"]}
    assert conditions == dict.fromkeys(("Initialized", "ContainersReady", "Ready", "PodScheduled"), "True")


def test_ends_and_restarts(cluster: Cluster) -> None:
    """Exit codes, the pod's policy, a failing liveness probe, and what cannot start are reported as a kubelet does."""
    cluster.run("crashes", "exit 7")
    cluster.run(
        "heals",
        "test -e /v/x && exit 0; touch /v/x; exit 1",
        restartPolicy="OnFailure",
        main={"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    dead = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 2}
    cluster.run(
        "dies", "trap 'echo told; exit 0' TERM; while :; do sleep 0.1; done", main={"livenessProbe": dead}
    )
    absent = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "absent", "key": "k"}}}]
    cluster.run("waits", "true", main={"env": absent})
    cluster.run("cannot", "", main={"command": ["/no/such/program"]}, restartPolicy="Never")

    assert soon(lambda: cluster.main("crashes").get("restartCount", 0) >= 2)
    assert cluster.main("crashes")["lastState"]["terminated"]["exitCode"] == 7
    assert cluster.phase("heals", "Succeeded")
    assert cluster.main("heals")["restartCount"] == 1
    assert soon(lambda: cluster.main("dies").get("restartCount", 0) >= 1)
    assert (cluster.state / "pods" / "default_dies" / "main.0.log").read_text() == "told\n"
    waiting = cluster.main("waits")["state"]["waiting"]
    assert (waiting["reason"], waiting["message"]) == (
        "CreateContainerConfigError",
        'secret "absent" not found',
    )
    assert cluster.phase("cannot", "Failed")
    assert "/no/such/program" in cluster.main("cannot")["state"]["terminated"]["message"]
    for name in ("crashes", "dies", "waits"):
        cluster.api.delete(f"{PODS}/{name}", 0)


@pytest.mark.alone
def test_deletion_waits_for_the_grace_and_no_longer(cluster: Cluster) -> None:
    """SIGTERM reaches the first process; who obeys goes at once, who does not is killed when the grace is over."""
    cluster.run("obeys", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done")
    cluster.run("stays", "trap '' TERM; echo up; (while :; do sleep 0.1; done) & while :; do sleep 0.1; done")
    for name in ("obeys", "stays"):
        assert cluster.phase(name, "Running")
        assert soon(lambda name=name: "up" in cluster.log(name))

    seconds = {}
    for name in ("obeys", "stays"):
        began = time.monotonic()
        cluster.api.delete(f"{PODS}/{name}", 2)
        assert soon(lambda name=name: not cluster.status(name))
        seconds[name] = time.monotonic() - began
        assert cluster.processes(name) == {}

    assert cluster.log("obeys") == "up\nbye\n"
    assert seconds["obeys"] < 1.5
    assert 1.5 < seconds["stays"] < 4


def test_a_lost_node_takes_its_pods_with_it(cluster: Cluster) -> None:
    """When the node's object goes, its pods' processes are killed, and others live on."""
    cluster.run("there", "trap '' TERM; while :; do sleep 0.1; done", node="n2")
    cluster.run("here", "exec sleep 1000")
    assert soon(lambda: bool(cluster.processes("there") and cluster.processes("here")))

    cluster.api.delete("/api/v1/nodes/n2")

    assert soon(lambda: not cluster.processes("there"), 5)
    assert cluster.processes("here")


def test_nothing_outlives_the_kubelet(cluster: Cluster) -> None:
    """A SIGKILL of it ends every process of its pods; the next one starts them again and counts that."""
    cluster.run("again", "while :; do sleep 1000 & wait; done")
    assert cluster.phase("again", "Running")  # reported, or the next kubelet could not know of it
    assert soon(lambda: len(cluster.processes("again")) >= 2)

    cluster.kubelet.send_signal(signal.SIGKILL)
    cluster.kubelet.wait()

    assert soon(lambda: not cluster.processes(""), 5)
    assert str(cluster.state) not in Path("/proc/mounts").read_text()
    cluster.start_kubelet()
    assert soon(lambda: cluster.main("again").get("restartCount") == 1), json.dumps(cluster.status("again"))
    assert cluster.main("again")["lastState"]["terminated"]["exitCode"] == 137
    assert soon(lambda: len(cluster.processes("again")) >= 2)


def test_it_says_where_it_has_to_run(tmp_path: Path, cluster: Cluster) -> None:
    """Without the bridge it ends with a sentence, not a traceback."""
    command = [sys.executable, "-m", "rehearsal.kubelet", "--kubeconfig", str(cluster._kubeconfig)]
    done = subprocess.run(
        [*command, "--state", str(tmp_path), "--bridge", "10.244.7.7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.startswith("kubelet: No network interface has the address 10.244.7.7.")
    assert "Traceback" not in done.stderr
