"""The real KubeRay, Karpenter and kwok in a namespace of their own, and the way in from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.facts.instance_types import INSTANCE_TYPES
from components.manifests import operator_values
from components.settings.cluster import ImageSettings
from rehearsal import charts, control_plane, namespace, operator_parts, prices
from rehearsal.api import Api
from rehearsal.aws import cloud, server
from rehearsal.control_plane import ControlPlane
from rehearsal.errors import ControlPlaneError
from rehearsal.parts import API_ONLY, CONTROLLED, PARTS
from rehearsal.places import Places
from tests.engine.helpers import ROOT, alive, pid_of, soon
from tools import crds

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(bool(namespace.missing()), reason=f"no network namespaces: {namespace.missing()}"),
]

GOLDEN = ROOT / "tests" / "golden"
ACCOUNT, REGION = "111122223333", "us-west-2"
CLUSTER_NAME, QUEUE, ROLE = "llm-dev", "llm-dev-karpenter", "llm-dev-node-us-west-2"
DISCOVERY = {"Key": "karpenter.sh/discovery", "Value": CLUSTER_NAME}
PODS = "/api/v1/namespaces/default/pods"
DISRUPTED = "karpenter.sh/disrupted"  # the taint of a node that Karpenter wants to be rid of
KUBERAY = "--use-kubernetes-proxy"  # in the command line of the operator only


def golden(path: str) -> dict[str, Any]:
    """A manifest of ours, as the golden tests keep it."""
    content: dict[str, Any] = yaml.safe_load((GOLDEN / path).read_text(encoding="utf-8"))
    return content


def stub_of(chart: str, values: dict[str, Any]) -> dict[str, Any]:
    """The ConfigMap that the stub of a chart leaves in the cluster."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{chart}-stub", "namespace": "kube-system", "labels": {charts.LABEL: chart}},
        "data": {"version": "1", "values.json": json.dumps(values)},
    }


def stub_path(chart: str) -> str:
    """Where that ConfigMap is."""
    return f"/api/v1/namespaces/kube-system/configmaps/{chart}-stub"


class Account:
    """The account that Karpenter sees, through the door to moto."""

    def __init__(self, plane: ControlPlane) -> None:
        account = cloud.Cloud(f"http://{plane.address_of('moto')}", REGION, cloud.Held(plane.state / "held"))
        self.client = account.client

    def prepare(self) -> None:
        """Make what a cluster's stack makes for Karpenter."""
        ec2, iam = self.client("ec2"), self.client("iam")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")[
                "Subnet"
            ]["SubnetId"]
            for number, zone in enumerate("ab")
        ]
        group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
        ec2.create_tags(Resources=[*subnets, group], Tags=[DISCOVERY])
        role = iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument="{}")["Role"]["Arn"]
        self.client("eks").create_cluster(
            name=CLUSTER_NAME, version="1.36", roleArn=role, resourcesVpcConfig={"subnetIds": subnets}
        )
        self.client("sqs").create_queue(QueueName=QUEUE)

    def warn(self, instance: str) -> None:
        """Say in the queue, in EventBridge's words, that a spot instance will be taken back."""
        message = {
            "version": "0",
            "id": "1",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "source": "aws.ec2",
            "account": ACCOUNT,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "region": REGION,
            "resources": [f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{instance}"],
            "detail": {"instance-id": instance, "instance-action": "terminate"},
        }
        sqs = self.client("sqs")
        url = sqs.get_queue_url(QueueName=QUEUE)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(message))


@pytest.fixture(scope="module")
def cloudy(tmp_path_factory: pytest.TempPathFactory, collected: crds.Collected) -> Iterator[ControlPlane]:
    """A cluster with AWS under it; KubeRay is present, Karpenter comes with its chart."""
    folder = tmp_path_factory.mktemp("cloudy")
    parts = (*CONTROLLED, "moto", "prices", "kwok", "kubelet", "kuberay", "karpenter")
    facts = {"account": ACCOUNT, "region": REGION}
    with ControlPlane(folder, parts=parts, namespace=True, present=("kuberay",), facts=facts) as plane:
        plane.apply_crds(collected.all_files)
        Account(plane).prepare()
        yield plane
    assert alive(str(folder)) == {}


