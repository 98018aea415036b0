"""The RayService around the pods and the Serve document."""

from typing import Any

import pytest

from components.manifests.ray_pods import ServedModel
from components.manifests.ray_service import ray_service
from components.settings.models import Model, Redis, Scaling, ServingMode, Timeouts, Upgrade
from components.settings.pools import Efa, GpuPool
from tests.unit.manifests.serving_samples import cpu_model, model, platform, pool


def _service(
    served: Model | None = None, gpus: GpuPool | None = None, *, wait: bool = True, **changes: Any
) -> dict[str, Any]:
    served = served or model()
    stack = platform(served)
    where = ServedModel(model=served, pool=gpus or stack.pool_of(served), platform=stack, **changes)
    return ray_service(where, "serve: document", wait=wait)


def _cluster(served: Model | None = None, gpus: GpuPool | None = None, **changes: Any) -> dict[str, Any]:
    cluster: dict[str, Any] = _service(served, gpus, **changes)["spec"]["rayClusterConfig"]
    return cluster


def _groups(served: Model | None = None, gpus: GpuPool | None = None) -> dict[str, dict[str, Any]]:
    return {group["groupName"]: group for group in _cluster(served, gpus)["workerGroupSpecs"]}


def test_kind_and_name() -> None:
    """The version that is stored, under the model's name."""
    service = _service()

    assert (service["apiVersion"], service["kind"]) == ("ray.io/v1", "RayService")
    assert service["metadata"]["name"] == "chat"
    assert service["metadata"]["namespace"] == "llm-serving"
    assert service["spec"]["serveConfigV2"] == "serve: document"


def test_pulumi_waits_until_it_answers() -> None:
    """An hour: the engine's own time, and half an hour for node, image and weights. Pods are not waited for."""
    assert _service()["metadata"]["annotations"] == {
        "pulumi.com/waitFor": "condition=Ready",
        "pulumi.com/timeoutSeconds": "3600",
    }


def test_pulumi_waits_three_quarters_of_an_hour_at_least() -> None:
    """Also for a model that is ready soon after it starts."""
    service = _service(model(timeouts=Timeouts(engine_ready=60)))

    assert service["metadata"]["annotations"]["pulumi.com/timeoutSeconds"] == "2700"


