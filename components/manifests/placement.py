"""On which nodes a pod runs: the taints it tolerates and the labels it asks for. Nodes and pods must say the same."""

from components import conventions
from components.facts.instance_types import INSTANCE_TYPES
from components.settings.pools import CpuPool, GpuPool

AnyPool = CpuPool | GpuPool

GPU_TAINT = {"key": conventions.GPU_TAINT_KEY, "value": "true", "effect": conventions.TAINT_EFFECT}
"""Keeps pods without a GPU off the expensive nodes."""

# Operators and what they bring belong on the managed system nodes. Preferred, not required: an existing cluster may
# have no other nodes than Karpenter's.
SYSTEM_NODES_PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {
                    "matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]
                },
            }
        ]
    }
}


def gpu_tolerations() -> list[dict[str, str]]:
    """What every pod on a GPU node tolerates; `Exists`, since charts and AMIs disagree about the taint's value."""
    return [{"key": conventions.GPU_TAINT_KEY, "operator": "Exists", "effect": conventions.TAINT_EFFECT}]


def pool_name(pool: AnyPool) -> str:
    """Name of a pool's NodePool and NodeClass."""
    return pool.name if isinstance(pool, GpuPool) else conventions.CPU_WORKLOAD


def pool_labels(pool: AnyPool) -> dict[str, str]:
    """Labels of a pool's nodes: the user's own, then ours (which win)."""
    return {**pool.labels, **pool_selector(pool)}


def pool_selector(pool: AnyPool) -> dict[str, str]:
    """Node selector that keeps a pod on a pool: the workload, and for GPU pools the pool and its one kind of GPU."""
    if not isinstance(pool, GpuPool):
        return {conventions.WORKLOAD_LABEL: conventions.CPU_WORKLOAD}
    gpus = {INSTANCE_TYPES[name].gpu for name in pool.instance_types if name in INSTANCE_TYPES}
    accelerator = next(iter(gpus)) if len(gpus) == 1 else None
    return {
        conventions.WORKLOAD_LABEL: conventions.GPU_WORKLOAD,
        conventions.POOL_LABEL: pool.name,
        **({conventions.ACCELERATOR_LABEL: accelerator.lower()} if accelerator else {}),
    }


def cpu_selector(pool: CpuPool | None) -> dict[str, str]:
    """Node selector of heads and ingress; empty where the stack has no CPU pool (they then run anywhere)."""
    return pool_selector(pool) if pool else {}
