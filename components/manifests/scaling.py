"""ConfigMap with the Python that runs inside a model's Ray cluster: scaling policy, endpoint keys, ingress.

Serve imports it where it builds the application, so it lies on PYTHONPATH of every Ray pod. The weights' revision lies
beside it and not in the pod template: a new revision is to change the Serve document only, and a node that starts later
still has to know which copy to wait for.
"""

from typing import Any

from components import conventions
from components.manifests.code import code_config_map, hash_of
from components.manifests.weights import remote_source
from components.settings.models import Model
from components.settings.platform import PlatformSettings

FILES = ("direct_app.py", "endpoint_keys.py", "keyed_ingress.py", "scaling_policy.py")
REVISION = "revision"


def code_name(model: Model) -> str:
    """Name of the ConfigMap of a model."""
    return f"{model.name}-code"


def code_of(model: Model, platform: PlatformSettings) -> dict[str, Any]:
    """The ConfigMap of a model."""
    code = _code(model, platform)
    if model.source.kind == "path":
        return code
    return {**code, "data": {**code["data"], REVISION: remote_source(model).revision}}


def code_hash(model: Model, platform: PlatformSettings) -> str:
    """Changes with the code alone. Pods carry it: changed code makes a new Ray cluster, as a changed image does."""
    return hash_of(_code(model, platform))


def _code(model: Model, platform: PlatformSettings) -> dict[str, Any]:
    labels = conventions.labels("kuberay", "code", model.name)
    return code_config_map(FILES, code_name(model), platform.namespace, labels)
