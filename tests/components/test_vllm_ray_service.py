"""One model as a component: what it registers, in which order, and what stays unknown."""

from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from components.settings.models import Loader, Model, Redis, Scaling
from components.settings.platform import PlatformSettings
from components.vllm_ray_service import VllmRayService, VllmRayServiceArgs
from preview.monitor import program_file, run
from tests.components.infra import Graph, once, registered
from tests.unit.manifests.serving_samples import cpu_model, endpoint, model, platform

ROOT = Path(__file__).resolve().parents[2]
UNKNOWN = {"$unknown": True}


@once
def served(given: Model | None = None, stack: PlatformSettings | None = None, **args: Any) -> Graph:
    """What a model registers; the name of the component is the model's."""
    own = given or model()
    whole = stack or platform(own, endpoint=endpoint(keys=True))

    def program() -> None:
        component = VllmRayService(
            own.name, VllmRayServiceArgs(model=own, platform=whole, pool=whole.pool_of(own), **args)
        )
        pulumi.export("service", component.service)
        pulumi.export("url", component.url)

    return registered(program)


def _spec(graph: Graph) -> dict[str, Any]:
    spec: dict[str, Any] = graph.inputs("chat-rayservice")["spec"]
    return spec


def test_makes_all_that_a_model_needs() -> None:
    """Each object by its kind, and what its name adds to the model's."""
    assert served().names() == [
        "chat",
        "chat-configmap",
        "chat-ingress",
        "chat-networkpolicy-head",
        "chat-networkpolicy-ray",
        "chat-poddisruptionbudget-ingress",
        "chat-poddisruptionbudget-worker",
        "chat-rayservice",
        "chat-serviceaccount",
    ]


def test_children_are_below_the_component() -> None:
    """One level, so that a report reads like the program."""
    graph = served()

    assert {graph.parent(name) for name in graph.names() if name != "chat"} == {"chat"}
    assert graph["chat"].type == "llm:platform:VllmRayService"


def test_pods_come_after_what_protects_them() -> None:
    """No pod starts before the policies, and on destroy none outlives its service account."""
    assert served().dependencies("chat-rayservice") == {
        "chat-configmap",
        "chat-networkpolicy-head",
        "chat-networkpolicy-ray",
        "chat-poddisruptionbudget-ingress",
        "chat-poddisruptionbudget-worker",
        "chat-serviceaccount",
    }


def test_the_host_name_comes_last() -> None:
    """Nobody is sent to a model that does not answer; on destroy the name goes first."""
    assert served().dependencies("chat-ingress") == {"chat-rayservice"}


def test_all_is_known_at_preview() -> None:
    """Images, sizes, versions and the whole Serve document are plain values, so rules can read them."""
    graph = served()

    assert "$unknown" not in str([graph.inputs(name) for name in graph.names()])


def test_outputs() -> None:
    """Service and address, known at preview."""
    assert served().outputs == {"service": "chat-serve-svc", "url": "https://chat.llm.example.com/v1"}


def test_without_an_endpoint_there_is_no_address() -> None:
    """The Service is there for callers inside."""
    graph = served(stack=platform(model()))

    assert "chat-ingress" not in graph
    assert "url" not in graph.outputs


def test_address_without_tls() -> None:
    """An internal endpoint may do without a certificate."""
    graph = served(stack=platform(model(), endpoint=endpoint(certificate_arn=None)))

    assert graph.outputs["url"] == "http://chat.llm.example.com/v1"


def test_every_object_is_ours() -> None:
    """The label says who made it."""
    graph = served()
    labels = [graph.inputs(name)["metadata"]["labels"] for name in graph.names() if name != "chat"]

    assert {each["app.kubernetes.io/managed-by"] for each in labels} == {"llm-platform"}


