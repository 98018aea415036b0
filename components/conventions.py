"""Names that more than one module must agree on, each written once. Standard library only, no I/O.

Tests state these values as literals, so a wrong constant cannot pass unseen.
"""

from typing import Final

PROJECT: Final = "llm-platform"
TYPE_PREFIX: Final = "llm:platform"  # type token of a component: llm:platform:<Class>

# Namespaces. The serving one takes the stack's models; the others are where each operator's chart expects to live.
SERVING_NAMESPACE: Final = "llm-serving"
SYSTEM_NAMESPACE: Final = "kube-system"
KUBERAY_NAMESPACE: Final = "kuberay-system"
MONITORING_NAMESPACE: Final = "monitoring"
KEDA_NAMESPACE: Final = "keda"

# Labels of every object that the program makes.
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
PART_OF_LABEL: Final = "app.kubernetes.io/part-of"
NAME_LABEL: Final = "app.kubernetes.io/name"
# KubeRay generates cluster names and puts no owner label on pods, so selectors need a label of our own
# (KubeRay 1.7.0 common/pod.go labelPod).
INSTANCE_LABEL: Final = "app.kubernetes.io/instance"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
HEAD_COMPONENT: Final = "ray-head"
INGRESS_COMPONENT: Final = "ray-ingress"
WORKER_COMPONENT: Final = "ray-worker"

# Nodes.
GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"
GPU_TAINT_KEY: Final = "nvidia.com/gpu"
TAINT_EFFECT: Final = "NoSchedule"
# The S3 CSI driver removes this taint once its agent runs; as a plain taint Karpenter would loop (karpenter #5293).
S3_CSI_STARTUP_TAINT: Final = "s3.csi.aws.com/agent-not-ready"
WORKLOAD_LABEL: Final = "llm-platform.dev/workload"
POOL_LABEL: Final = "llm-platform.dev/pool"
ACCELERATOR_LABEL: Final = "llm-platform.dev/accelerator"
CPU_WORKLOAD: Final = "serving-cpu"
SYSTEM_WORKLOAD: Final = "system"  # the managed nodes of operators and add-ons
GPU_WORKLOAD: Final = "serving-gpu"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE_LABEL: Final = "karpenter.sh/capacity-type"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"
DISCOVERY_TAG: Final = "karpenter.sh/discovery"

# Where things lie inside a serving pod.
SHM_PATH: Final = "/dev/shm"  # noqa: S108 - a mount point, not a temporary file of ours
MODEL_MOUNT: Final = "/models"
NVME_HOST_PATH: Final = "/mnt/.ephemeral/models"  # Bottlerocket mounts its RAID0 array at /mnt/.ephemeral
NVME_MOUNT: Final = "/nvme"
POLICY_MOUNT: Final = "/opt/llm-platform"  # ConfigMap with the Python of in_cluster/

KEYS_MOUNT: Final = "/etc/llm-platform/keys"  # the endpoint's keys, one a line, where callers need one

# Resources of our own that Ray counts: they hold the OpenAI ingress on CPU pods and a CPU model on its workers.
RAY_INGRESS_RESOURCE: Final = "llm_ingress"
RAY_WORKER_RESOURCE: Final = "llm_worker"

# Ports of a Ray pod. The names are KubeRay's and its monitors' own.
SERVE_PORT: Final = 8000
PORTS: Final = {
    "gcs": 6379,
    "dashboard": 8265,
    "client": 10001,
    "serve": SERVE_PORT,
    "metrics": 8080,
    "as-metrics": 44217,
    "dash-metrics": 44227,
}
SERVE_HEALTH_PATH: Final = "/-/healthz"
# Service of the Prometheus that kube-prometheus-stack makes under that release name.
PROMETHEUS_ADDRESS: Final = "http://kube-prometheus-stack-prometheus.monitoring.svc:9090"

# Service accounts that an AWS role is bound to by EKS Pod Identity.
KARPENTER_SERVICE_ACCOUNT: Final = "karpenter"
S3_CSI_SERVICE_ACCOUNT: Final = "s3-csi-driver-sa"
EBS_CSI_SERVICE_ACCOUNT: Final = "ebs-csi-controller-sa"
CNI_SERVICE_ACCOUNT: Final = "aws-node"
LOAD_BALANCER_SERVICE_ACCOUNT: Final = "aws-load-balancer-controller"
MODEL_SERVICE_ACCOUNT: Final = "model-server"
DOWNLOAD_SERVICE_ACCOUNT: Final = "model-download"

# Priorities: what is preempted first. Headroom is below everything so that a real pod takes its place at once.
SERVING_PRIORITY_CLASS: Final = "llm-serving"
HEADROOM_PRIORITY_CLASS: Final = "llm-headroom"
SERVING_PRIORITY: Final = 1000
HEADROOM_PRIORITY: Final = -10

# Secrets of the stack: config key (``llm-platform:<key>``) -> Kubernetes secret and the key inside it.
SECRETS: Final = {
    "huggingFaceToken": ("hugging-face-token", "token"),
    "rayAuthToken": ("ray-auth-token", "auth_token"),  # KubeRay reads the key auth_token
    "endpointKeys": ("endpoint-keys", "keys"),
    "redisPassword": ("redis-password", "password"),
}


def labels(name: str, component: str, instance: str | None = None) -> dict[str, str]:
    """Labels of an object of ours: ``name`` is the software, ``component`` its part, ``instance`` the model or pool."""
    return {
        MANAGED_BY_LABEL: PROJECT,
        PART_OF_LABEL: PROJECT,
        NAME_LABEL: name,
        COMPONENT_LABEL: component,
        **({INSTANCE_LABEL: instance} if instance else {}),
    }


def model_service_account(model: str) -> str:
    """Service account of a model's pods: one each, so that its AWS role reads its own weights only."""
    return f"{MODEL_SERVICE_ACCOUNT}-{model}"
