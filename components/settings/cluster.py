"""The cluster: made by this stack, or one that is already there."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from components import pins
from components.settings.base import (
    AccountId,
    Arn,
    Cidr,
    Fault,
    InstanceType,
    Name,
    Region,
    Settings,
    TagKey,
    TagValue,
    Text,
    form,
)

Principal = Annotated[
    str,
    form(
        r"^arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[A-Za-z0-9+=,.@_/-]+$",
        "the ARN of a role or user like arn:aws:iam::111122223333:role/platform-admin",
    ),
]


class Operator(StrEnum):
    """Whether an operator of an existing cluster is installed by this stack or is there already."""

    INSTALL = "install"
    PRESENT = "present"


class LogType(StrEnum):
    """Control plane logs that EKS can send to CloudWatch."""

    API = "api"
    AUDIT = "audit"
    AUTHENTICATOR = "authenticator"
    CONTROLLER_MANAGER = "controllerManager"
    SCHEDULER = "scheduler"


class EndpointAccess(Settings):
    """Who reaches the Kubernetes API from outside the VPC."""

    public: bool = Field(
        default=False, description="Also reachable from outside the VPC, by the networks in cidrs."
    )
    # Runners of CI and of Pulumi Deployments are outside the VPC: without their CIDRs here (or runners inside) no
    # update can reach a private endpoint.
    cidrs: tuple[Cidr, ...] = Field(default=(), description="Networks that may reach the public endpoint.")

    def faults(self) -> Iterable[Fault]:
        """A public endpoint has a list of networks, and only that has one."""
        if self.public and not self.cidrs:
            yield (
                ("public",),
                "a public endpoint needs cidrs, the networks that may reach it (offices, runners); or set public: false",
            )
        if self.cidrs and not self.public:
            yield ("cidrs",), "limit the public endpoint, which is off; set public: true or remove them"


class SystemNodes(Settings):
    """Managed node group for operators and add-ons. Models never run here."""

    instance_type: InstanceType = "m6i.xlarge"  # 4 vCPU and 16 GiB: Prometheus and Karpenter side by side
    # Karpenter's two replicas need two nodes in two zones.
    minimum: Annotated[int, Field(alias="min", ge=2, le=100)] = 2
    maximum: Annotated[int, Field(alias="max", ge=2, le=100)] = 4

    def faults(self) -> Iterable[Fault]:
        """Least and most are in order."""
        if self.maximum < self.minimum:
            yield (
                self.written("maximum", "minimum"),
                f"max {self.maximum} is below min {self.minimum}; raise max or lower min",
            )


class CreateCluster(Settings):
    """An EKS cluster with everything in it."""

    name: Name = Field(description="Name of the cluster. It cannot be changed later.")
    kubernetes_version: Annotated[
        str, form(r"^1\.[0-9]{2}$", 'a minor version of Kubernetes in quotes like "1.36"')
    ] = pins.KUBERNETES_DEFAULT
    endpoint_access: EndpointAccess = EndpointAccess()
    administrators: tuple[Principal, ...] = Field(
        default=(),
        description="IAM roles and users that may do everything in the cluster, beside the one that makes it.",
    )
    # audit and authenticator answer "who did this"; the others are bulky and mostly for AWS support.
    log_types: tuple[LogType, ...] = Field(
        default=(LogType.AUDIT, LogType.AUTHENTICATOR), description="Control plane logs sent to CloudWatch."
    )
    # EKS encrypts all API data with a key of its own since 1.28. A key of yours cannot be taken away again later.
    secrets_key_arn: Arn | None = Field(
        default=None, description="Own KMS key for Kubernetes secrets; unset: EKS's."
    )
    system_nodes: SystemNodes = SystemNodes()
    # Off: `pulumi destroy` of a test stack works at once. A production stack turns it on.
    deletion_protection: bool = Field(
        default=False, description="EKS refuses to delete the cluster until this is off."
    )


class Operators(Settings):
    """Operators of an existing cluster. What is `present` is used as it is and its version is not checked."""

    karpenter: Operator = Operator.PRESENT
    kuberay: Operator = Operator.PRESENT
    s3_csi: Operator = Operator.PRESENT
    load_balancer_controller: Operator = Operator.PRESENT
    monitoring: Operator = Operator.PRESENT
    keda: Operator = Operator.PRESENT
    gpu_addons: Operator = Operator.PRESENT  # DCGM exporter, and the EFA plugin where a pool has EFA

    def installs(self, operator: str) -> bool:
        """Whether this stack installs the operator of that field name."""
        return getattr(self, operator) is Operator.INSTALL


class ExistingCluster(Settings):
    """A cluster that this stack uses and does not own."""

    context: Text = Field(description="Context of the kubeconfig that reaches the cluster.")
    name: Name = Field(description="Name of the cluster.")
    region: Region | None = Field(default=None, description="Region of the cluster; unset: the stack's.")
    node_role: Text | None = Field(
        default=None, description="Name of the IAM role that Karpenter's nodes take."
    )
    discovery_tags: dict[TagKey, TagValue] = Field(
        default_factory=dict, description="Tags by which Karpenter finds the subnets and the security group."
    )
    operators: Operators = Operators()


class ClusterSettings(Settings):
    """Exactly one of `create` and `existing`."""

    create: CreateCluster | None = Field(
        default=None, description="A cluster that this stack makes and owns."
    )
    existing: ExistingCluster | None = Field(default=None, description="A cluster that is there already.")

    def faults(self) -> Iterable[Fault]:
        """One of the two blocks is given."""
        if (self.create is None) == (self.existing is None):
            yield (), "needs exactly one of create (make an EKS cluster) and existing (use one that is there)"

    @property
    def name(self) -> str:
        """Name of the cluster, known at preview in both cases."""
        return self.create.name if self.create else self._existing.name

    @property
    def _existing(self) -> ExistingCluster:
        assert self.existing is not None  # noqa: S101 - held by faults
        return self.existing


RepositoryPrefix = Annotated[
    str, form(r"^[a-z0-9]+([._/-][a-z0-9]+)*$", "a repository prefix of ECR like docker-hub")
]
Mirror = Annotated[
    str,
    form(
        r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?$",
        "a registry without https:// like registry.example.com/mirror",
    ),
]
ImageReference = Annotated[
    str,
    form(
        r"^[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]*(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$",
        "an image with its tag or digest like registry.example.com/ray-llm:2.60.0",
    ),
]


class PullThroughCache(Settings):
    """ECR pull-through cache: images come from <accountId>.dkr.ecr.<region>.amazonaws.com/<prefix>."""

    account_id: AccountId = Field(description="Account whose registry caches the images.")
    region: Region = Field(description="Region of that registry; nodes pull fastest from their own.")
    docker_hub_prefix: RepositoryPrefix = "docker-hub"  # the names that AWS's console proposes
    public_ecr_prefix: RepositoryPrefix = "ecr-public"
    # Operators' images come from these; unset, because an account that caches Docker Hub need not cache them. ECR has no
    # rule for nvcr.io, so the exporter of GPU metrics always comes from there.
    kubernetes_prefix: RepositoryPrefix | None = Field(
        default=None, description="Of a rule for registry.k8s.io; unset: pulled from there."
    )
    quay_prefix: RepositoryPrefix | None = Field(
        default=None, description="Of a rule for quay.io (KubeRay, Prometheus); unset: pulled from there."
    )
    github_prefix: RepositoryPrefix | None = Field(
        default=None, description="Of a rule for ghcr.io (KEDA); unset: pulled from there."
    )

    @property
    def prefixes(self) -> dict[str, str]:
        """Prefix of each registry that has a rule."""
        rules = {
            "docker.io": self.docker_hub_prefix,
            "public.ecr.aws": self.public_ecr_prefix,
            "registry.k8s.io": self.kubernetes_prefix,
            "quay.io": self.quay_prefix,
            "ghcr.io": self.github_prefix,
        }
        return {host: prefix for host, prefix in rules.items() if prefix}


class ImageSettings(Settings):
    """Where images are pulled from: their own registry, a mirror that has the same paths, or an ECR pull-through cache."""

    mirror: Mirror | None = Field(default=None, description="Registry that has every image at the same path.")
    pull_through_cache: PullThroughCache | None = Field(
        default=None, description="ECR registry that fetches images once and keeps them."
    )
    # Loading by the streamer needs vLLM's extra `runai` in the image; the pinned one is not known to have it.
    serving: ImageReference | None = Field(
        default=None,
        description="Own serving image (repository:tag or @sha256); it must hold the pinned Ray and vLLM.",
    )
    has_runai: bool = Field(
        default=False,
        description="The serving image holds vLLM's extra runai, which the loader streamer needs.",
    )

    def faults(self) -> Iterable[Fault]:
        """Images come from one place."""
        if self.mirror and self.pull_through_cache:
            yield ("mirror",), "and pullThroughCache exclude each other; keep one"


__all__ = [
    "ClusterSettings", "CreateCluster", "EndpointAccess", "ExistingCluster", "ImageSettings", "LogType", "Operator",
    "Operators", "PullThroughCache", "SystemNodes",
]  # fmt: skip
