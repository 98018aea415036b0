"""From a plan to a simulated day and back to figures: replica model, nodes, percentiles, cost, baselines, knobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from components.sizing.autoscaling import Scaling
from components.sizing.calibration import calibration_of
from components.sizing.cold_start import Span
from components.sizing.deployment import Deployment, Load
from components.sizing.fit import DOES_NOT_FIT, Fit, fit
from components.sizing.node_model import NodeModel
from components.sizing.price import Dollars, hourly
from components.sizing.replica_clock import ReplicaModel, Tally
from components.sizing.simulation import simulate
from components.sizing.speed import UNMEASURED
from components.sizing.steps import first_token_seconds, step_seconds
from components.sizing.traffic import HOUR, Requests

INTERRUPTIONS_PER_MONTH = (0.03, 0.075, 0.125, 0.175, 0.30)
"""Middle of Spot Advisor's classes 0 to 4 (the last one is open above 0.20)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulated time gave, in plain numbers. Times in seconds, money in dollars for that time."""

    requests: int
    completed: int
    lost: Mapping[str, int]
    retried: int
    ttft: Mapping[str, float]
    itl: Mapping[str, float]
    stay: Mapping[str, float]
    attained: float
    worst_hour: tuple[int, float]
    late_why: Mapping[str, int]
    replica_hours: float
    peak_replicas: int
    node_hours: Mapping[str, float]
    usd: Dollars
    usd_always_on: float
    timeline: tuple[tuple[float, int, int, int], ...]
    events: tuple[tuple[float, str], ...]


