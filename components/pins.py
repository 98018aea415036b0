"""Every version the program installs, once. Standard library only.

There is no override per stack except the Kubernetes version: dev runs `main`, prod a release tag, so a version is
promoted by git. ``confirmed=False`` marks a version that could not be looked up from here (the sources say how it was
inferred); `llmp pins --live` asks AWS what it offers.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm chart: where it is published, under which name, and the one version used."""

    repository: str  # https://… for an index, oci://… for a registry
    name: str
    version: str
    namespace: str

    @property
    def reference(self) -> str:
        """What Helm is given as the chart: an OCI address, or the plain name beside ``repository``."""
        return f"{self.repository}/{self.name}" if self.repository.startswith("oci://") else self.name


@dataclass(frozen=True, slots=True)
class Image:
    """A container image; ``digest`` (sha256:…) is empty where it could not be learned offline."""

    repository: str
    tag: str
    digest: str = ""

    def reference(self, registry: str | None = None) -> str:
        """Address to pull from; ``registry`` (a mirror or pull-through cache prefix) takes the place of the host."""
        path = self.repository
        if registry:
            host, slash, rest = path.partition("/")
            path = f"{registry}/{rest if slash and ('.' in host or ':' in host) else path}"
        return f"{path}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True, slots=True)
class Addon:
    """An EKS managed add-on version."""

    name: str
    version: str
    confirmed: bool
    source: str


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving image with the Ray, vLLM and CUDA inside it."""

    image: Image
    ray: str
    vllm: str
    cuda: str
    efa: bool  # libfabric and aws-ofi-nccl are in the image


# Kubernetes: 1.36 is the newest that Karpenter 1.14's own matrix names; 1.35 is in standard support until 2027-03-27.
KUBERNETES_DEFAULT: Final = "1.36"
KUBERNETES_SUPPORTED: Final = ("1.36", "1.35")
# End of standard support on EKS (endoflife.date, 2026-11-30); 1.36's date is not published there yet.
KUBERNETES_END_OF_SUPPORT: Final = {"1.35": "2027-03-27"}

# renovate: datasource=github-releases depName=bottlerocket-os/bottlerocket
BOTTLEROCKET: Final = "1.64.0"
BOTTLEROCKET_ALIAS: Final = f"bottlerocket@v{BOTTLEROCKET}"
# Release of the managed node group's image (EKS names Bottlerocket releases <version>-<commit>); the commit could not be
# learned offline, so the group takes the version that EKS defaults to for this Kubernetes until it is filled in.
BOTTLEROCKET_RELEASE: Final = ""
NVIDIA_DRIVER: Final = "580"  # branch shipped in the Bottlerocket NVIDIA variants of this version
CUDA_OF_DRIVER: Final = "13.0"  # newest CUDA that driver branch 580 runs

# Ray and vLLM are an exact pair: ray[llm] 2.60.0 requires vllm==0.29.0.
SERVING: Final = Engine(
    image=Image(
        "rayproject/ray-llm", "2.60.0-py312-cu130"
    ),  # renovate: datasource=docker depName=rayproject/ray-llm
    ray="2.60.0",
    vllm="0.29.0",
    cuda="13.0",
    efa=False,
)
# Models over several nodes with EFA need libfabric and aws-ofi-nccl, which only AWS's own image has. Its tag counts the
# image's own releases (v1.0.0 of 2026-08-31, aws/deep-learning-containers changelog), not Ray's.
SERVING_EFA: Final = Engine(
    image=Image("public.ecr.aws/deep-learning-containers/ray", "serve-llm-cuda-v1.0.0"),
    ray="2.58.0",
    vllm="0.26.0",
    cuda="13.0",
    efa=True,
)


def engine(*, stages: int, efa: bool) -> Engine:
    """The engine of a model: AWS's own image only where it spans nodes with EFA, else the newest pair."""
    return SERVING_EFA if stages > 1 and efa else SERVING


PAUSE_IMAGE: Final = Image(
    "registry.k8s.io/pause", "3.10.1"
)  # renovate: datasource=docker depName=registry.k8s.io/pause

KARPENTER_CRDS: Final = Chart("oci://public.ecr.aws/karpenter", "karpenter-crd", "1.14.1", "kube-system")
KARPENTER: Final = Chart("oci://public.ecr.aws/karpenter", "karpenter", "1.14.1", "kube-system")
KUBERAY: Final = Chart(
    "https://ray-project.github.io/kuberay-helm", "kuberay-operator", "1.7.0", "kuberay-system"
)
LOAD_BALANCER_CONTROLLER: Final = Chart(
    "https://aws.github.io/eks-charts", "aws-load-balancer-controller", "3.5.0", "kube-system"
)
EFA_PLUGIN: Final = Chart(
    "https://aws.github.io/eks-charts", "aws-efa-k8s-device-plugin", "0.5.30", "kube-system"
)
DCGM_EXPORTER: Final = Chart(
    "https://nvidia.github.io/dcgm-exporter/helm-charts", "dcgm-exporter", "4.8.2", "monitoring"
)
MONITORING: Final = Chart(
    "https://prometheus-community.github.io/helm-charts", "kube-prometheus-stack", "88.5.3", "monitoring"
)
KEDA: Final = Chart("https://kedacore.github.io/charts", "keda", "2.20.2", "keda")
CHARTS: Final = (
    KARPENTER_CRDS, KARPENTER, KUBERAY, LOAD_BALANCER_CONTROLLER, EFA_PLUGIN, DCGM_EXPORTER, MONITORING, KEDA,
)  # fmt: skip

_INFERRED = "inferred from the upstream release current on 2026-11-30; EKS suffix not checked against AWS"
ADDONS: Final = {
    addon.name: addon
    for addon in (
        Addon("vpc-cni", "v1.23.0-eksbuild.1", False, _INFERRED),
        Addon("coredns", "v1.13.2-eksbuild.1", False, _INFERRED),
        Addon("kube-proxy", "v1.36.0-eksbuild.1", False, _INFERRED),
        Addon("eks-pod-identity-agent", "v1.3.10-eksbuild.1", False, _INFERRED),
        Addon("aws-ebs-csi-driver", "v1.55.0-eksbuild.1", False, _INFERRED),
        Addon("aws-mountpoint-s3-csi-driver", "v2.7.0-eksbuild.1", False, _INFERRED),
        Addon("metrics-server", "v0.8.1-eksbuild.1", False, _INFERRED),
        Addon("eks-node-monitoring-agent", "v1.7.0-eksbuild.1", False, _INFERRED),
    )
}

# kube-proxy is built per Kubernetes version and EKS refuses another one's.
KUBE_PROXY: Final = {"1.36": ADDONS["kube-proxy"].version, "1.35": "v1.35.0-eksbuild.2"}


def addon_version(name: str, kubernetes: str) -> str:
    """Version of an EKS add-on for a cluster of this Kubernetes version."""
    return KUBE_PROXY[kubernetes] if name == "kube-proxy" else ADDONS[name].version
