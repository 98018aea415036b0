"""What all models of a stack share in the cluster: namespaces, priorities, defaults and bounds, secrets."""

from collections.abc import Iterable, Mapping
from typing import Any

from components import conventions
from components.settings.cluster import Operator
from components.settings.models import Loader
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

# Levels of the Pod Security Standards for the operators' namespaces, by what their charts' pods ask for.
_KUBERAY_LEVEL = "baseline"
_KEDA_LEVEL = "baseline"
_MONITORING_LEVEL = "privileged"  # node-exporter and the GPU exporter read the node

_ADMISSION = "llm-platform-host-paths"


def uses_host_paths(platform: PlatformSettings) -> bool:
    """Whether a model is cached on the nodes' disks, for which its pods mount a folder of the node."""
    return any(model.loader is Loader.NVME_CACHE for model in platform.models)


def enforced_level(platform: PlatformSettings) -> str:
    """Pod Security level that the stack's namespace enforces: the strictest that its pods can keep.

    Host paths and SYS_PTRACE are beyond `baseline`. The cache cannot move to a namespace of its own: workers mount it
    too. What `privileged` opens beyond the cache's folder, `host_path_guard` closes again.
    """
    return (
        "privileged"
        if uses_host_paths(platform) or any(model.debug for model in platform.models)
        else "baseline"
    )


def namespaces(platform: PlatformSettings) -> list[Manifest]:
    """The stack's namespace, and those of the operators that this stack installs."""
    operators, install = platform.operators, Operator.INSTALL
    monitoring = operators.monitoring is install and platform.observability.enabled
    wanted = {
        platform.namespace: (enforced_level(platform), True),
        conventions.KUBERAY_NAMESPACE: (_KUBERAY_LEVEL, operators.kuberay is install),
        conventions.MONITORING_NAMESPACE: (_MONITORING_LEVEL, monitoring or operators.gpu_addons is install),
        conventions.KEDA_NAMESPACE: (
            _KEDA_LEVEL,
            operators.keda is install and platform.headroom is not None,
        ),
    }
    return [_namespace(name, level) for name, (level, needed) in wanted.items() if needed]


def priority_classes() -> list[Manifest]:
    """Serving before headroom: a pause pod goes at once when a model needs its place, and never displaces anything."""
    return [
        _priority(
            conventions.SERVING_PRIORITY_CLASS,
            conventions.SERVING_PRIORITY,
            "PreemptLowerPriority",
            "Pods that serve models.",
        ),
        _priority(
            conventions.HEADROOM_PRIORITY_CLASS,
            conventions.HEADROOM_PRIORITY,
            "Never",
            "Pause pods that keep nodes warm.",
        ),
    ]


def limit_range(platform: PlatformSettings) -> Manifest:
    """What a container gets that says nothing, so that none in this namespace is without a request."""
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": _metadata("container-defaults", platform.namespace),
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
                    "default": {"memory": "1Gi"},
                }
            ]
        },
    }


def resource_quota(platform: PlatformSettings) -> Manifest:
    """No way in beside the stack's one ALB, which reaches pods by their addresses.

    GPUs are bounded by the NodePools: a pod beyond a pool's limit waits and says why, one beyond a quota is not made.
    """
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _metadata("no-own-load-balancers", platform.namespace),
        "spec": {"hard": {"services.loadbalancers": "0", "services.nodeports": "0"}},
    }


