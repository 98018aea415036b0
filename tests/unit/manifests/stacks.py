"""A small valid stack for tests of manifests, to be changed in one place at a time."""

import json
from typing import Any

from components.settings.models import Model
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def gpu_pool(**changes: Any) -> dict[str, Any]:
    """A pool of g5.12xlarge as it stands in a stack file."""
    return {"name": "g5", "instanceTypes": ["g5.12xlarge"], "limits": {"gpus": 8}, **changes}


def model(**changes: Any) -> dict[str, Any]:
    """A model on the pool, from S3, as it stands in a stack file."""
    return {
        "name": "llama",
        "source": {"kind": "s3", "prefix": "llama-8b", "revision": "v1"},
        "architecture": "llama-3.1-8b",
        "pool": "g5",
        "tensorParallel": 4,
        "engine": {"maxModelLen": 8192},
        **changes,
    }


def from_hub(**changes: Any) -> dict[str, Any]:
    """Source of a model that the download job brings."""
    hub = {"kind": "huggingFace", "repository": "acme/llama", "revision": COMMIT}
    return {"kind": "s3", "prefix": "llama-8b", "revision": COMMIT, "downloadFrom": {**hub, **changes}}


def platform(
    *, models: list[dict[str, Any]] | None = None, pools: list[dict[str, Any]] | None = None, **changes: Any
) -> PlatformSettings:
    """A stack on an existing cluster."""
    raw = {
        "region": "us-west-2",
        "cluster": {"existing": {"context": "test", "name": "test"}},
        "gpuPools": [gpu_pool()] if pools is None else pools,
        "models": models or [model()],
        **changes,
    }
    return PlatformSettings.model_validate_json(json.dumps(raw))


def the_pool(**changes: Any) -> GpuPool:
    """The pool as settings."""
    return platform(pools=[gpu_pool(**changes)]).gpu_pools[0]


def the_model(**changes: Any) -> Model:
    """The model as settings."""
    return platform(models=[model(**changes)]).models[0]
