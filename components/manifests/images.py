"""Which image a pod runs, and where it is pulled from."""

from components import pins
from components.settings.cluster import ImageSettings, PullThroughCache
from components.settings.models import Model
from components.settings.pools import GpuPool
from components.settings.serving_engine import engine_of


def serving_image(model: Model, pool: GpuPool | None, images: ImageSettings) -> str:
    """Reference of the Ray and vLLM image for a model; an image of the user's own wins and is used as written."""
    return images.serving or reference(engine_of(model, pool).image, images)


def reference(image: pins.Image, images: ImageSettings) -> str:
    """Reference of an image, through the stack's mirror or pull-through cache where it has one."""
    if images.mirror:
        return image.reference(images.mirror)
    if images.pull_through_cache and (prefix := _cache_prefix(image, images.pull_through_cache)):
        return image.reference(prefix)
    return image.reference()


def _cache_prefix(image: pins.Image, cache: PullThroughCache) -> str | None:
    """The cache's address for the image's registry, or None when it has no rule for it."""
    host = image.repository.partition("/")[0]
    is_docker_hub = "." not in host
    rules = {"public.ecr.aws": cache.public_ecr_prefix}
    prefix = cache.docker_hub_prefix if is_docker_hub else rules.get(host)
    return f"{cache.account_id}.dkr.ecr.{cache.region}.amazonaws.com/{prefix}" if prefix else None


__all__ = ["engine_of", "reference", "serving_image"]
