"""Which image a pod runs, and where it is pulled from."""

from components import pins
from components.settings.cluster import ImageSettings
from components.settings.models import Model
from components.settings.pools import GpuPool
from components.settings.serving_engine import engine_of

_DOCKER_HUB = "docker.io"


def serving_image(model: Model, pool: GpuPool | None, images: ImageSettings) -> str:
    """Reference of the Ray and vLLM image for a model; an image of the user's own wins and is used as written."""
    return images.serving or reference(engine_of(model, pool).image, images)


def reference(image: pins.Image, images: ImageSettings) -> str:
    """Reference of an image, through the stack's mirror or pull-through cache where it has one."""
    host = image.repository.partition("/")[0]
    return image.reference(registry_of(host if "." in host else _DOCKER_HUB, images))


def registry_of(host: str, images: ImageSettings) -> str | None:
    """What images of a registry are pulled from instead: the mirror, or the cache where it has a rule for it."""
    cache = images.pull_through_cache
    if images.mirror or cache is None or host not in cache.prefixes:
        return images.mirror
    return f"{cache.account_id}.dkr.ecr.{cache.region}.amazonaws.com/{cache.prefixes[host]}"


__all__ = ["engine_of", "reference", "registry_of", "serving_image"]
