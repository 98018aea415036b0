"""Pod templates of a model's Ray cluster: head, CPU ingress group, and workers with the engine.

Deliberately absent: probes (KubeRay's know Ray, and a user's would replace them), preStop hooks and `ray stop` (Ray
drains itself on SIGTERM; a hook only eats its grace, kuberay #2606), and SYS_PTRACE unless the stack asks to debug.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components import conventions, pins
from components.manifests.code import CODE_HASH
from components.manifests.drain import ON_DEMAND, drain_of
from components.manifests.images import engine_of, serving_image
from components.manifests.placement import cpu_selector, gpu_tolerations, pool_selector
from components.manifests.ray_environment import common, of_head, of_ingress, of_workers
from components.manifests.scaling import REVISION, code_hash, code_name
from components.manifests.weights import CACHE_MARKER, cache_host_path, claim_name, needs_volume
from components.manifests.worker_size import worker_resources
from components.settings.models import Loader, Model, ServingMode
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

Manifest = dict[str, Any]

SMALL_SHM = "1Gi"
"""Memory-backed /dev/shm of pods without an engine: Ray's object store lies there."""

# User and group of rayproject's images, as numbers: the kubelet cannot tell whether a named user is root.
_USER, _GROUP = 1000, 100
_HEAD_GRACE = 60  # no request ends on the head; with Redis its successor should come soon


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model with what its Ray cluster needs to know of the rest of the stack. Outputs stand at leaves only."""

    model: Model
    pool: GpuPool | None
    platform: PlatformSettings
    prometheus: str | None = None
    priority_class: str | None = conventions.SERVING_PRIORITY_CLASS
    ray_token_secret: str | None = conventions.SECRETS["rayAuthToken"][0]
    redis_address: Any = None
    redis_password: bool = True


def service_account(model: Model, platform: PlatformSettings) -> Manifest:
    """Service account of a model's pods. KubeRay gives it the rights that the autoscaler needs; an AWS role may come."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {
            "name": conventions.model_service_account(model.name),
            "namespace": platform.namespace,
            "labels": conventions.labels("kuberay", "identity", model.name),
        },
        "automountServiceAccountToken": False,
    }


def head_template(served: ServedModel) -> Manifest:
    """The head: control only. It holds the cluster's state, so Karpenter must not move it by itself."""
    model = served.model
    template = _template(served, conventions.HEAD_COMPONENT, _HEAD_GRACE)
    template["metadata"]["annotations"][conventions.DO_NOT_DISRUPT] = "true"
    spec = template["spec"]
    # The autoscaler beside it talks to the Kubernetes API; nothing else here does.
    spec["automountServiceAccountToken"] = True
    spec["nodeSelector"] = cpu_selector(served.platform.cpu_pool)
    spec["containers"] = [
        {
            **_container("ray-head", served, conventions.PORTS),
            "env": [*common(model), *of_head(served.prometheus)],
            "resources": _size(model.head.cpu, model.head.memory),
            "volumeMounts": [_CODE_MOUNT, _SHM_MOUNT],
        }
    ]
    spec["volumes"] = [_code_volume(model), _shm_volume(SMALL_SHM)]
    return template


def ingress_template(served: ServedModel) -> Manifest:
    """CPU pods on on-demand nodes: streams run through them, so they do not end with a spot GPU node's proxy."""
    model = served.model
    keys = _takes_keys(served, ServingMode.ROUTED)
    template = _template(served, conventions.INGRESS_COMPONENT, ON_DEMAND.pod_termination)
    spec = template["spec"]
    spec["nodeSelector"] = cpu_selector(served.platform.cpu_pool)
    spec["topologySpreadConstraints"] = _spread(
        model, conventions.INGRESS_COMPONENT, "kubernetes.io/hostname", conventions.ZONE_LABEL
    )
    spec["containers"] = [
        {
            **_container("ray-worker", served, _WORKER_PORTS),
            "env": [*common(model), *of_ingress(ON_DEMAND)],
            "resources": _size(model.ingress.cpu, model.ingress.memory),
            "volumeMounts": [_CODE_MOUNT, _SHM_MOUNT, *([_KEYS_MOUNT] if keys else [])],
        }
    ]
    spec["volumes"] = [_code_volume(model), _shm_volume(SMALL_SHM), *([_KEYS_VOLUME] if keys else [])]
    return template


def worker_template(served: ServedModel) -> Manifest:
    """A pod with the engine; for a pipeline over nodes, one of its stages."""
    model, pool, platform = served.model, served.pool, served.platform
    drain = drain_of(model, pool)
    keys = _takes_keys(served, ServingMode.DIRECT)
    mounts, volumes = _weights(model)
    container = {
        **_container("ray-worker", served, _WORKER_PORTS),
        "env": [*common(model), *of_workers(model, pool, drain, platform.region)],
        "resources": worker_resources(model, pool),
        "volumeMounts": [_CODE_MOUNT, _SHM_MOUNT, *mounts, *([_KEYS_MOUNT] if keys else [])],
    }
    template = _template(served, conventions.WORKER_COMPONENT, drain.pod_termination)
    spec = template["spec"]
    spec["nodeSelector"] = pool_selector(pool) if pool else cpu_selector(platform.cpu_pool)
    if pool:
        spec["tolerations"] = gpu_tolerations()
    if model.nodes == 1:  # the stages of a pipeline want to be close to each other
        spec["topologySpreadConstraints"] = _spread(
            model, conventions.WORKER_COMPONENT, conventions.ZONE_LABEL
        )
    if model.loader is Loader.NVME_CACHE and needs_volume(model):
        spec["initContainers"] = [_wait_for_cache(model, container)]
    spec["containers"] = [container]
    spec["volumes"] = [
        _code_volume(model),
        _shm_volume(model.shm),
        *volumes,
        *([_KEYS_VOLUME] if keys else []),
    ]
    return template


