"""A small valid model, pool and stack; each test changes one thing."""

from typing import Any

from components.settings.cluster import ClusterSettings, ExistingCluster
from components.settings.extras import EndpointSettings
from components.settings.models import (
    EngineSettings,
    HubSource,
    Loader,
    Model,
    PathSource,
    S3Source,
    Scaling,
    ServingMode,
)
from components.settings.platform import PlatformSettings
from components.settings.pools import Capacity, GpuPool, Limits

CERTIFICATE = "arn:aws:acm:us-west-2:111122223333:certificate/abc"


def model(**changes: Any) -> Model:
    """A model with four GPUs on one node, weights in a bucket."""
    values: dict[str, Any] = {
        "name": "chat",
        "source": S3Source(kind="s3", prefix="models/chat", revision="r1"),
        "architecture": "llama-3.1-70b",
        "pool": "g5",
        "tensor_parallel": 4,
        "engine": EngineSettings(max_model_len=8192),
        "scaling": Scaling(min_replicas=2, max_replicas=6),
        "serving": ServingMode.ROUTED,  # the mode with the most parts
    }
    return Model(**{**values, **changes})


def cpu_model(**changes: Any) -> Model:
    """A model that runs on CPU, weights in its image."""
    source = PathSource(kind="path", path="/opt/models/tiny")
    values = {"pool": None, "tensor_parallel": 1, "source": source, "loader": Loader.LOCAL}
    return model(**{**values, **changes})


def hub_model(**changes: Any) -> Model:
    """A model whose engine reads the hub itself, as a development stack may."""
    source = HubSource(repository="Qwen/Qwen2.5-0.5B", revision="a" * 40)
    return model(**{"source": source, "loader": Loader.LOCAL, **changes})


def pool(**changes: Any) -> GpuPool:
    """On-demand nodes with four GPUs each."""
    values: dict[str, Any] = {
        "name": "g5",
        "instance_types": ("g5.12xlarge",),
        "capacity": (Capacity.ON_DEMAND,),
        "limits": Limits(gpus=32),
    }
    return GpuPool(**{**values, **changes})


def endpoint(**changes: Any) -> EndpointSettings:
    """An internal endpoint with TLS."""
    return EndpointSettings(**{"host": "llm.example.com", "certificate_arn": CERTIFICATE, **changes})


def platform(*models: Model, **changes: Any) -> PlatformSettings:
    """A stack on an existing cluster with one pool."""
    values: dict[str, Any] = {
        "region": "us-west-2",
        "cluster": ClusterSettings(existing=ExistingCluster(context="c", name="c")),
        "gpu_pools": (pool(),),
        "models": models or (model(),),
    }
    return PlatformSettings(**{**values, **changes})
