"""How long a pod may take to leave: the replica's grace < Ray's drain < the pod's grace < the pool's grace."""

from components.settings.models import Drain, Model
from components.settings.pools import Capacity, GpuPool

SPOT = Drain(graceful_shutdown=80, ray_drain=95, pod_termination=110)
"""EC2 gives 120 s of notice, less the seconds until Karpenter has read it from the queue and evicts."""

ON_DEMAND = Drain(graceful_shutdown=540, ray_drain=560, pod_termination=590)
"""Below 600 s: after that the pods that hold S3 volumes are gone (Mountpoint CSI 2.7, mounter pods)."""


def drain_of(model: Model, pool: GpuPool | None) -> Drain:
    """Grace of a model's replicas: its own, or by the pool's capacity. One spot type in it and all get spot's.

    Serve knows one `graceful_shutdown_timeout_s` for a deployment, whatever its replicas run on.
    """
    if model.drain:
        return model.drain
    return SPOT if pool and Capacity.SPOT in pool.capacity else ON_DEMAND
