"""The whole of a stack's settings: the value of `llm-platform:platform` in `Pulumi.<stack>.yaml`."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from components import conventions
from components.settings.base import AccountId, Fault, Name, Region, Settings, TagKey, TagValue
from components.settings.cluster import ClusterSettings, ImageSettings, Operators
from components.settings.extras import (
    BudgetSettings,
    DeletionSettings,
    EndpointSettings,
    HeadroomSettings,
    ObservabilitySettings,
    PolicySettings,
    StorageSettings,
)
from components.settings.models import Model
from components.settings.network import NetworkSettings
from components.settings.pools import CpuPool, GpuPool


class PlatformSettings(Settings):
    """Everything a stack is made of, frozen. Rules across fields live in `policies/guardrails`."""

    region: Region = Field(description="AWS region of everything in the stack.")
    account_id: AccountId | None = Field(default=None, description="The one account this stack may touch.")
    tags: dict[TagKey, TagValue] = Field(
        default_factory=dict, description="Tags of every AWS resource, for the bill."
    )
    namespace: Name = Field(
        default=conventions.SERVING_NAMESPACE, description="Kubernetes namespace of the models."
    )
    images: ImageSettings = ImageSettings()
    network: NetworkSettings | None = Field(
        default=None, description="The VPC that is made; only with cluster.create."
    )
    cluster: ClusterSettings = Field(description="The cluster: create makes one, existing uses one.")
    cpu_pool: CpuPool | None = Field(
        default=CpuPool(), description="Nodes for Ray heads and ingress; null: the cluster has them already."
    )
    gpu_pools: tuple[GpuPool, ...] = Field(
        default=(), description="Pools of GPU nodes, each of like instance types."
    )
    storage: StorageSettings = StorageSettings()
    models: Annotated[tuple[Model, ...], Field(min_length=1)] = Field(
        description="The models to serve, one RayService each."
    )
    endpoint: EndpointSettings | None = Field(
        default=None, description="The load balancer; unset: models are reached within the cluster only."
    )
    observability: ObservabilitySettings = ObservabilitySettings()
    headroom: HeadroomSettings | None = Field(default=None, description="Nodes kept warm; unset: none.")
    policy: PolicySettings = PolicySettings()
    budget: BudgetSettings | None = Field(
        default=None, description="What the stack may cost; unset: no limit is checked."
    )
    deletion: DeletionSettings = DeletionSettings()

    def faults(self) -> Iterable[Fault]:
        """A cluster made here needs a network and a named account; an existing one brings its own network."""
        if self.cluster.create and self.network is None:
            yield ("network",), "is missing: cluster.create needs the zones to build in"
        if self.cluster.create and self.account_id is None:
            yield ("accountId",), "is missing: cluster.create builds in one account, and no other is touched"
        if self.cluster.existing and self.network is not None:
            yield ("network",), "is given, but cluster.existing brings its own; remove network"

    @property
    def cluster_name(self) -> str:
        """Name of the cluster."""
        return self.cluster.name

    @property
    def operators(self) -> Operators:
        """Which operators this stack installs; on a cluster made here, all of them."""
        return self.cluster.existing.operators if self.cluster.existing else INSTALL_ALL

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the stack's network; empty on an existing cluster."""
        return self.network.zones if self.network else ()

    def pool_of(self, model: Model) -> GpuPool | None:
        """The GPU pool of a model, or None when it runs on CPU.

        Raises:
            KeyError: the model names a pool that the stack has not (guardrails refuse that first).
        """
        if model.pool is None:
            return None
        by_name = {pool.name: pool for pool in self.gpu_pools}
        return by_name[model.pool]

    def host_of(self, model: Model) -> str | None:
        """Host name at which a model answers, or None when the stack has no endpoint."""
        return f"{model.name}.{self.endpoint.host}" if self.endpoint else None

    @property
    def makes_redis(self) -> bool:
        """Whether a model keeps its head's state in a Redis that the stack makes."""
        return any(model.redis is not None and model.redis.address is None for model in self.models)

    @property
    def needed_secrets(self) -> dict[str, str]:
        """Secrets (config keys) that this stack needs, each with the reason."""
        reasons = {
            "huggingFaceToken": [m.name for m in self.models if _is_gated(m)],
            "rayAuthToken": [m.name for m in self.models if m.ray_token],
            "redisPassword": [m.name for m in self.models if m.redis],
        }
        needed = {key: f"needed by {', '.join(names)}" for key, names in reasons.items() if names}
        if self.endpoint and self.endpoint.keys:
            needed["endpointKeys"] = "needed by endpoint.keys"
        return needed


def _is_gated(model: Model) -> bool:
    """Whether fetching the weights from Hugging Face takes a token."""
    source = model.source.download_from if model.source.kind == "s3" else model.source
    return source is not None and source.kind == "huggingFace" and source.gated


INSTALL_ALL = Operators.model_validate_json(
    '{"karpenter":"install","kuberay":"install","s3Csi":"install","loadBalancerController":"install",'
    '"monitoring":"install","keda":"install","gpuAddons":"install"}'
)