def wait(what: Callable[[], Any], seconds: float, plane: ControlPlane, log: str) -> Any:
    """What a question gives when it gives something true; the end of a log when it never does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        plane.check()
        time.sleep(0.3)
    text = (plane.state / "logs" / f"{log}.log").read_text(errors="replace")[-4000:]
    pytest.fail(f"not within {seconds} s; the log of {log} ends with:\n{text}")


def test_kuberay_makes_clusters_and_pods(cloudy: ControlPlane) -> None:
    """The RayService of the local stack becomes a RayCluster with a head and its groups' workers, which wait for a node."""
    api = cloudy.api
    for name in ("namespace-llm-serving", "serviceaccount-llm-serving-model-server-tiny",
                 "configmap-llm-serving-tiny-code", "priorityclass-llm-serving"):  # fmt: skip
        api.apply(golden(f"local/kubernetes/{name}.yaml"))
    service = golden("local/kubernetes/rayservice-llm-serving-tiny.yaml")
    groups = {
        row["groupName"]: row["replicas"] for row in service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    }
    wanted = sorted(["headgroup", *(name for name, number in groups.items() for _ in range(number))])
    api.apply(service)
    pods_path = "/api/v1/namespaces/llm-serving/pods"

    def pods() -> list[dict[str, Any]]:
        found = api.items(pods_path)
        return found if len(found) == len(wanted) else []

    found = wait(pods, 60, cloudy, "kuberay")
    clusters = api.items("/apis/ray.io/v1/namespaces/llm-serving/rayclusters")
    api.delete("/apis/ray.io/v1/namespaces/llm-serving/rayservices/tiny")

    assert sorted(pod["metadata"]["labels"]["ray.io/group"] for pod in found) == wanted
    assert {pod["status"]["phase"] for pod in found} == {"Pending"}
    assert [row["metadata"]["ownerReferences"][0]["kind"] for row in clusters] == ["RayService"]
    wait(lambda: not api.items(pods_path), 60, cloudy, "kuberay")


def _gpu_pod() -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "gpu"}},
            "template": {
                "metadata": {"labels": {"app": "gpu"}},
                "spec": {
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                    "containers": [
                        {
                            "name": "a",
                            "image": "example/model",
                            "resources": {"limits": {"nvidia.com/gpu": "4"}},
                        }
                    ],
                },
            },
        },
    }


def _pool() -> dict[str, Any]:
    pool = golden("dev/kubernetes/nodepool-g5.yaml")
    spec = pool["spec"]["template"]["spec"]
    del spec["startupTaints"]  # an agent takes it away, of which there is none here
    for row in spec["requirements"]:
        if row["key"] == "node.kubernetes.io/instance-type":
            row["values"] = ["g5.2xlarge", "g5.12xlarge"]
    pool["spec"]["limits"]["nvidia.com/gpu"] = "8"
    return pool


def _running(api: Api) -> list[dict[str, Any]]:
    return [
        pod
        for pod in api.items(PODS)
        if pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
    ]


