"""What it costs: month floor and ceiling, per million tokens, what a change adds, and where a saving comes from.

Prices are on demand by the hour (`components.facts.instance_types`), spot as the range of savings that Spot Advisor
showed. A stack may name its own price for a type; nothing is invented for a type without one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.speed import Bound

HOURS_PER_MONTH = 730.0
NO_PRICES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Dollars:
    """US dollars, least and most."""

    low: float
    high: float

    def __add__(self, other: Dollars) -> Dollars:
        return Dollars(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Dollars:
        """Both ends multiplied."""
        return Dollars(self.low * factor, self.high * factor)


ZERO = Dollars(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Nodes:
    """A group of nodes: candidate types, what capacity may be bought, and how many there are, least and most."""

    name: str
    instance_types: tuple[str, ...]
    least: float
    most: float
    spot: bool = False
    on_demand: bool = True


def hourly(instance_type: str, prices: Mapping[str, float] = NO_PRICES) -> float | None:
    """On-demand dollars an hour; a stack's own price wins. None where there is none."""
    if instance_type in prices:
        return prices[instance_type]
    known = INSTANCE_TYPES.get(instance_type)
    return known.usd_per_hour if known else None


def hourly_range(nodes: Nodes, prices: Mapping[str, float] = NO_PRICES) -> Dollars | None:
    """Dollars an hour of one node, least (spot at its best saving, cheapest type) and most (on demand, dearest type).

    None where no candidate has a price. Without a recorded saving, spot is counted as on-demand.
    """
    lows, highs = [], []
    for name in nodes.instance_types:
        price = hourly(name, prices)
        if price is None:
            continue
        lows.append(price * _spot_factors(name, nodes)[0])
        highs.append(price * _spot_factors(name, nodes)[1])
    return Dollars(min(lows), max(highs)) if lows else None


def _spot_factors(name: str, nodes: Nodes) -> tuple[float, float]:
    """Part of the on-demand price, least and most, by the capacity that the group may buy."""
    saving = INSTANCE_TYPES[name].spot_saving_percent if name in INSTANCE_TYPES else None
    if not nodes.spot or saving is None:
        return 1.0, 1.0
    least, most = 1 - saving[1] / 100, 1 - saving[0] / 100
    return least, 1.0 if nodes.on_demand else most


def monthly(
    groups: tuple[Nodes, ...], prices: Mapping[str, float] = NO_PRICES
) -> tuple[Dollars, tuple[str, ...]]:
    """Floor (fewest nodes at the least price) to ceiling (most nodes at the highest), and the names without a price."""
    total, unknown = ZERO, []
    for nodes in groups:
        one = hourly_range(nodes, prices)
        if one is None:
            unknown.append(nodes.name)
            continue
        total += Dollars(one.low * nodes.least, one.high * nodes.most).times(HOURS_PER_MONTH)
    return total, tuple(unknown)


@dataclass(frozen=True, slots=True)
class PerMillion:
    """Dollars per million output tokens.

    At the least price and the highest throughput; likely (None where there is no estimate); at the highest price and
    the least throughput.
    """

    low: float
    likely: float | None
    high: float


def per_million_tokens(usd_per_hour: Dollars, tokens_per_s: Bound) -> PerMillion:
    """Dollars per million output tokens of a replica that is full all the time; likely at the highest price."""

    def dollars(price: float, rate: float) -> float:
        return math.inf if rate <= 0 else price / 3600 / rate * 1e6

    likely = None if tokens_per_s.estimate is None else dollars(usd_per_hour.high, tokens_per_s.estimate)
    return PerMillion(
        dollars(usd_per_hour.low, tokens_per_s.high), likely, dollars(usd_per_hour.high, tokens_per_s.floor)
    )


def node_share(gpus_per_replica: int, instance_type: str) -> float:
    """Nodes that one replica pays for: a part of one, or several."""
    gpus = INSTANCE_TYPES[instance_type].gpus
    return math.ceil(gpus_per_replica / gpus) if gpus_per_replica > gpus else 1 / (gpus // gpus_per_replica)


def nodes_for(replicas: float, gpus_per_replica: int, instance_type: str) -> int:
    """Nodes that hold a number of replicas: several on a node, or several nodes for one."""
    gpus = INSTANCE_TYPES[instance_type].gpus
    if gpus_per_replica > gpus:
        return math.ceil(replicas) * math.ceil(gpus_per_replica / gpus)
    return math.ceil(math.ceil(replicas) / (gpus // gpus_per_replica))


@dataclass(frozen=True, slots=True)
class Saving:
    """A saving split by cause; the parts multiply: after = before x price x use x engine."""

    before: float
    after: float
    price: float
    use: float
    engine: float

    @property
    def percent(self) -> float:
        """Total saving in percent."""
        return 100 * (1 - self.after / self.before)


def saving(
    before_hours: float,
    before_price: float,
    after_hours: float,
    after_price: float,
    engine_factor: float = 1.0,
) -> Saving:
    """From one plan to another: node hours and dollars an hour of each.

    `engine_factor` is the part of the hours that a faster engine needs for the same work (0.5: half of them); what
    is left of the change in hours is use, that is, nodes that no longer run idle.
    """
    return Saving(
        before=before_hours * before_price,
        after=after_hours * after_price,
        price=after_price / before_price,
        use=after_hours / before_hours / engine_factor,
        engine=engine_factor,
    )