def test_redis_of_the_stack_is_a_leaf() -> None:
    """Its address is unknown until it is made; nothing else becomes unknown with it."""
    whole = platform(model(redis=Redis()))
    own = whole.models[0]

    def program() -> None:
        made = pulumi.CustomResource("test:index:Redis", "redis", {"address": None})
        VllmRayService(
            "chat",
            VllmRayServiceArgs(model=own, platform=whole, pool=whole.pool_of(own), redis_address=made.id),
        )

    cluster = registered(program).inputs("chat-rayservice")["spec"]["rayClusterConfig"]

    assert cluster["gcsFaultToleranceOptions"]["redisAddress"] == UNKNOWN
    assert "$unknown" not in str([cluster["headGroupSpec"], cluster["workerGroupSpecs"]])


def test_streaming_from_a_bucket_with_a_name() -> None:
    """The address in the document is known."""
    document = yaml.safe_load(_spec(served(model(loader=Loader.STREAMER), bucket="weights"))["serveConfigV2"])
    config = document["applications"][0]["args"]["llm_configs"][0]

    assert config["model_loading_config"]["model_source"] == "s3://weights/models/chat/r1"


def test_streaming_from_a_bucket_yet_to_be_made() -> None:
    """Only the document waits for the bucket's name; images and sizes are known."""
    own = model(loader=Loader.STREAMER)
    whole = platform(own)

    def program() -> None:
        bucket = pulumi.CustomResource("test:index:Bucket", "bucket", {})
        VllmRayService(
            "chat", VllmRayServiceArgs(model=own, platform=whole, pool=whole.pool_of(own), bucket=bucket.id)
        )

    spec = _spec(registered(program))

    assert spec["serveConfigV2"] == UNKNOWN
    assert "$unknown" not in str(spec["rayClusterConfig"])


def test_role_is_handed_to_the_service_account() -> None:
    """By EKS Pod Identity, when the component is used without the stack's storage."""
    role = "arn:aws:iam::111122223333:role/reader"

    assert served(role_arn=role).inputs("chat-identity") == {
        "clusterName": "c",
        "namespace": "llm-serving",
        "roleArn": role,
        "serviceAccount": "model-server-chat",
    }


def test_policy_asks_the_stacks_prometheus() -> None:
    """The controller on the head has its address, and the head may reach it."""
    head = _spec(served())["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    environment = {variable["name"]: variable.get("value") for variable in head["env"]}

    assert environment["RAY_PROMETHEUS_HOST"] == "http://kube-prometheus-stack-prometheus.monitoring.svc:9090"


@pytest.mark.parametrize(
    ("wait", "annotation"), [(True, "pulumi.com/waitFor"), (False, "pulumi.com/skipAwait")]
)
def test_waiting_can_be_switched_off(wait: bool, annotation: str) -> None:  # noqa: FBT001
    """Where no KubeRay runs, nobody reports the model ready."""
    graph = served(wait_until_ready=wait)

    assert annotation in graph.inputs("chat-rayservice")["metadata"]["annotations"]
    assert ("pulumi.com/skipAwait" in graph.inputs("chat-ingress")["metadata"]["annotations"]) is not wait


def test_a_model_on_cpu_needs_little() -> None:
    """No GPU, no budget for a single replica, no volume."""
    own = cpu_model(scaling=Scaling(min_replicas=1, max_replicas=1))
    graph = served(own, platform(own, cpu_pool=None))

    assert graph.names("PodDisruptionBudget") == ["chat-poddisruptionbudget-ingress"]
    assert "nvidia.com/gpu" not in str(_spec(graph))


def test_example_runs_by_itself() -> None:
    """The example serves one model on a cluster that is there, and makes nothing in AWS."""
    example = ROOT / "examples" / "vllm-on-existing-cluster"
    monitor = run(program_file(example / "__main__.py"), "test", {}, project="vllm-on-existing-cluster")
    types = sorted(registration.type for registration in monitor.registrations)

    assert types == [
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy",
        "kubernetes:ray.io/v1:RayService",
        "llm:platform:VllmRayService",
        "pulumi:providers:kubernetes",
    ]
    assert monitor.outputs["service"] == "qwen-serve-svc"