def test_pulumi_need_not_wait() -> None:
    """Where no KubeRay runs nobody would ever report it ready."""
    assert _service(wait=False)["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


@pytest.mark.parametrize(
    ("upgrade", "written"), [(Upgrade.NEW_CLUSTER, "NewCluster"), (Upgrade.NONE, "None")]
)
def test_upgrade_strategy(upgrade: Upgrade, written: str) -> None:
    """A second cluster beside the first, or nothing by itself."""
    assert _service(model(upgrade=upgrade))["spec"]["upgradeStrategy"] == {"type": written}


def test_the_old_cluster_outlives_its_streams() -> None:
    """As long as a request may take; KubeRay's default is one minute."""
    assert _service()["spec"]["rayClusterDeletionDelaySeconds"] == 600
    assert _service(model(timeouts=Timeouts(request=5)))["spec"]["rayClusterDeletionDelaySeconds"] == 60


def test_ray_version_is_the_images() -> None:
    """It decides about probes, autoscaler and validation."""
    efa = pool(efa=Efa(interfaces=1))

    assert _cluster()["rayVersion"] == "2.60.0"
    assert _cluster(model(pipeline_parallel=2), efa)["rayVersion"] == "2.58.0"


def test_autoscaler() -> None:
    """Version 2, said out loud, and confined like everything else."""
    cluster = _cluster()

    assert cluster["enableInTreeAutoscaling"] is True
    assert cluster["autoscalerOptions"]["version"] == "v2"
    assert cluster["autoscalerOptions"]["idleTimeoutSeconds"] == 300
    assert cluster["autoscalerOptions"]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_ray_token() -> None:
    """From the stack's secret, from KubeRay, or off: always said."""
    assert _cluster()["authOptions"] == {"mode": "token", "secretName": "ray-auth-token"}
    assert _cluster(ray_token_secret=None)["authOptions"] == {"mode": "token"}
    assert _cluster(model(ray_token=False))["authOptions"] == {"mode": "disabled"}


def test_redis() -> None:
    """Address, and the password by its secret."""
    cluster = _cluster(model(redis=Redis(address="rediss://redis:6379")))

    assert cluster["gcsFaultToleranceOptions"] == {
        "redisAddress": "rediss://redis:6379",
        "redisPassword": {"valueFrom": {"secretKeyRef": {"name": "redis-password", "key": "password"}}},
    }


def test_redis_of_the_stack() -> None:
    """A model that names no address takes the one that was made for the stack."""
    cluster = _cluster(model(redis=Redis()), redis_address="rediss://made:6379", redis_password=False)

    assert cluster["gcsFaultToleranceOptions"] == {"redisAddress": "rediss://made:6379"}


def test_the_models_own_redis_wins() -> None:
    """The stack passes its Redis to all; a model that names another keeps it."""
    own = model(redis=Redis(address="rediss://own:6379"))
    cluster = _cluster(own, redis_address="rediss://made:6379", redis_password=False)

    assert cluster["gcsFaultToleranceOptions"] == {"redisAddress": "rediss://own:6379"}


def test_no_redis_unless_asked() -> None:
    """An address of the stack does not concern a model that asks for none."""
    assert "gcsFaultToleranceOptions" not in _cluster(redis_address="rediss://made:6379")


def test_redis_without_an_address_is_refused() -> None:
    """Somebody has to name it."""
    with pytest.raises(
        ValueError, match=r"^chat: redis needs an address, in the settings or from the stack's own Redis$"
    ):
        _cluster(model(redis=Redis()))


def test_nothing_runs_on_the_head() -> None:
    """No CPU for Ray to give away, and a small object store."""
    assert _cluster()["headGroupSpec"]["rayStartParams"] == {
        "num-cpus": "0",
        "dashboard-host": "0.0.0.0",  # noqa: S104 - the manifest's value
        "object-store-memory": "268435456",
    }


def test_groups_by_mode() -> None:
    """CPU pods for HTTP, unless vLLM itself answers it."""
    assert list(_groups()) == ["ingress", "gpu"]
    assert list(_groups(model(serving=ServingMode.DIRECT))) == ["gpu"]
    assert list(_groups(cpu_model())) == ["ingress", "cpu"]


def test_ingress_group() -> None:
    """Always there, with the resource that draws the ingress to it."""
    group = _groups()["ingress"]

    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 2, 8)
    assert group["resources"] == {"CPU": "2", "llm_ingress": "1"}


def test_engine_group_bounds_are_wide() -> None:
    """KubeRay does not carry later changes of bounds to a live cluster; Serve's bounds decide."""
    group = _groups()["gpu"]

    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 0, 64)


def test_engine_group_bounds_follow_a_large_model() -> None:
    """Never below what Serve may want."""
    assert _groups(model(scaling=Scaling(max_replicas=100)))["gpu"]["maxReplicas"] == 100


def test_ray_can_scale_gpus_from_zero() -> None:
    """The autoscaler knows of an empty group only what is declared."""
    assert _groups()["gpu"]["resources"] == {"CPU": "45", "GPU": "4", "accelerator_type:A10G": "1"}


def test_mixed_gpus_have_no_accelerator_type() -> None:
    """Neither the document nor the group names one then."""
    mixed = pool(instance_types=("g5.12xlarge", "g6.12xlarge"))

    assert _groups(gpus=mixed)["gpu"]["resources"] == {"CPU": "45", "GPU": "4"}


def test_cpu_group() -> None:
    """Whole CPUs, and the resource that draws the model to it."""
    assert _groups(cpu_model())["cpu"]["resources"] == {"CPU": "2", "llm_worker": "1"}


def test_one_pod_for_each_stage() -> None:
    """A pipeline's pods start and end together."""
    assert _groups()["gpu"]["numOfHosts"] == 1
    assert _groups(model(pipeline_parallel=2))["gpu"]["numOfHosts"] == 2


def test_object_store_fits_into_shm() -> None:
    """A quarter of it; Ray would take 30 % of the pod's memory and fall back to the disk."""
    assert _groups()["gpu"]["rayStartParams"] == {"object-store-memory": "4294967296"}


def test_resources_are_said_once() -> None:
    """KubeRay refuses a group that has them in both places."""
    for group in _groups().values():
        assert not {"num-cpus", "num-gpus", "memory", "resources"} & set(group["rayStartParams"])