def test_karpenter_launches_and_replaces(cloudy: ControlPlane) -> None:
    """By our chart values and manifests Karpenter starts a g5.12xlarge for four GPUs; a spot warning replaces it."""
    api = cloudy.api
    values = operator_values.karpenter(CLUSTER_NAME, REGION, QUEUE, ImageSettings())
    api.apply(stub_of("karpenter", values))
    wait(lambda: "karpenter" in cloudy.running_parts(), 20, cloudy, "kube-apiserver")
    api.apply(golden("dev/kubernetes/ec2nodeclass-g5.yaml"))
    api.apply(_pool())
    deployment = _gpu_pod()
    api.apply(deployment)
    first = wait(lambda: _running(api), 180, cloudy, "karpenter")[0]
    node = api.get(f"/api/v1/nodes/{first['spec']['nodeName']}") or {}
    labels = node["metadata"]["labels"]

    assert labels["node.kubernetes.io/instance-type"] == "g5.12xlarge"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert labels["karpenter.sh/capacity-type"] == "spot"

    Account(cloudy).warn(node["spec"]["providerID"].rpartition("/")[2])
    wait(lambda: _tainted(api, node["metadata"]["name"]), 30, cloudy, "karpenter")
    second = wait(
        lambda: [pod for pod in _running(api) if pod["spec"]["nodeName"] != first["spec"]["nodeName"]],
        180,
        cloudy,
        "karpenter",
    )[0]
    replacement = api.get(f"/api/v1/nodes/{second['spec']['nodeName']}") or {}

    assert replacement["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.12xlarge"
    zone = "topology.kubernetes.io/zone"
    assert (
        replacement["metadata"]["labels"][zone] != labels[zone]
    )  # that offering counts as unavailable for a while

    api.delete(api.locate(deployment))
    wait(lambda: not api.items(PODS), 60, cloudy, "kwok")
    api.delete(stub_path("karpenter"))
    wait(lambda: "karpenter" not in cloudy.running_parts(), 20, cloudy, "karpenter")


def _tainted(api: Api, node: str) -> bool:
    """Whether Karpenter has marked a node, or it is gone already."""
    found = api.get(f"/api/v1/nodes/{node}")
    return found is None or any(row["key"] == DISRUPTED for row in found["spec"].get("taints", []))


def test_an_operator_that_ends_is_started_again(cloudy: ControlPlane) -> None:
    """KubeRay is started again when it was killed, its log goes on, and the control plane still counts as well."""
    first = pid_of(str(cloudy.state), KUBERAY)
    os.kill(first, signal.SIGKILL)

    def again() -> bool:
        return any(KUBERAY in line and pid != first for pid, line in alive(str(cloudy.state)).items())

    assert soon(again, 60)
    assert (
        "--- kuberay was ended by signal 9; start 1 of 3"
        in (cloudy.state / "logs" / "kuberay.log").read_text()
    )
    cloudy.check()


def test_kwok_leaves_process_pods_alone(cloudy: ControlPlane) -> None:
    """On one simulated node kwok plays the pods without a local environment, and the kubelet runs the other."""
    api, fake = cloudy.api, {"kwok.x-k8s.io/node": "fake"}
    api.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "played", "annotations": fake}})
    for name, image in (("played", "example/model"), ("real", "mirror.example/llm-platform/machine:1")):
        container = {"name": "a", "image": image, "command": ["sleep", "600"]}
        spec = {"nodeName": "played", "containers": [container], "terminationGracePeriodSeconds": 1}
        metadata = {"name": name, "namespace": "default"}
        api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def addresses() -> dict[str, str]:
        found = {
            pod["metadata"]["name"]: pod["status"].get("podIP", "")
            for pod in api.items(PODS)
            if pod["status"]["phase"] == "Running"
        }
        return found if {"played", "real"} <= found.keys() else {}

    found = wait(addresses, 30, cloudy, "kubelet")
    for name in ("played", "real"):
        api.delete(f"{PODS}/{name}")
    wait(lambda: not any(api.get(f"{PODS}/{name}") for name in ("played", "real")), 30, cloudy, "kubelet")
    api.delete("/api/v1/nodes/played")

    assert found["played"].startswith("198.18.")
    assert found["real"].startswith("10.244.")
    assert operator_parts.process_pod_query({}) == "false"


