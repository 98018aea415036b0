"""Which Ray and vLLM serve a model: a consequence of its settings that sizing, rules and manifests share."""

from components import pins
from components.settings.models import Model
from components.settings.pools import GpuPool


def engine_of(model: Model, pool: GpuPool | None) -> pins.Engine:
    """The pinned engine of a model on its pool."""
    return pins.engine(stages=model.pipeline_parallel, efa=pool is not None and pool.efa is not None)
