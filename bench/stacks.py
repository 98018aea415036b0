"""Objects of the local stack in another form than its file says: another serving mode, other limits, keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.manifests.ray_pods import ServedModel
from components.manifests.ray_service import ray_service
from components.manifests.scaling import code_of
from components.manifests.serve import serve_text
from components.settings import stack_file
from components.settings.models import Model, ServingMode
from components.settings.platform import PlatformSettings

ROOT = Path(__file__).resolve().parent.parent


def local_settings() -> PlatformSettings:
    """The settings of Pulumi.local.yaml."""
    return stack_file.settings_of(stack_file.read(ROOT / "Pulumi.local.yaml"))


def objects_of(
    model: Model, platform: PlatformSettings, prometheus: str | None = None
) -> list[dict[str, Any]]:
    """The RayService of a model and the ConfigMap with its code, as the program makes them."""
    platform = platform.model_copy(update={"models": (model,)})
    pool = platform.pool_of(model) if model.pool else None
    served = ServedModel(model=model, pool=pool, platform=platform, prometheus=prometheus)
    return [ray_service(served, serve_text(model, pool, platform)), code_of(model, platform)]


def local_model(
    mode: str, *, scaling: Mapping[str, Any] | None = None, engine: Mapping[str, Any] | None = None
) -> Model:
    """The local stack's model with other limits."""
    model = local_settings().models[0]
    return model.model_copy(
        update={
            "serving": ServingMode(mode),
            "scaling": model.scaling.model_copy(update=dict(scaling or {})),
            "engine": model.engine.model_copy(update=dict(engine or {})),
        }
    )


def objects_in_mode(
    mode: str,
    *,
    scaling: Mapping[str, Any] | None = None,
    engine: Mapping[str, Any] | None = None,
    prometheus: str | None = None,
) -> list[dict[str, Any]]:
    """The local stack's objects in one serving mode."""
    return objects_of(local_model(mode, scaling=scaling, engine=engine), local_settings(), prometheus)