def test_an_operator_that_never_stays_is_an_error(
    folder: Path, tmp_path: Path, collected: crds.Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator that ends at each start is named at last, with the end of its log, and all ends."""
    broken = tmp_path / "kuberay-operator"
    broken.write_text("#!/bin/sh\necho no such flag\nexit 3\n")
    broken.chmod(0o755)
    real = control_plane.tool_paths(API_ONLY)
    monkeypatch.setattr(control_plane, "tool_paths", lambda _names: {**real, "kuberay": broken})
    with ControlPlane(folder, parts=(*API_ONLY, "kuberay"), present=("kuberay",)) as plane:
        plane.apply_crds(path for path in collected.all_files if path.name.startswith("ray.io"))
        assert soon(lambda: not plane.running(), 60)
        with pytest.raises(ControlPlaneError) as caught:
            plane.check()

    text = str(caught.value)
    assert text.startswith(
        f"kuberay ended with code 3, for the 4th time. The end of {folder}/logs/kuberay.log:\n"
    )
    assert text.endswith("    no such flag")
    assert text.count("no such flag") == 4
    assert alive(str(folder)) == {}


def _service(name: str, *, ready: bool, port: int) -> list[dict[str, Any]]:
    metadata = {"name": name, "namespace": "default"}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": port}]}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"port": port}],
            "endpoints": [{"addresses": [namespace.ADDRESS], "conditions": {"ready": ready}}],
        },
    ]


def test_a_door_leads_to_a_ready_endpoint(cloudy: ControlPlane) -> None:
    """A door that is opened later leads to the Service's ready endpoint, and answers 503 while there is none."""
    port = int(cloudy.address_of("prices", inside=True).rpartition(":")[2])
    for manifest in _service("answers", ready=False, port=port):
        cloudy.api.apply(manifest)
    door = cloudy.open_door(0, f"default/answers:{port}")
    url = f"http://127.0.0.1:{door}/healthz"

    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(url, timeout=10)
    for manifest in _service("answers", ready=True, port=port):
        cloudy.api.apply(manifest)
    time.sleep(1.1)  # the doorway remembers for a second
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.status == 200


def test_kubectl_and_commands_inside(cloudy: ControlPlane) -> None:
    """The client kubectl works through the door with the one kubeconfig, and inside with the other."""
    outside = ["kubectl", f"--kubeconfig={cloudy.kubeconfig}", "get", "--raw", "/readyz"]
    inside = cloudy.inside(["kubectl", f"--kubeconfig={cloudy.kubeconfig_inside}", "get", "--raw", "/readyz"])

    for command in (outside, inside):
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "ok"


def test_operators_are_modest(cloudy: ControlPlane) -> None:
    """KubeRay, kwok and the stubs take less than 400 MB together."""
    total = 0
    for pid, line in alive(str(cloudy.state)).items():
        if any(
            word in line
            for word in (KUBERAY, "--manage-all-nodes", "-m rehearsal.prices", "-m rehearsal.doorway")
        ):
            status = Path(f"/proc/{pid}/status").read_text()
            total += int(status.partition("VmRSS:")[2].split()[0])

    assert 0 < total < 400_000


def test_chart_settings_become_karpenters_environment() -> None:
    """Our chart values become the environment that the chart's template would make; an unknown setting is refused."""
    values = operator_values.karpenter("c", "r", "q", ImageSettings())

    assert operator_parts.karpenter_settings(values) == {
        "CLUSTER_NAME": "c",
        "INTERRUPTION_QUEUE": "q",
        "FEATURE_GATES": "NodeRepair=true",
        "CPU_REQUESTS": "500",
        "MEMORY_LIMIT": str(2**30),
        "AWS_REGION": "r",
    }
    with pytest.raises(ControlPlaneError, match=r"sets settings\.clusterNam, which the chart does not have"):
        operator_parts.karpenter_settings({"settings": {"clusterNam": "c"}})


def test_prices_are_ours() -> None:
    """The price list that Karpenter is given holds the on-demand prices of our facts, in the form of the Price List API."""
    rows = [json.loads(row) for row in prices.price_list()]
    listed = {
        row["product"]["attributes"]["instanceType"]: float(
            row["terms"]["OnDemand"]["1"]["priceDimensions"]["1"]["pricePerUnit"]["USD"]
        )
        for row in rows
    }

    assert listed == {
        row.name: row.usd_per_hour for row in INSTANCE_TYPES.values() if row.usd_per_hour is not None
    }


def test_moto_is_started_by_its_own_command(tmp_path: Path) -> None:
    """The part's command is the one of the server's module, which the keeper does not load for it."""
    places = Places(
        tmp_path, "c", "10.0.0.1", {"moto": 5000}, {}, facts={"account": ACCOUNT, "region": REGION}
    )

    assert PARTS["moto"].command(places) == server.command("10.0.0.1", 5000, ACCOUNT, tmp_path / "aws")


def test_the_label_of_stub_charts_is_one() -> None:
    """What the keeper looks for is what the stub charts write."""
    assert operator_parts.STUB_LABEL == charts.LABEL
