"""The verdict of one model of a stack on the instance types of its pool: what the preview shows and the rules ask.

`verdict(plan)` is the one call that the preview makes for a model. It needs no network and a few milliseconds.
"""

from __future__ import annotations

from dataclasses import replace

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.cold_start import ColdStart, cold_start, loader_rates
from components.sizing.deployment import Deployment, Load
from components.sizing.fit import BORDERLINE, DOES_NOT_FIT, FITS, Fit, fit
from components.sizing.fixes import fixes
from components.sizing.plan import ModelPlan, OnInstance, Remark, Verdict
from components.sizing.price import Dollars, Nodes, PerMillion, hourly_range, node_share, per_million_tokens
from components.sizing.remarks import remarks
from components.sizing.replicas import Objective, Replicas, replicas_for
from components.sizing.speed import Speed, speed
from components.sizing.weights import weight_bytes

__all__ = ["ModelPlan", "OnInstance", "Remark", "Verdict", "on_gpus", "on_instance", "verdict"]

_ORDER = {DOES_NOT_FIT: 0, BORDERLINE: 1, FITS: 2}


def deployment_on(plan: ModelPlan, instance_type: str) -> Deployment:
    """The replica of a plan on one instance type. Raises KeyError for a type that is not in the tables."""
    instance = INSTANCE_TYPES[instance_type]
    if instance.gpu is None:
        raise KeyError(f"{instance_type} has no GPU")
    return Deployment(
        model=plan.model, gpu=GPUS[instance.gpu], tp=plan.tp, pp=plan.pp,
        link=instance.gpu_link if plan.tp > 1 else None, dtype=plan.dtype, quantization=plan.quantization,
        kv_dtype=plan.kv_dtype, max_model_len=plan.max_model_len, max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens, gpu_memory_utilization=plan.gpu_memory_utilization,
        engine=plan.engine,
    )  # fmt: skip


def verdict(plan: ModelPlan) -> Verdict:
    """What can be said about a model before anything is started."""
    on = tuple(on_instance(plan, name) for name in plan.instance_types)
    worst = min((one.fit.verdict for one in on), key=lambda word: _ORDER[word])
    return Verdict(plan.name, worst, on, tuple(remark for one in on for remark in remarks(plan, one)))


def on_instance(plan: ModelPlan, instance_type: str) -> OnInstance:
    """Everything about a plan on one instance type. Raises KeyError for a type that is not in the tables."""
    deployment = deployment_on(plan, instance_type)
    memory = fit(deployment)
    candidates = Nodes(plan.name, (instance_type,), 0, 0, spot=plan.spot, on_demand=plan.on_demand)
    price = hourly_range(candidates, plan.prices)
    repairs = tuple(fixes(deployment, instance_type, plan.prices)) if memory.verdict != FITS else ()
    if memory.verdict == DOES_NOT_FIT:
        return OnInstance(
            instance_type, deployment, memory, repairs, None, None, None, price, None, _load_of(plan)
        )
    fast, wanted, load = _performance(plan, deployment, memory)
    start = _cold_start(plan, instance_type, deployment)
    million = _per_million(deployment, instance_type, load, memory, price)
    return OnInstance(instance_type, deployment, memory, repairs, fast, wanted, start, price, million, load)


def on_gpus(plan: ModelPlan, deployment: Deployment) -> OnInstance:
    """The same for GPUs that are no EC2 instance: no price and no cold start."""
    label = f"{deployment.gpus} x {deployment.gpu.name}"
    memory = fit(deployment)
    repairs = tuple(fixes(deployment)) if memory.verdict != FITS else ()
    if memory.verdict == DOES_NOT_FIT:
        return OnInstance(label, deployment, memory, repairs, None, None, None, None, None, _load_of(plan))
    fast, wanted, load = _performance(plan, deployment, memory)
    return OnInstance(label, deployment, memory, repairs, fast, wanted, None, None, None, load)


def _load_of(plan: ModelPlan) -> Load:
    """The plan's load, or one request at a time where it has none."""
    return plan.load or Load(concurrency=1)


def _performance(plan: ModelPlan, deployment: Deployment, memory: Fit) -> tuple[Speed, Replicas | None, Load]:
    """Speed and replicas for the plan's load, and the load that the speed is for."""
    load = _load_of(plan)
    if load.rate is None:
        return speed(deployment, load, memory), None, load
    wanted = replicas_for(deployment, load, plan.objective or Objective(), memory)
    # Latency at the load that one replica gets, with as many as the plan needs and may have.
    needed = wanted.likely or plan.max_replicas
    load = replace(load, rate=load.rate / max(1, plan.min_replicas, min(needed, plan.max_replicas)))
    return speed(deployment, load, memory), wanted, load


def _cold_start(plan: ModelPlan, instance_type: str, deployment: Deployment) -> ColdStart | None:
    if plan.loader not in loader_rates(INSTANCE_TYPES[instance_type]):
        return None  # "local": the weights are in the image or on the node, nothing is known about them
    gigabytes = weight_bytes(deployment)[1] / plan.pp / 1e9
    return cold_start(
        instance_type, gigabytes, loader=plan.loader, image=plan.image,
        engine="eager" if plan.engine.eager else "cold", upscale_delay_s=plan.upscale_delay_s,
        volume_mib_per_s=plan.volume_mib_per_s,
    )  # fmt: skip


def _per_million(
    deployment: Deployment, instance_type: str, load: Load, memory: Fit, price: Dollars | None
) -> PerMillion | None:
    """Dollars per million output tokens of a full replica; a replica pays for its part of a node."""
    if price is None:
        return None
    full = replace(load, rate=None, concurrency=float(deployment.max_num_seqs))
    tokens = speed(deployment, full, memory).output_tokens_per_s
    return per_million_tokens(price.times(node_share(deployment.gpus, instance_type)), tokens)
