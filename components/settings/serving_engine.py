"""Which Ray and vLLM serve a model: a consequence of its settings that sizing, rules and manifests share."""

from components import pins
from components.settings.models import Model
from components.settings.pools import GpuPool


def engine_of(model: Model, pool: GpuPool | None) -> pins.Engine:
    """The serving image's contract: AWS's own image only where a model spans nodes with EFA, else the newest pair."""
    return pins.SERVING_EFA if model.pipeline_parallel > 1 and pool is not None and pool.efa else pins.SERVING
