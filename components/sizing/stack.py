"""A whole stack sized: a verdict per model, what it costs a month, and which EC2 quotas it needs.

The nodes counted are those that Karpenter may start: the least that the smallest numbers of replicas need, and the most
that the pools' limits allow, which an upgrade or a mistake can reach. EKS itself, load balancer, NAT, storage and traffic are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from components.facts.instance_types import INSTANCE_TYPES
from components.facts.models import ModelShape
from components.quantities import quantity
from components.settings import PlatformSettings
from components.settings.models import Loader, Model
from components.settings.pools import Capacity, GpuPool
from components.settings.serving_engine import engine_of
from components.sizing.deployment import Engine, Load
from components.sizing.inputs import model_named
from components.sizing.plan import ModelPlan, Verdict
from components.sizing.price import NO_PRICES, Dollars, Nodes, hourly, monthly, nodes_for
from components.sizing.quota import QuotaNeed, quota_needs
from components.sizing.replicas import Objective
from components.sizing.verdict import verdict

_LOADERS = {Loader.LOCAL: "ebs"}  # the rest have the same names in both places


@dataclass(frozen=True, slots=True)
class StackSize:
    """What is known of a stack before anything is started.

    `verdicts` leaves out models on CPU. `usd_per_month` goes from the floor to the ceiling; `unpriced` names the groups
    of nodes without a known price, which it does not count. `head_and_ingress_cpus` are what the pods of the CPU pool ask for.
    """

    verdicts: tuple[Verdict, ...]
    usd_per_month: Dollars
    unpriced: tuple[str, ...]
    nodes: tuple[Nodes, ...]
    head_and_ingress_cpus: float
    quotas: tuple[QuotaNeed, ...]


def size_stack(settings: PlatformSettings, folder: Path | None = None) -> StackSize:
    """Size every model of a stack, and the stack as a whole. A model's config.json lies in `folder`."""
    groups = tuple(node_groups(settings))
    cost, unpriced = monthly(groups, prices_of(settings))
    plans = [plan for model in settings.models if (plan := plan_of(model, settings, folder)) is not None]
    return StackSize(
        verdicts=tuple(verdict(plan) for plan in plans),
        usd_per_month=cost,
        unpriced=unpriced,
        nodes=groups,
        head_and_ingress_cpus=cpus_of_heads_and_ingress(settings),
        quotas=quota_needs(groups, settings.region),
    )


def prices_of(settings: PlatformSettings) -> Mapping[str, float]:
    """Prices of the stack's own, by instance type."""
    return settings.budget.prices if settings.budget else NO_PRICES


def plan_of(model: Model, settings: PlatformSettings, folder: Path | None = None) -> ModelPlan | None:
    """What sizing is told of a model; None for one on CPU or on a pool that cannot be sized (a rule says why)."""
    pool = next((pool for pool in settings.gpu_pools if pool.name == model.pool), None)
    if pool is None or not all(_has_gpus(name) for name in pool.instance_types):
        return None
    try:
        shape = shape_of(model.architecture, folder)
    except ValueError:
        return None  # the rule on architectures names it, with its line
    engine, scaling, wanted = model.engine, model.scaling, model.objective
    return ModelPlan(
        name=model.name,
        model=shape,
        instance_types=pool.instance_types,
        tp=model.tensor_parallel,
        pp=model.pipeline_parallel,
        dtype=engine.dtype.value,
        quantization=engine.quantization.value,
        kv_dtype=engine.kv_cache_dtype.value,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        engine=Engine(version=engine_of(model, pool).vllm, eager=engine.enforce_eager),
        loader=_LOADERS.get(model.loader, model.loader.value),
        min_replicas=max(1, scaling.min_replicas),
        max_replicas=scaling.max_replicas,
        spot=Capacity.SPOT in pool.capacity,
        on_demand=_buys_on_demand(pool),
        load=Load(wanted.input_tokens, wanted.output_tokens, rate=wanted.requests_per_second)
        if wanted
        else None,
        objective=Objective(wanted.ttft_p99, wanted.itl_p99) if wanted else None,
        upscale_delay_s=scaling.upscale_delay,
        volume_mib_per_s=pool.data_volume.throughput,
        prices=prices_of(settings),
    )


