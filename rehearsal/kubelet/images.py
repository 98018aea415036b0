"""Which images have an environment on this machine, and what a container needs there beside what its pod says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.serving import environment

# A pod with this annotation is simulated, whatever its image: one set of Ray pods at a time is enough for two cores.
SIMULATED_ANNOTATION = "llm-platform.dev/simulated"

_TAG = re.compile(r"(@sha256:[0-9a-f]+|:[^/:]+)$")


def _serving_folder() -> Path | None:
    found = environment.locate()
    return found.folder if found else None


@dataclass(frozen=True)
class Local:
    """A row: where the programs of an image are on this machine, and who may use them."""

    name: str
    folder: Callable[[], Path | None]
    # Labels that the pod must have; None stands for any value.
    labels: Mapping[str, str | None] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)


RAY = Local(
    name="the serving environment (Ray Serve LLM and vLLM on CPU)",
    folder=_serving_folder,
    # The same image also downloads weights in a Job, for which there is no internet here.
    labels={"ray.io/node-type": None},
    variables={
        "HF_HUB_OFFLINE": "1",  # there is no internet: a look-up only waits
        "RAY_USAGE_STATS_ENABLED": "0",  # the same
        "RAY_AUTH_MODE": "disabled",  # Ray 2.60 wants a token by default, and KubeRay 1.5.0 gives none
        # Each node would see the memory of the whole machine and kill its workers for what others use.
        "RAY_memory_monitor_refresh_ms": "0",
        # A worker that has built an application keeps what it imported, 350 MB, until it is ended: at once then.
        "RAY_num_workers_soft_limit": "0",
        # Without it each node would count the machine's memory as its own, and reserve 30 % of it.
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "268435456",
    },
)
# An image that no registry has. A pod of it is taken from the simulated nodes, whose pods all run, and never starts.
BROKEN_IMAGE = "registry.invalid/no-such-image"
BROKEN = Local(name="no image", folder=lambda: None)
MACHINE = Local(name="the machine's own programs", folder=lambda: None)

# Repository names: an image is of a row when its repository is the name or ends with it after a slash, so that a
# pull-through cache (`ACCOUNT.dkr.ecr.REGION.amazonaws.com/docker-hub/rayproject/ray-llm`) is found too.
PROCESS_IMAGES: Mapping[str, Local] = {
    "rayproject/ray-llm": RAY,
    "deep-learning-containers/ray": RAY,  # the one with EFA libraries
    BROKEN_IMAGE: BROKEN,
    "llm-platform/machine": MACHINE,  # for tests: bash, sleep, python3
}


def repository(image: str) -> str:
    """An image without tag and digest."""
    return _TAG.sub("", _TAG.sub("", image))


def local_of(image: str) -> Local | None:
    """The row of an image, or None when it has no environment here."""
    name = repository(image)
    for known, local in PROCESS_IMAGES.items():
        if name == known or name.endswith(f"/{known}"):
            return local
    return None


def runs_here(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs as processes: its first container (KubeRay's is Ray) has an environment, and its labels fit."""
    metadata = pod["metadata"]
    local = local_of(pod["spec"]["containers"][0]["image"])
    if local is None or (metadata.get("annotations") or {}).get(SIMULATED_ANNOTATION) == "true":
        return False
    labels = metadata.get("labels") or {}
    return all(name in labels and value in (None, labels[name]) for name, value in local.labels.items())
