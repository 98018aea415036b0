"""Which instance types serve a model at a rate within an objective, and at what price: the cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.deployment import Deployment, Load
from components.sizing.fit import FITS, fit
from components.sizing.fixes import on_instance as deployments_on
from components.sizing.price import HOURS_PER_MONTH, NO_PRICES, hourly, nodes_for
from components.sizing.replicas import Objective, Replicas, confidence, replicas_for
from components.sizing.speed import Bound, Speed, speed

MOST_REPLICAS = 100
"""An objective that takes more replicas than this is met in theory only: each would be nearly idle."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to serve: an instance type and a tensor-parallel degree, with what it costs and gives.

    Dollars are of the likely number of replicas, on demand; latency is at the load that one of them gets.
    """

    instance_type: str
    deployment: Deployment
    replicas: Replicas
    nodes: int
    usd_per_month: float
    speed: Speed
    confidence: str


def rank(
    deployment: Deployment, load: Load, objective: Objective, prices: Mapping[str, float] = NO_PRICES
) -> list[Option]:
    """Every instance type with a price on which the model fits and the objective is expected to hold, cheapest first.

    Model, quantization, context and engine are those of `deployment`; its GPUs are replaced. Of the tensor-parallel
    degrees of one instance type only the cheapest is kept, and at one price the one with the shorter latency.
    """
    best: dict[str, Option] = {}
    known: dict[Deployment, _Answer | None] = {}  # many instance types differ in CPUs and disks only
    for name, instance in INSTANCE_TYPES.items():
        price = hourly(name, prices)
        if price is None:
            continue
        for candidate in deployments_on(deployment, instance):
            if candidate not in known:
                known[candidate] = _answer(candidate, load, objective)
            answer = known[candidate]
            if answer is None:
                continue
            option = _option(name, candidate, answer, price)
            if name not in best or _order(option) < _order(best[name]):
                best[name] = option
    return sorted(best.values(), key=_order)


def _order(option: Option) -> tuple[float, float]:
    return round(option.usd_per_month, 2), option.speed.itl_ms.likely


_Answer = tuple[int, Replicas, Speed]


def _answer(candidate: Deployment, load: Load, objective: Objective) -> _Answer | None:
    """Replicas that hold the objective and the speed of one of them; None where the model or the objective does not."""
    memory = fit(candidate)
    if memory.verdict != FITS:
        return None
    wanted = replicas_for(candidate, load, objective, memory)
    if wanted.likely is None or wanted.likely > MOST_REPLICAS:
        return None
    return wanted.likely, wanted, speed(candidate, replace(load, rate=load.arrivals / wanted.likely), memory)


def _option(name: str, candidate: Deployment, answer: _Answer, price: float) -> Option:
    count, wanted, given = answer
    nodes = nodes_for(count, candidate.gpus, name)
    return Option(
        name, candidate, wanted, nodes, nodes * price * HOURS_PER_MONTH, given, confidence(given.calibration)
    )


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of a trade-off: requests at a time, latency between tokens, dollars per million output tokens."""

    concurrency: int
    itl_ms: Bound
    usd_per_million: float


def curve(option: Option, load: Load, prices: Mapping[str, float] = NO_PRICES) -> list[CurvePoint]:
    """How latency buys price on one option: one replica with 1, 2, 4 … requests at a time, while none queues."""
    price = (hourly(option.instance_type, prices) or 0.0) * option.nodes / max(1, option.replicas.likely or 1)
    memory = fit(option.deployment)
    points, concurrency = [], 1
    while concurrency <= option.deployment.max_num_seqs:
        given = speed(option.deployment, replace(load, rate=None, concurrency=float(concurrency)), memory)
        if given.regime != "steady":
            break
        tokens = given.output_tokens_per_s
        points.append(
            CurvePoint(concurrency, given.itl_ms, price / 3600 / (tokens.estimate or tokens.floor) * 1e6)
        )
        concurrency *= 2
    return points
