"""Pause pods and what scales them."""

from typing import Any

from components.manifests import headroom
from components.manifests.worker_size import worker_resources
from tests.unit.manifests.stacks import model, platform

QUEUE = {"model": "llama", "waitingRequests": 10, "maxReplicas": 2}
HOURS = {"model": "llama", "officeHours": {"timezone": "Europe/Berlin", "replicas": 1}}


def _objects(settings: dict[str, Any], **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    _, deployment, scaled_object = headroom.objects(platform(models=[model(**changes)], headroom=settings))
    return deployment, scaled_object


def test_a_pause_pod_takes_the_place_of_a_worker() -> None:
    """The same resources, taint and labels: else it would keep another node warm, or the wrong part of one."""
    stack = platform()
    pod = _objects(QUEUE)[0]["spec"]["template"]["spec"]

    assert pod["containers"][0]["resources"] == worker_resources(stack.models[0], stack.gpu_pools[0])
    assert pod["nodeSelector"]["llm-platform.dev/pool"] == "g5"
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_a_pause_pod_goes_at_once() -> None:
    """Lowest priority, and no grace."""
    pod = _objects(QUEUE)[0]["spec"]["template"]["spec"]

    assert pod["priorityClassName"] == "llm-headroom"
    assert pod["terminationGracePeriodSeconds"] == 0


def test_no_node_is_bought_at_birth() -> None:
    """A Deployment without a number begins with one pod, which would be a GPU node."""
    assert _objects(QUEUE)[0]["spec"]["replicas"] == 0
    assert _objects(QUEUE)[0]["spec"]["strategy"] == {"type": "Recreate"}


def test_keda_scales_the_deployment() -> None:
    """And nothing of Ray, which has no scale subresource."""
    deployment, scaled_object = _objects(QUEUE)
    expected = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "headroom-llama"}

    assert expected == scaled_object["spec"]["scaleTargetRef"]
    assert deployment["metadata"]["name"] == "headroom-llama"


def test_a_queue_counts_as_a_total() -> None:
    """A sum is divided by the number of pods; an empty series reads as nobody waiting."""
    trigger = _objects(QUEUE)[1]["spec"]["triggers"][0]

    assert trigger["metricType"] == "AverageValue"
    assert trigger["metadata"] == {
        "serverAddress": "http://kube-prometheus-stack-prometheus.monitoring.svc:9090",
        "query": 'sum(ray_vllm_num_requests_waiting{model="llama"}) or vector(0)',
        "threshold": "10",
    }


def test_office_hours_are_a_floor() -> None:
    """By cron, in the zone of the office; no other trigger unless asked."""
    triggers = _objects(HOURS)[1]["spec"]["triggers"]
    expected = {
        "timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 19 * * 1-5", "desiredReplicas": "1",
    }  # fmt: skip

    assert [(trigger["type"], trigger["metadata"]) for trigger in triggers] == [("cron", expected)]


def test_a_replica_over_two_nodes_needs_two_pause_pods() -> None:
    """Numbers of pods, not of replicas, wherever KEDA counts."""
    settings = {**QUEUE, **HOURS}
    spec = _objects(settings, pipelineParallel=2)[1]["spec"]

    assert spec["maxReplicaCount"] == 4
    assert spec["triggers"][0]["metadata"]["desiredReplicas"] == "2"
    assert spec["triggers"][1]["metadata"]["query"].endswith("* 2")


def test_no_headroom_by_default() -> None:
    """It costs a whole GPU node, so it is asked for."""
    assert headroom.objects(platform()) == []


def test_no_headroom_for_a_cpu_model() -> None:
    """CPU nodes start in seconds."""
    assert headroom.objects(platform(models=[model(pool=None)], headroom=QUEUE)) == []


def test_pause_pods_talk_to_nobody() -> None:
    """The policy has their labels and opens nothing."""
    policy, deployment, _ = headroom.objects(platform(models=[model()], headroom=QUEUE))

    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"] == {
        "podSelector": {"matchLabels": deployment["spec"]["template"]["metadata"]["labels"]},
        "policyTypes": ["Ingress", "Egress"],
    }
