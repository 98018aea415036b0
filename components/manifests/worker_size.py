"""How much of a node one Ray worker pod takes. Headroom pods take exactly the same, or they would not keep its place.

A worker pod stands for one pipeline stage: it has the model's tensor-parallel GPUs, all on one node.
"""

import math

from components import conventions
from components.facts.instance_types import INSTANCE_TYPES, InstanceType, allocatable_memory_mib
from components.quantities import quantity
from components.settings.models import Model
from components.settings.pools import GpuPool

Resources = dict[str, dict[str, str]]
"""`{"requests": …, "limits": …}` of a container."""


def worker_resources(model: Model, pool: GpuPool | None) -> Resources:
    """Resources of one worker pod, the same for requests and limits.

    Equal, because Ray takes its own CPU and memory from the limits and counts on having them. Whole CPUs, because Ray
    rounds; the smallest share over the pool's instance types, because Karpenter may start any of them.
    """
    if pool is None:
        size = {"cpu": model.cpu_worker.cpu, "memory": model.cpu_worker.memory}
    else:
        shares = [_share(INSTANCE_TYPES[name], model.tensor_parallel, pool) for name in pool.instance_types]
        size = {
            "cpu": str(min(cpu for cpu, _ in shares)),
            "memory": f"{min(memory for _, memory in shares)}Gi",
            conventions.GPU_RESOURCE: str(model.tensor_parallel),
        }
        if pool.efa and model.pipeline_parallel > 1:
            size[conventions.EFA_RESOURCE] = str(pool.efa.interfaces)
    return {"requests": dict(size), "limits": dict(size)}


def _share(instance: InstanceType, gpus: int, pool: GpuPool) -> tuple[int, int]:
    """Whole CPUs and GiB that a pod with so many of the node's GPUs can have, after what is left to everything else.

    At least 1 of each, so that a pool too small for a model is refused by a rule that says so and not by an exception.
    """
    part = min(1.0, gpus / instance.gpus) if instance.gpus else 1.0
    cpu_millis = instance.allocatable_cpu_millis - pool.reserve_cpu * 1000
    memory_gib = (
        allocatable_memory_mib(instance.memory_gib, pool.max_pods) / 1024
        - quantity(pool.reserve_memory) / 2**30
    )
    return max(1, math.floor(cpu_millis * part / 1000)), max(1, math.floor(memory_gib * part))