def replica_model(deployment: Deployment, requests: Requests, *, assume: bool = False) -> ReplicaModel:
    """The replica for the mean lengths of the requests.

    Raises ValueError where it does not fit, and where nothing was measured unless `assume` takes the upper bound.
    """
    memory: Fit = fit(deployment)
    if memory.verdict == DOES_NOT_FIT:
        raise ValueError(f"{deployment.model.name} does not fit: {memory.reasons[0]}")
    factor = 1.0
    if calibration_of(deployment) is None:
        if not assume:
            raise ValueError(
                "nothing was measured on this GPU, link and engine; --assume takes the upper bound instead"
            )
        factor = UNMEASURED
    load = Load(max(1, round(requests.mean_input)), max(1, round(requests.mean_output)), concurrency=1)
    slots = deployment.max_num_seqs
    itl = [0.0, *(factor * step_seconds(deployment, n, load) for n in range(1, slots + 1))]
    ttft = [0.0, *(factor * first_token_seconds(deployment, load, n) for n in range(1, slots + 1))]
    return ReplicaModel(itl, ttft, slots, max(1, sum(memory.kv_tokens) // 2))


def spot_life_hours(interruption_class: int | None) -> float | None:
    """Mean life of a spot node in hours by Spot Advisor's class; None where the class is not known."""
    if interruption_class is None:
        return None
    return 730.0 / INTERRUPTIONS_PER_MONTH[interruption_class]


def run(
    requests: Requests, model: ReplicaModel, scaling: Scaling, nodes: NodeModel, usd_per_hour: Dollars,
    *, seed: int, ttft_s: float,
) -> Outcome:  # fmt: skip
    """Simulate and sum up. `usd_per_hour` is one node's: spot at the low end, on demand at the high end."""
    tally = simulate(requests, model, scaling, nodes, seed=seed, late_s=ttft_s)
    total, late = len(requests), sum(tally.late_by_hour.values())
    spot, on_demand = tally.node_hours["spot"], tally.node_hours["on-demand"]
    usd = Dollars(
        spot * usd_per_hour.low + on_demand * usd_per_hour.high, (spot + on_demand) * usd_per_hour.high
    )
    hours = requests.seconds / HOUR
    return Outcome(
        requests=total,
        completed=tally.completed,
        lost=dict(tally.lost),
        retried=tally.retried,
        ttft=first_token_quantiles(tally, model),
        itl=token_quantiles(tally, model),
        stay=_quantiles(sorted(tally.stays)),
        attained=1 - late / total if total else 1.0,
        worst_hour=_worst_hour(tally, requests),
        late_why=dict(Counter(why for seconds, _, why in tally.waited if seconds > ttft_s)),
        replica_hours=tally.replica_hours,
        peak_replicas=tally.peak_replicas,
        node_hours=dict(tally.node_hours),
        usd=usd,
        usd_always_on=tally.peak_replicas * nodes.nodes_per_replica * hours * usd_per_hour.high,
        timeline=tuple(tally.timeline),
        events=tuple(tally.events),
    )


_PARTS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}


def first_token_quantiles(tally: Tally, model: ReplicaModel) -> dict[str, float]:
    """Time to first token of those who waited and those who did not."""
    counted = [(model.ttft[n], count) for n, count in enumerate(tally.ttft_at) if count]
    return _weighted([*counted, *((seconds, 1) for seconds, _, _ in tally.waited)])


def token_quantiles(tally: Tally, model: ReplicaModel) -> dict[str, float]:
    """Time between tokens, over all tokens: with n requests a replica makes n tokens every itl[n]."""
    return _weighted(
        [
            (model.itl[n], n * seconds / model.itl[n])
            for n, seconds in enumerate(tally.time_at)
            if n and seconds
        ]
    )


def _weighted(values: list[tuple[float, float]]) -> dict[str, float]:
    values.sort()
    total = sum(weight for _, weight in values)
    result, seen = dict.fromkeys(_PARTS, 0.0), 0.0
    waiting = [*_PARTS.items()]
    for value, weight in values:
        seen += weight
        while waiting and seen >= waiting[0][1] * total:
            result[waiting.pop(0)[0]] = value
    return result


def _quantiles(ordered: list[float]) -> dict[str, float]:
    if not ordered:
        return dict.fromkeys(_PARTS, 0.0)
    return {name: ordered[min(len(ordered) - 1, int(part * len(ordered)))] for name, part in _PARTS.items()}


def _worst_hour(tally: Tally, requests: Requests) -> tuple[int, float]:
    """The hour with the largest part of late requests, and the part that was in time."""
    arrived = Counter(int(time // HOUR) for time in requests.times)
    parts = {hour: 1 - tally.late_by_hour.get(hour, 0) / count for hour, count in arrived.items()}
    hour = min(parts, key=lambda one: parts[one], default=0)
    return hour, parts.get(hour, 1.0)


def knobs(scaling: Scaling, nodes: NodeModel) -> dict[str, tuple[Scaling, NodeModel]]:
    """Single changes worth knowing about, by name."""
    start = nodes.start
    half = replace(start, weights=_half(start.weights), engine=_half(start.engine))
    target = scaling.target_ongoing_requests
    changed = {
        "one more warm node": (scaling, replace(nodes, headroom=nodes.headroom + 1)),
        "weights and engine start twice as fast": (scaling, replace(nodes, start=half)),
        "down to the last wish, as Ray Serve does": (replace(scaling, hold_largest=False), nodes),
        "target a quarter lower": (replace(scaling, target_ongoing_requests=target * 0.75), nodes),
        "one more replica at least": (replace(scaling, min_replicas=scaling.min_replicas + 1), nodes),
    }
    if nodes.spot_part > 0:
        changed["on-demand only"] = (scaling, replace(nodes, spot_part=0.0))
    return changed


def _half(span: Span) -> Span:
    return Span(span.low / 2, span.likely / 2, span.high / 2)


def node_price(instance_type: str, prices: Mapping[str, float], spot_saving: float | None) -> Dollars:
    """Dollars an hour of a node: spot at a saving in percent, on demand. Raises ValueError where there is no price."""
    price = hourly(instance_type, prices)
    if price is None:
        raise ValueError(f"{instance_type} has no on-demand price; give one with --price")
    return Dollars(price * (1 - (spot_saving or 0.0) / 100), price)


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """Plain data; the event log is cut to its last thousand entries."""
    return {
        "simulated": True,
        "requests": outcome.requests,
        "completed": outcome.completed,
        "lost": dict(outcome.lost),
        "retried": outcome.retried,
        "ttft_s": {name: round(value, 3) for name, value in outcome.ttft.items()},
        "itl_ms": {name: round(value * 1000, 2) for name, value in outcome.itl.items()},
        "stay_s": {name: round(value, 2) for name, value in outcome.stay.items()},
        "attained": round(outcome.attained, 5),
        "worst_hour": {"hour": outcome.worst_hour[0], "attained": round(outcome.worst_hour[1], 5)},
        "late_because": dict(outcome.late_why),
        "replica_hours": round(outcome.replica_hours, 2),
        "peak_replicas": outcome.peak_replicas,
        "node_hours": {name: round(hours, 2) for name, hours in outcome.node_hours.items()},
        "usd": [round(outcome.usd.low, 2), round(outcome.usd.high, 2)],
        "usd_always_on_at_peak": round(outcome.usd_always_on, 2),
        "timeline": [
            {"hour": round(time / HOUR, 3), "replicas": ready, "starting": starting, "queue": queue}
            for time, ready, starting, queue in outcome.timeline
        ],
        "events": [{"hour": round(time / HOUR, 3), "what": what} for time, what in outcome.events[-1000:]],
    }