def shape_of(architecture: str, folder: Path | None = None) -> ModelShape:
    """The shape of a model of a stack: a known one, or that of the config.json beside the stack file.

    Raises ValueError with what is wrong; the file is named as the stack names it.
    """
    if not architecture.endswith(".json"):
        return model_named(architecture)
    path = str((folder or Path()) / architecture)
    try:
        return model_named(path)
    except ValueError as error:
        raise ValueError(str(error).replace(path, architecture)) from None
    except (TypeError, AttributeError, ZeroDivisionError):
        raise ValueError(f"{architecture}: a size in it is not a number above zero") from None


def _has_gpus(instance_type: str) -> bool:
    return instance_type in INSTANCE_TYPES and INSTANCE_TYPES[instance_type].gpu is not None


def _buys_on_demand(pool: GpuPool) -> bool:
    """Reserved capacity is paid for as on-demand: it runs whether it is used or not."""
    return bool({Capacity.ON_DEMAND, Capacity.RESERVED} & set(pool.capacity))


def node_groups(settings: PlatformSettings) -> Iterator[Nodes]:
    """Groups of nodes with the least and the most of them: GPU pools, the CPU pool, and the system nodes made here."""
    for pool in settings.gpu_pools:
        if all(_has_gpus(name) for name in pool.instance_types):
            yield _gpu_nodes(pool, settings)
    if settings.cpu_pool and all(name in INSTANCE_TYPES for name in settings.cpu_pool.instance_types):
        yield _cpu_nodes(settings)
    create = settings.cluster.create
    if create and create.system_nodes.instance_type in INSTANCE_TYPES:
        nodes = create.system_nodes
        yield Nodes("system nodes", (nodes.instance_type,), nodes.minimum, nodes.maximum)


def _gpu_nodes(pool: GpuPool, settings: PlatformSettings) -> Nodes:
    """From the models' smallest numbers of replicas to the pool's limit."""
    models = [model for model in settings.models if model.pool == pool.name]
    fewest = min(INSTANCE_TYPES[name].gpus for name in pool.instance_types)

    def needed(model: Model, replicas: int) -> int:
        return max(nodes_for(replicas, model.gpus, name) for name in pool.instance_types)

    least = sum(needed(model, model.scaling.min_replicas) for model in models)
    limit = math.floor(pool.limits.gpus / fewest)
    return Nodes(
        pool.name,
        pool.instance_types,
        min(least, limit),
        limit,
        spot=Capacity.SPOT in pool.capacity,
        on_demand=_buys_on_demand(pool),
    )


def _cpu_nodes(settings: PlatformSettings) -> Nodes:
    """Nodes of heads and ingress pods, from what their CPUs need to the pool's limit, of the type that makes it dearest."""
    assert settings.cpu_pool is not None  # noqa: S101 - asked by the caller
    pool = settings.cpu_pool
    limit = quantity(pool.limits.cpu)

    def count(name: str) -> int:
        return math.floor(limit / INSTANCE_TYPES[name].vcpus)

    def ceiling(name: str) -> float:
        return count(name) * (hourly(name, prices_of(settings)) or 0.0)

    dearest = max(pool.instance_types, key=ceiling)
    least = math.ceil(cpus_of_heads_and_ingress(settings) / INSTANCE_TYPES[dearest].vcpus)
    return Nodes("serving-cpu", (dearest,), min(least, count(dearest)), count(dearest))


def cpus_of_heads_and_ingress(settings: PlatformSettings) -> float:
    """CPUs that the pods of the CPU pool ask for: a head for each model, and ingress pods where it is routed."""
    return sum(
        quantity(model.head.cpu)
        + (model.ingress.replicas * quantity(model.ingress.cpu) if model.has_ingress_group else 0)
        for model in settings.models
    )
