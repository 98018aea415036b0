"""Answers as plain data: the JSON of `llmp size` and of the preview's report."""

from __future__ import annotations

import math
from typing import Any

from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.calibration import Calibration
from components.sizing.cold_start import ColdStart, Span
from components.sizing.deployment import Load
from components.sizing.fit import Fit
from components.sizing.fixes import Fix
from components.sizing.plan import OnInstance, Verdict
from components.sizing.price import Dollars, PerMillion
from components.sizing.ranking import Option
from components.sizing.replicas import Replicas
from components.sizing.speed import Bound, Speed


def number(value: float | None, digits: int = 2) -> float | None:
    """A rounded number; None for none and for infinity, which JSON cannot hold."""
    return None if value is None or math.isinf(value) else round(value, digits)


def triple(bound: Bound) -> list[float | None]:
    """[floor, estimate or null, high]."""
    return [number(bound.floor), number(bound.estimate), number(bound.high)]


def fit_json(memory: Fit) -> dict[str, Any]:
    """Verdict and memory."""
    return {
        "fits": memory.verdict,
        "weights_gib_per_gpu": number(memory.weights_gib_per_gpu),
        "kv_tokens": list(memory.kv_tokens),
        "overhead_gib_per_gpu": [number(value) for value in memory.overhead_gib_per_gpu],
        "budget_gib_per_gpu": number(memory.budget_gib_per_gpu),
        "requests_at_full_context": list(memory.requests_at_full_context),
    }


def speed_json(fast: Speed | None) -> dict[str, Any]:
    """Latency, throughput and where the numbers come from; null where the model does not fit."""
    if fast is None:
        empty = dict.fromkeys(
            ("ttft_ms", "itl_ms", "output_tokens_per_s", "calibration", "regime", "running")
        )
        return {**empty, "notes": []}
    return {
        "ttft_ms": triple(fast.ttft_ms),
        "itl_ms": triple(fast.itl_ms),
        "output_tokens_per_s": triple(fast.output_tokens_per_s),
        "calibration": calibration_json(fast.calibration),
        "regime": fast.regime,
        "running": [number(value, 1) for value in fast.batch],
        "notes": list(fast.notes),
    }


def calibration_json(calibration: Calibration | None) -> dict[str, Any] | None:
    """The set behind an estimate."""
    if calibration is None:
        return None
    return {
        "id": calibration.id,
        "engine": calibration.engine,
        "points": calibration.points,
        "itl_error_p90": calibration.itl_error_p90,
        "measured_on": calibration.measured_on,
        "confidence": calibration.confidence,
    }


def cold_start_json(start: ColdStart | None) -> dict[str, Any]:
    """Likely seconds by term, and the ranges beside them."""
    if start is None:
        return {"cold_start_s": None, "cold_start_range_s": None, "fastest_loader": None}
    terms = {"node": start.node, "image": start.image + start.copy, "weights": start.weights, "engine": start.engine,
             "total": start.total}  # fmt: skip
    return {
        "cold_start_s": {name: number(span.likely, 1) for name, span in terms.items()},
        "cold_start_range_s": {name: _span(span) for name, span in terms.items()},
        "fastest_loader": start.fastest_loader,
    }


def _span(span: Span) -> list[float | None]:
    return [number(span.low, 1), number(span.high, 1)]


def dollars(amount: Dollars | None) -> list[float | None] | None:
    """[least, most]."""
    return None if amount is None else [number(amount.low), number(amount.high)]


def per_million(amount: PerMillion | None) -> list[float | None] | None:
    """[least, likely or null, most]."""
    return None if amount is None else [number(amount.low), number(amount.likely), number(amount.high)]


def fix_json(fix: Fix) -> dict[str, Any]:
    """One fix."""
    return {"change": fix.change, "usd_per_hour_more": number(fix.usd_per_hour_more)}


def replicas_json(wanted: Replicas | None) -> dict[str, Any] | None:
    """Replicas for a rate."""
    if wanted is None:
        return None
    return {
        "likely": wanted.likely,
        "cautious": wanted.cautious,
        "binding": wanted.binding,
        "rate_per_replica": number(wanted.rate_per_replica, 3),
        "headroom": number(wanted.headroom),
        "infeasible": wanted.infeasible,
    }


def load_json(load: Load) -> dict[str, Any]:
    """What one replica gets: the load that speed and price are for."""
    return {
        "input_tokens": load.input_tokens,
        "output_tokens": load.output_tokens,
        "concurrency": load.concurrency,
        "rate": load.rate,
    }


def instance_json(one: OnInstance) -> dict[str, Any]:
    """Everything about a model on one instance type: the object that `llmp size --json` prints."""
    notes = list(one.cold_start.notes) if one.cold_start else []
    said, known = speed_json(one.speed), INSTANCE_TYPES.get(one.instance_type)
    return {
        "instance_type": one.instance_type,
        **fit_json(one.fit),
        **said,
        "notes": [*said["notes"], *notes],
        "price_per_million_output_tokens": per_million(one.usd_per_million_tokens),
        "usd_per_hour": dollars(one.usd_per_hour),
        "spot_interruption_class": known.interruption_class if known else None,
        "load": load_json(one.load),
        "replicas": replicas_json(one.replicas),
        **cold_start_json(one.cold_start),
        "reasons": list(one.fit.reasons),
        "fixes": [fix_json(fix) for fix in one.fixes],
    }


def verdict_json(given: Verdict) -> dict[str, Any]:
    """A model on every instance type of its pool."""
    return {
        "model": given.name,
        "fits": given.fits,
        "instances": [instance_json(one) for one in given.on],
        "remarks": [{"kind": r.kind, "setting": r.setting, "text": r.text} for r in given.remarks],
    }


def option_json(option: Option) -> dict[str, Any]:
    """One option of a ranking."""
    return {
        "instance_type": option.instance_type,
        "tp": option.deployment.tp,
        "replicas": replicas_json(option.replicas),
        "nodes": option.nodes,
        "usd_per_month": number(option.usd_per_month),
        **{key: value for key, value in speed_json(option.speed).items() if key != "notes"},
        "confidence": option.confidence,
    }
