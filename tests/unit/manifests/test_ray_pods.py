"""Pod templates of a Ray cluster."""

from typing import Any

import pytest

from components.manifests.ray_pods import (
    ServedModel,
    head_template,
    ingress_template,
    service_account,
    worker_template,
)
from components.settings.models import Head, Ingress, Loader, Model, ServingMode
from components.settings.platform import PlatformSettings
from components.settings.pools import Capacity, Efa, GpuPool
from tests.unit.manifests.serving_samples import cpu_model, endpoint, model, platform, pool


def _served(served: Model | None = None, gpus: GpuPool | None = None, stack: PlatformSettings | None = None,
            **changes: Any) -> ServedModel:  # fmt: skip
    served = served or model()
    stack = stack or platform(served)
    return ServedModel(model=served, pool=gpus or stack.pool_of(served), platform=stack, **changes)


def _container(template: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = template["spec"]["containers"][0]
    return container


def _volume(template: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((volume for volume in template["spec"]["volumes"] if volume["name"] == name), None)


TEMPLATES = pytest.mark.parametrize("template_of", [head_template, ingress_template, worker_template])


@TEMPLATES
def test_image_is_the_pinned_one(template_of: Any) -> None:
    """Head and workers must have the same Ray."""
    assert _container(template_of(_served()))["image"] == "rayproject/ray-llm:2.60.0-py312-cu130"


@TEMPLATES
def test_efa_image_everywhere(template_of: Any) -> None:
    """A model over EFA takes AWS's image, on its head too."""
    served = _served(model(pipeline_parallel=2), pool(efa=Efa(interfaces=1)))

    assert (
        _container(template_of(served))["image"]
        == "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0.0"
    )


@TEMPLATES
def test_ray_itself_gets_the_signal(template_of: Any) -> None:
    """The shell is replaced by `ray start`, with the quotes of KubeRay's variable read."""
    template = template_of(_served())

    assert template["metadata"]["annotations"]["ray.io/overwrite-container-cmd"] == "true"
    assert _container(template)["command"] == ["/bin/bash", "-lc", "--"]
    assert _container(template)["args"] == ['ulimit -n 65536; eval exec "$KUBERAY_GEN_RAY_START_CMD"']


@TEMPLATES
def test_no_probe_and_no_hook(template_of: Any) -> None:
    """KubeRay's probes know Ray, and Ray drains itself."""
    assert not {"livenessProbe", "readinessProbe", "lifecycle"} & set(_container(template_of(_served())))


@TEMPLATES
def test_shm_is_memory(template_of: Any) -> None:
    """Every pod mounts a /dev/shm of its own."""
    template = template_of(_served())
    volume = _volume(template, "shm")

    assert {"name": "shm", "mountPath": "/dev/shm"} in _container(template)["volumeMounts"]
    assert volume
    assert volume["emptyDir"]["medium"] == "Memory"


def test_shm_of_a_worker_is_the_models() -> None:
    """NCCL and vLLM's ring buffers need gigabytes; the other pods do not."""
    worker, head = _volume(worker_template(_served()), "shm"), _volume(head_template(_served()), "shm")

    assert worker == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}
    assert head == {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}


@TEMPLATES
def test_meets_the_restricted_level(template_of: Any) -> None:
    """No root, no capability, the runtime's own seccomp profile."""
    template = template_of(_served())

    assert template["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 100,
        "fsGroup": 100,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert _container(template)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_aws_image_runs_as_root() -> None:
    """It has no other user; the level is then baseline."""
    template = worker_template(_served(model(pipeline_parallel=2), pool(efa=Efa(interfaces=1))))

    assert template["spec"]["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}


@TEMPLATES
def test_tracing_only_to_debug(template_of: Any) -> None:
    """The guides add SYS_PTRACE to everything; only debuggers need it."""
    template = template_of(_served(model(debug=True)))

    assert _container(template)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}


@TEMPLATES
def test_labels_are_ours_and_kuberays_name(template_of: Any) -> None:
    """Selectors need our labels; KubeRay's Services select by the name `kuberay`."""
    labels = template_of(_served())["metadata"]["labels"]

    assert labels["app.kubernetes.io/managed-by"] == "llm-platform"
    assert labels["app.kubernetes.io/instance"] == "chat"
    assert labels["app.kubernetes.io/name"] == "kuberay"


def test_component_label_by_pod() -> None:
    """Budgets and policies tell the pods apart by it."""
    served = _served()
    components = [
        template["metadata"]["labels"]["app.kubernetes.io/component"]
        for template in (head_template(served), ingress_template(served), worker_template(served))
    ]

    assert components == ["ray-head", "ray-ingress", "ray-worker"]


@TEMPLATES
def test_changed_code_changes_the_pod(template_of: Any) -> None:
    """A ConfigMap alone restarts nothing."""
    annotation = template_of(_served())["metadata"]["annotations"]["llm-platform.dev/code-sha256"]

    assert len(annotation) == 16


@TEMPLATES
def test_priority(template_of: Any) -> None:
    """Serving displaces headroom; a cluster without our classes can do without."""
    assert template_of(_served())["spec"]["priorityClassName"] == "llm-serving"
    assert "priorityClassName" not in template_of(_served(priority_class=None))["spec"]


def test_head_has_no_gpu_and_stays() -> None:
    """On an on-demand CPU node, which Karpenter leaves alone."""
    template = head_template(_served(model(head=Head(cpu="4", memory="16Gi"))))
    size = {"cpu": "4", "memory": "16Gi"}

    assert _container(template)["resources"] == {"requests": size, "limits": size}
    assert template["spec"]["nodeSelector"] == {"llm-platform.dev/workload": "serving-cpu"}
    assert template["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"


def test_head_declares_its_ports() -> None:
    """KubeRay makes Services of them, monitors scrape them by name."""
    ports = {port["name"]: port["containerPort"] for port in _container(head_template(_served()))["ports"]}

    assert ports == {
        "gcs": 6379, "dashboard": 8265, "client": 10001, "serve": 8000,
        "metrics": 8080, "as-metrics": 44217, "dash-metrics": 44227,
    }  # fmt: skip


def test_only_the_head_talks_to_kubernetes() -> None:
    """Its autoscaler does; engines that run what callers send do not."""
    served = _served()

    assert head_template(served)["spec"]["automountServiceAccountToken"] is True
    assert ingress_template(served)["spec"]["automountServiceAccountToken"] is False
    assert worker_template(served)["spec"]["automountServiceAccountToken"] is False


@TEMPLATES
def test_service_account_is_the_models_own(template_of: Any) -> None:
    """A role bound to it reads this model's weights only."""
    assert template_of(_served())["spec"]["serviceAccountName"] == "model-server-chat"


def test_service_account() -> None:
    """Its pods get no token unless they ask."""
    account = service_account(model(), platform())

    assert account["metadata"]["name"] == "model-server-chat"
    assert account["automountServiceAccountToken"] is False


def test_workers_on_gpu_nodes() -> None:
    """They tolerate the taint and ask for their pool and its GPU."""
    spec = worker_template(_served())["spec"]

    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert spec["nodeSelector"] == {
        "llm-platform.dev/workload": "serving-gpu",
        "llm-platform.dev/pool": "g5",
        "llm-platform.dev/accelerator": "a10g",
    }


def test_nothing_else_goes_on_gpu_nodes() -> None:
    """Head and ingress do not tolerate the taint."""
    assert "tolerations" not in head_template(_served())["spec"]
    assert "tolerations" not in ingress_template(_served())["spec"]


def test_workers_on_cpu() -> None:
    """A CPU model runs where heads do, and asks for no GPU."""
    template = worker_template(_served(cpu_model()))

    assert template["spec"]["nodeSelector"] == {"llm-platform.dev/workload": "serving-cpu"}
    assert "tolerations" not in template["spec"]
    assert _container(template)["resources"]["limits"] == {"cpu": "2", "memory": "8Gi"}


def test_without_a_cpu_pool_the_cluster_decides() -> None:
    """On an existing cluster there may be no such nodes."""
    served = _served(stack=platform(cpu_pool=None))

    assert head_template(served)["spec"]["nodeSelector"] == {}


def test_grace_by_pod() -> None:
    """Workers by their capacity; ingress pods keep streams on on-demand nodes; nothing ends on the head."""
    served = _served(gpus=pool(capacity=(Capacity.SPOT,)))

    assert worker_template(served)["spec"]["terminationGracePeriodSeconds"] == 110
    assert ingress_template(served)["spec"]["terminationGracePeriodSeconds"] == 590
    assert head_template(served)["spec"]["terminationGracePeriodSeconds"] == 60


def test_efa_is_asked_for_over_several_nodes_only() -> None:
    """A worker of a pipeline gets the pool's interfaces, a single-node model none."""
    efa = pool(instance_types=("p4d.24xlarge",), efa=Efa(interfaces=4))
    over_nodes = _served(model(tensor_parallel=8, pipeline_parallel=2), efa)
    limits = _container(worker_template(over_nodes))["resources"]["limits"]

    assert limits["vpc.amazonaws.com/efa"] == "4"
    assert (
        "vpc.amazonaws.com/efa" not in _container(worker_template(_served(gpus=efa)))["resources"]["limits"]
    )


def test_weights_from_the_bucket() -> None:
    """The claim of the model's folder, read-only."""
    template = worker_template(_served())

    assert _volume(template, "weights") == {
        "name": "weights",
        "persistentVolumeClaim": {"claimName": "chat-weights", "readOnly": True},
    }
    assert {"name": "weights", "mountPath": "/models", "readOnly": True} in _container(template)[
        "volumeMounts"
    ]
    assert "initContainers" not in template["spec"]


def test_weights_from_the_nodes_cache() -> None:
    """The node's folder of the model; an engine waits until its revision is whole."""
    template = worker_template(_served(model(loader=Loader.NVME_CACHE)))
    waiting = template["spec"]["initContainers"][0]

    assert _volume(template, "weights") == {
        "name": "weights",
        "hostPath": {"path": "/mnt/.ephemeral/models/chat", "type": "DirectoryOrCreate"},
    }
    assert waiting["command"] == [
        "/bin/sh",
        "-c",
        'until [ -f "/nvme/$REVISION/.complete" ]; do echo waiting for "/nvme/$REVISION/.complete"; sleep 5; done',
    ]


def test_a_new_revision_leaves_the_pods_alone() -> None:
    """It is a change in place: the template names none, a pod that starts later reads it."""
    waiting = worker_template(_served(model(loader=Loader.NVME_CACHE)))["spec"]["initContainers"][0]

    assert waiting["env"] == [
        {"name": "REVISION", "valueFrom": {"configMapKeyRef": {"name": "chat-code", "key": "revision"}}}
    ]
    assert "r1" not in str(worker_template(_served(model(loader=Loader.NVME_CACHE))))


@pytest.mark.parametrize("served", [model(loader=Loader.STREAMER), cpu_model()])
def test_no_volume_without_need(served: Model) -> None:
    """Streamed weights and those of the image need none."""
    assert _volume(worker_template(_served(served)), "weights") is None


def test_keys_are_where_they_are_checked() -> None:
    """On ingress pods in routed mode, beside the engine in direct mode; never on the head."""
    keys = {"name": "keys", "secret": {"secretName": "endpoint-keys", "defaultMode": 0o440}}
    routed = _served(stack=platform(endpoint=endpoint(keys=True)))
    direct_model = model(serving=ServingMode.DIRECT)
    direct = _served(direct_model, stack=platform(direct_model, endpoint=endpoint(keys=True)))

    assert _volume(ingress_template(routed), "keys") == keys
    assert _volume(worker_template(routed), "keys") is None
    assert _volume(worker_template(direct), "keys") == keys
    assert _volume(head_template(direct), "keys") is None


def test_ingress_pods_spread() -> None:
    """Over hosts and zones, as a wish."""
    spread = ingress_template(_served(model(ingress=Ingress(replicas=3))))["spec"][
        "topologySpreadConstraints"
    ]

    assert [(item["topologyKey"], item["whenUnsatisfiable"]) for item in spread] == [
        ("kubernetes.io/hostname", "ScheduleAnyway"),
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]


def test_stages_of_a_pipeline_do_not_spread() -> None:
    """They talk to each other all the time."""
    assert "topologySpreadConstraints" not in worker_template(_served(model(pipeline_parallel=2)))["spec"]
