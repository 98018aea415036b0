"""The RayService of a model: KubeRay makes the Ray cluster, its Services and its autoscaler from it.

A change outside of `serveConfigV2` makes a second cluster beside the first (twice the GPUs) unless the upgrade strategy
is None. KubeRay leaves a live cluster alone when only replica bounds change (1.7.0, hash of the spec), so the groups'
bounds are wide and set once: Serve's own bounds decide, and the NodePool's limits cap what it costs.
"""

from typing import Any

from components import conventions
from components.manifests.images import engine_of
from components.manifests.ray_pods import (
    SMALL_SHM,
    ServedModel,
    container_security,
    head_template,
    ingress_template,
    worker_template,
)
from components.manifests.serve import INGRESS_GROWTH, accelerator_type, worker_cpus
from components.manifests.worker_size import worker_resources
from components.quantities import quantity
from components.settings.models import Model
from components.settings.pools import GpuPool

Manifest = dict[str, Any]

INGRESS_GROUP = "ingress"
GPU_GROUP = "gpu"
CPU_GROUP = "cpu"

_WIDE = 64
# A replica that restarts in place must find its pod still there.
_IDLE_SECONDS = 300
_LEAST_DELETION_DELAY = 60
# Nodes must boot, pull and load before the first replica answers; Pulumi waits at least this long.
_LEAST_WAIT = 2700
_BEFORE_THE_ENGINE = 1800
# Ray takes 30 % of a pod's memory for its object store, and falls back to the disk where /dev/shm is smaller. Serving
# passes only small objects.
_STORE_SHARE = 4


def service_name(model: Model) -> str:
    """Name of the Service that KubeRay makes for HTTP; it follows the active cluster through upgrades."""
    return f"{model.name}-serve-svc"


def ray_service(served: ServedModel, serve: Any, *, wait: bool = True) -> Manifest:
    """The RayService; `serve` is the Serve document as text, `wait` makes Pulumi wait until it answers."""
    model = served.model
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {
            "name": model.name,
            "namespace": served.platform.namespace,
            "labels": conventions.labels("kuberay", "ray-service", model.name),
            "annotations": _waiting(model) if wait else {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "serveConfigV2": serve,
            "upgradeStrategy": {"type": model.upgrade.value},
            # The old cluster lives on after a switch as long as a stream may (kuberay #4126).
            "rayClusterDeletionDelaySeconds": max(_LEAST_DELETION_DELAY, int(model.timeouts.request)),
            "rayClusterConfig": {
                "rayVersion": engine_of(model, served.pool).ray,
                "enableInTreeAutoscaling": True,
                "autoscalerOptions": _autoscaler(model),
                "authOptions": _auth(served),
                **_fault_tolerance(served),
                "headGroupSpec": _head_group(served),
                "workerGroupSpecs": [
                    *([_ingress_group(served)] if model.has_ingress_group else []),
                    _engine_group(served),
                ],
            },
        },
    }


def _waiting(model: Model) -> dict[str, str]:
    """Ready means that endpoints serve. Pods are no measure: a worker without a replica is unready by design."""
    seconds = max(_LEAST_WAIT, int(model.timeouts.engine_ready) + _BEFORE_THE_ENGINE)
    return {"pulumi.com/waitFor": "condition=Ready", "pulumi.com/timeoutSeconds": str(seconds)}


def _autoscaler(model: Model) -> Manifest:
    return {
        "version": "v2",
        "idleTimeoutSeconds": _IDLE_SECONDS,
        "upscalingMode": "Default",
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
        "securityContext": container_security(debug=model.debug),
    }


def _auth(served: ServedModel) -> Manifest:
    """Explicit both ways: Ray 2.61 turns it on by itself. Without a secret of the stack KubeRay makes a token."""
    if not served.model.ray_token:
        return {"mode": "disabled"}
    return {"mode": "token", **({"secretName": served.ray_token_secret} if served.ray_token_secret else {})}


def _fault_tolerance(served: ServedModel) -> Manifest:
    """With Redis workers outlive their head; without it the loss of a head loads every model again.

    Raises:
        ValueError: the model asks for Redis and there is no address.
    """
    redis = served.model.redis
    if redis is None:
        return {}
    address = served.redis_address if redis.address is None else redis.address
    if address is None:
        raise ValueError(
            f"{served.model.name}: redis needs an address, in the settings or from the stack's own Redis"
        )
    secret, key = conventions.SECRETS["redisPassword"]
    password = {"redisPassword": {"valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}}
    return {
        "gcsFaultToleranceOptions": {"redisAddress": address, **(password if served.redis_password else {})}
    }


def _head_group(served: ServedModel) -> Manifest:
    start = {
        "num-cpus": "0",  # nothing that serves runs on the head
        "dashboard-host": "0.0.0.0",  # noqa: S104 - a NetworkPolicy decides who reaches it
    }
    return {"rayStartParams": {**start, **_object_store(SMALL_SHM)}, "template": head_template(served)}


def _ingress_group(served: ServedModel) -> Manifest:
    group = served.model.ingress
    return {
        "groupName": INGRESS_GROUP,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas * INGRESS_GROWTH,
        "numOfHosts": 1,
        "rayStartParams": _object_store(SMALL_SHM),
        "resources": {
            "CPU": str(max(1, int(quantity(group.cpu)))),
            conventions.RAY_INGRESS_RESOURCE: "1",
        },
        "template": ingress_template(served),
    }


def _engine_group(served: ServedModel) -> Manifest:
    model, pool = served.model, served.pool
    return {
        "groupName": GPU_GROUP if pool else CPU_GROUP,
        "replicas": model.scaling.min_replicas,
        "minReplicas": 0,
        "maxReplicas": max(_WIDE, model.scaling.max_replicas),
        "numOfHosts": model.nodes,  # one pod for each pipeline stage; KubeRay starts and ends them together
        "rayStartParams": _object_store(model.shm),
        "resources": _engine_group_resources(model, pool),
        "template": worker_template(served),
    }


def _engine_group_resources(model: Model, pool: GpuPool | None) -> dict[str, str]:
    """What Ray counts on a worker.

    Declared, because from zero Ray's autoscaler knows only what stands here: a demand for accelerator_type:A10G would
    never start a node (kuberay #863).
    """
    if pool is None:
        return {"CPU": str(worker_cpus(model)), conventions.RAY_WORKER_RESOURCE: "1"}
    accelerator = accelerator_type(pool)
    return {
        "CPU": worker_resources(model, pool)["limits"]["cpu"],
        "GPU": str(model.tensor_parallel),
        **({f"accelerator_type:{accelerator}": "1"} if accelerator else {}),
    }


def _object_store(shm: str) -> dict[str, str]:
    return {"object-store-memory": str(int(quantity(shm) / _STORE_SHARE))}