def container_security(*, debug: bool = False) -> Manifest:
    """What the restricted level asks for, but with a root file system that can be written: Ray's logs and caches."""
    capabilities: Manifest = {"drop": ["ALL"]}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {**capabilities, **({"add": ["SYS_PTRACE"]} if debug else {})},
    }


_WORKER_PORTS = {name: conventions.PORTS[name] for name in ("serve", "metrics")}
_CODE_MOUNT = {"name": "code", "mountPath": conventions.POLICY_MOUNT, "readOnly": True}
_SHM_MOUNT = {"name": "shm", "mountPath": conventions.SHM_PATH}
_KEYS_MOUNT = {"name": "keys", "mountPath": conventions.KEYS_MOUNT, "readOnly": True}
_KEYS_VOLUME = {
    "name": "keys",
    "secret": {"secretName": conventions.SECRETS["endpointKeys"][0], "defaultMode": 0o440},
}


def _template(served: ServedModel, component: str, grace: int) -> Manifest:
    """What all pods of the cluster have in common."""
    model, platform = served.model, served.platform
    priority = {"priorityClassName": served.priority_class} if served.priority_class else {}
    return {
        "metadata": {
            # KubeRay's Services select by app.kubernetes.io/name, so the name must be the one it gives.
            "labels": conventions.labels("kuberay", component, model.name),
            "annotations": {"ray.io/overwrite-container-cmd": "true", CODE_HASH: code_hash(model, platform)},
        },
        "spec": {
            "serviceAccountName": conventions.model_service_account(model.name),
            "automountServiceAccountToken": False,  # EKS Pod Identity mounts a token of its own
            "enableServiceLinks": False,
            **priority,
            "terminationGracePeriodSeconds": grace,
            "securityContext": _pod_security(engine_of(model, served.pool)),
        },
    }


def _container(name: str, served: ServedModel, ports: Mapping[str, int]) -> Manifest:
    return {
        "name": name,
        "image": serving_image(served.model, served.pool, served.platform.images),
        # KubeRay's own command is a shell that runs `ray start`. As the first process it would keep SIGTERM to itself
        # unless its bash happens to replace itself; here it does, always, and Ray drains. `eval` because the variable
        # holds quotes.
        "command": ["/bin/bash", "-lc", "--"],
        "args": ['ulimit -n 65536; eval exec "$KUBERAY_GEN_RAY_START_CMD"'],
        "ports": [{"name": port, "containerPort": number} for port, number in ports.items()],
        "securityContext": container_security(debug=served.model.debug),
    }


def _size(cpu: str, memory: str) -> Manifest:
    size = {"cpu": cpu, "memory": memory}
    return {"requests": size, "limits": dict(size)}


def _pod_security(engine: pins.Engine) -> Manifest:
    profile = {"seccompProfile": {"type": "RuntimeDefault"}}
    if engine.efa:  # AWS's image runs as root: the baseline level, not the restricted one
        return profile
    user = {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _GROUP}
    return {**user, "fsGroup": _GROUP, "fsGroupChangePolicy": "OnRootMismatch", **profile}


def _spread(model: Model, component: str, *keys: str) -> list[Manifest]:
    """Over hosts or zones where there is room: a wish, not a condition, or the last free node would stay empty."""
    selector = {conventions.INSTANCE_LABEL: model.name, conventions.COMPONENT_LABEL: component}
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector},
        }
        for key in keys
    ]


def _takes_keys(served: ServedModel, mode: ServingMode) -> bool:
    endpoint = served.platform.endpoint
    return served.model.serving is mode and endpoint is not None and endpoint.keys


def _code_volume(model: Model) -> Manifest:
    return {"name": "code", "configMap": {"name": code_name(model)}}


def _shm_volume(size: str) -> Manifest:
    """Counted in the container's memory limit, so the limit must be larger. Kubernetes' own /dev/shm has 64Mi."""
    return {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}


def _weights(model: Model) -> tuple[list[Manifest], list[Manifest]]:
    """Mount and volume of the weights: the model's folder, in which the Serve document names a revision."""
    if not needs_volume(model):
        return [], []
    if model.loader is Loader.NVME_CACHE:
        mount = {"name": "weights", "mountPath": conventions.NVME_MOUNT, "readOnly": True}
        return [mount], [
            {"name": "weights", "hostPath": {"path": cache_host_path(model), "type": "DirectoryOrCreate"}}
        ]
    mount = {"name": "weights", "mountPath": conventions.MODEL_MOUNT, "readOnly": True}
    claim = {"claimName": claim_name(model), "readOnly": True}
    return [mount], [{"name": "weights", "persistentVolumeClaim": claim}]


def _wait_for_cache(model: Model, container: Manifest) -> Manifest:
    """Waits until the node has its copy: an engine that starts before it would fail and be counted as broken."""
    marker = f'"{conventions.NVME_MOUNT}/$REVISION/{CACHE_MARKER}"'
    script = f"until [ -f {marker} ]; do echo waiting for {marker}; sleep 5; done"
    size = {"cpu": "50m", "memory": "64Mi"}
    return {
        "name": "wait-for-weights",
        "image": container["image"],  # it is on the node anyway
        "command": ["/bin/sh", "-c", script],
        "env": [
            {
                "name": "REVISION",
                "valueFrom": {"configMapKeyRef": {"name": code_name(model), "key": REVISION}},
            }
        ],
        "resources": {"requests": size, "limits": dict(size)},
        "securityContext": container_security(),
        "volumeMounts": [{"name": "weights", "mountPath": conventions.NVME_MOUNT, "readOnly": True}],
    }