def download_service_account(platform: PlatformSettings) -> Manifest:
    """Identity of the download jobs, to which the storage binds a role that may write to the bucket."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(conventions.DOWNLOAD_SERVICE_ACCOUNT, platform.namespace),
        "automountServiceAccountToken": False,
    }


def secret(key: str, value: Any, platform: PlatformSettings) -> Manifest:
    """The Kubernetes secret of a config key of `conventions.SECRETS`; ``value`` may be an Output."""
    name, entry = conventions.SECRETS[key]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(name, platform.namespace),
        "type": "Opaque",
        "stringData": {entry: value},
    }


def host_path_guard(platform: PlatformSettings) -> list[Manifest]:
    """Admission policy for a namespace at level `privileged`: of a node, pods get the cache's folder and nothing else.

    Nothing where the namespace's own level is enough.
    """
    if enforced_level(platform) != "privileged":
        return []
    name = f"{_ADMISSION}-{platform.namespace}"
    return [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": _metadata(name),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["pods", "pods/ephemeralcontainers"],
                        }
                    ]
                },
                "variables": [
                    {
                        "name": "containers",
                        "expression": "object.spec.containers + "
                        "(has(object.spec.initContainers) ? object.spec.initContainers : [])",
                    }
                ],
                "validations": [
                    {"expression": rule, "message": text} for text, rule in _host_rules().items()
                ],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": _metadata(name),
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": platform.namespace}}
                },
            },
        },
    ]


# Capabilities that a pod may add: for debuggers, for RDMA, for low ports.
_CAPABILITIES = ("SYS_PTRACE", "IPC_LOCK", "NET_BIND_SERVICE")
# What the level `baseline` allows (Kubernetes 1.36, Pod Security Standards).
_SYSCTLS = (
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
)  # fmt: skip
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_OWN, _POD_OWN = "c.securityContext", "object.spec.securityContext"


def _host_rules() -> dict[str, str]:
    """Sentence and CEL over a pod: the level `baseline`, but for the cache's folder and a few capabilities.

    A host path cannot hold "..": the API server refuses that first.
    """
    path = conventions.NVME_HOST_PATH
    sysctls = f"{_POD_OWN}.sysctls.all(x, x.name in {_words(_SYSCTLS)})"
    return {
        f"a pod of this namespace mounts nothing of the node but {path}": (
            "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath) || "
            f"v.hostPath.path == '{path}' || v.hostPath.path.startsWith('{path}/'))"
        ),
        f"a container of this namespace is not privileged and adds no capability but {', '.join(_CAPABILITIES)}": (
            _each_container(
                _unless(_OWN, "privileged", f"!{_OWN}.privileged"),
                _unless(
                    _OWN,
                    "capabilities",
                    "add",
                    f"{_OWN}.capabilities.add.all(x, x in {_words(_CAPABILITIES)})",
                ),
                _unless(_OWN, "procMount", f"{_OWN}.procMount == 'Default'"),
            )
        ),
        "a pod of this namespace shares no namespace of the node": " && ".join(
            f"!(has(object.spec.{name}) && object.spec.{name})"
            for name in ("hostNetwork", "hostPID", "hostIPC")
        ),
        "a container of this namespace takes no port of the node": _each_container(
            "(!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))"
        ),
        "a pod of this namespace keeps the confinement of its container runtime (SELinux, AppArmor, seccomp)": (
            f"{_confined(_POD_OWN)} && {_each_container(_confined(_OWN))}"
        ),
        "a pod of this namespace sets only sysctls of its own namespaces": _unless(
            _POD_OWN, "sysctls", sysctls
        ),
    }


def _confined(context: str) -> str:
    """That a security context, of a pod or of a container, takes nothing off."""
    linux = f"{context}.seLinuxOptions"
    return " && ".join(
        (
            _unless(context, "seLinuxOptions", "type", f"{linux}.type in {_words(_SELINUX_TYPES)}"),
            _unless(context, "seLinuxOptions", "user", f"{linux}.user == ''"),
            _unless(context, "seLinuxOptions", "role", f"{linux}.role == ''"),
            _unless(context, "appArmorProfile", f"{context}.appArmorProfile.type != 'Unconfined'"),
            _unless(context, "seccompProfile", f"{context}.seccompProfile.type != 'Unconfined'"),
            _unless(context, "windowsOptions", "hostProcess", f"!{context}.windowsOptions.hostProcess"),
        )
    )


def _unless(context: str, *steps_and_rule: str) -> str:
    """CEL that holds where a field below a security context is not set, or as a rule says."""
    *steps, rule = steps_and_rule
    paths = [context, *(f"{context}.{'.'.join(steps[: n + 1])}" for n in range(len(steps)))]
    return f"({' || '.join(f'!has({path})' for path in paths)} || {rule})"


def _each_container(*rules: str) -> str:
    """CEL that holds for every container `c`. Ephemeral ones are of another type, so they are no part of the variable."""
    every, ephemeral = " && ".join(rules), "object.spec.ephemeralContainers"
    return f"variables.containers.all(c, {every}) && (!has({ephemeral}) || {ephemeral}.all(c, {every}))"


def _words(words: Iterable[str]) -> str:
    return f"[{', '.join(repr(word) for word in words)}]"


def _namespace(name: str, level: str) -> Manifest:
    pod_security = "pod-security.kubernetes.io"
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {
                **conventions.labels("platform", "namespace"),
                f"{pod_security}/enforce": level,
                # Whoever applies something beyond it is told, also where it is not refused.
                f"{pod_security}/warn": "baseline",
                f"{pod_security}/audit": "baseline",
            },
        },
    }


def _priority(name: str, value: int, preemption: str, text: str) -> Manifest:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _metadata(name),
        "value": value,
        "preemptionPolicy": preemption,
        "globalDefault": False,
        "description": text,
    }


def _metadata(name: str, namespace: str | None = None) -> Manifest:
    labels: Mapping[str, str] = conventions.labels("platform", "base")
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(labels)}
