"""What to change when a model does not fit or barely does, in order of price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES, InstanceType
from components.sizing.deployment import Deployment, default_batch
from components.sizing.fit import FITS, fit
from components.sizing.price import NO_PRICES, hourly
from components.sizing.weights import QUANTIZATIONS

SHORTEST_CONTEXT = 2_048
MOST_FIXES = 5


@dataclass(frozen=True, slots=True)
class Fix:
    """One change that makes the replica fit, and what it adds to the price of its node or nodes an hour."""

    change: str
    usd_per_hour_more: float | None
    deployment: Deployment


def fixes(
    deployment: Deployment, instance_type: str | None = None, prices: Mapping[str, float] = NO_PRICES
) -> list[Fix]:
    """Single changes that turn the verdict into *fits*, cheapest first; settings before an instance that costs less.

    Empty when it fits already. Instances are only looked at where the present one is known.
    """
    if fit(deployment).verdict == FITS:
        return []
    found = [*_settings(deployment, instance_type)]
    if instance_type is not None:
        found += _instances(deployment, instance_type, prices)
    return sorted(found, key=lambda fix: max(0.0, fix.usd_per_hour_more or 0.0))[:MOST_FIXES]


def _settings(deployment: Deployment, instance_type: str | None) -> Iterator[Fix]:
    """Changes that cost nothing, the least harmful first."""
    model = deployment.model
    if deployment.quantization in ("none", "") and model.native_quantization is None:
        yield from _if_fits(replace(deployment, quantization="fp8"), "quantization: fp8 (half the weights)")
        yield from _if_fits(
            replace(deployment, quantization="awq"), "quantization: awq (a quarter of the weights)"
        )
    if instance_type is not None:
        for tp in (2, 4, 8):
            if deployment.tp < tp <= INSTANCE_TYPES[instance_type].gpus:
                wider = replace(deployment, tp=tp, link=INSTANCE_TYPES[instance_type].gpu_link)
                yield from _if_fits(wider, f"tensorParallel: {tp} (more GPUs of the same node)")
    if deployment.kv_dtype == "auto" and deployment.gpu.fp8_tflops is not None:
        yield from _if_fits(replace(deployment, kv_dtype="fp8"), "kvCacheDtype: fp8 (twice the tokens)")
    length = shorter_context(deployment)
    if length:
        yield from _if_fits(replace(deployment, max_model_len=length), f"maxModelLen: {length}")


def shorter_context(deployment: Deployment) -> int | None:
    """The longest power of two of context that surely fits; None where not even 2,048 does."""
    least = min(fit(deployment).kv_tokens[0], deployment.model.max_positions, deployment.max_model_len - 1)
    return None if least < SHORTEST_CONTEXT else 2 ** (least.bit_length() - 1)


def _instances(deployment: Deployment, instance_type: str, prices: Mapping[str, float]) -> list[Fix]:
    """Other instance types with all their GPUs (as many as divide the heads), against the present node's price."""
    present = hourly(instance_type, prices)
    found = []
    for name, instance in INSTANCE_TYPES.items():
        price = hourly(name, prices)
        if instance.gpu is None or price is None or name == instance_type:
            continue
        for candidate in on_instance(deployment, instance):
            if fit(candidate).verdict == FITS:
                text = f"instance {name} with tensorParallel {candidate.tp} ({price:.2f} $/h)"
                found.append(Fix(text, price * candidate.pp - (present or 0.0) * deployment.pp, candidate))
                break
    return _cheapest_per_family(found)


def on_instance(deployment: Deployment, instance: InstanceType) -> list[Deployment]:
    """The deployment on another instance type, from few GPUs to all of them; batch limits become that GPU's."""
    if instance.gpu is None:
        return []
    gpu = GPUS[instance.gpu]
    tokens, sequences = default_batch(gpu)
    return [
        replace(
            deployment, gpu=gpu, tp=tp, pp=1, link=instance.gpu_link if tp > 1 else None,
            max_num_batched_tokens=min(tokens, deployment.max_num_batched_tokens),
            max_num_seqs=min(sequences, deployment.max_num_seqs),
        )
        for tp in (1, 2, 4, 8)
        if tp <= instance.gpus and deployment.model.heads % tp == 0
    ]  # fmt: skip


def _cheapest_per_family(found: list[Fix]) -> list[Fix]:
    families: dict[str, Fix] = {}
    for fix in sorted(found, key=lambda one: one.usd_per_hour_more or 0.0):
        families.setdefault(fix.change.split()[1].split(".")[0], fix)
    return list(families.values())


def _if_fits(candidate: Deployment, change: str) -> Iterator[Fix]:
    if candidate.quantization in QUANTIZATIONS or candidate.quantization == "none":
        verdict = fit(candidate).verdict
        if verdict == FITS:
            yield Fix(change, 0.0, candidate)
