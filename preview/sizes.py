"""What sizing knows of a stack, in sentences and as plain data. Both reports and the JSON take them from here."""

from collections.abc import Iterator
from typing import Any

from components.facts.instance_types import INSTANCE_TYPES, PRICE_DATE, PRICE_REGION
from components.sizing.cold_start import ColdStart
from components.sizing.deployment import Load
from components.sizing.plan import OnInstance, Verdict
from components.sizing.price import Dollars, PerMillion
from components.sizing.report import number, verdict_json
from components.sizing.speed import Bound, Speed
from components.sizing.stack import StackSize

# Classes of AWS Spot Advisor: how many of the nodes were interrupted in a month.
_INTERRUPTED = ("below 5 %", "5 to 10 %", "10 to 15 %", "15 to 20 %", "above 20 %")
_SECOND = 1000.0  # milliseconds; longer times are shown in seconds


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """The verdict of a model on each instance type: fit, speed, start, price."""
    for one in verdict.on:
        yield f"{one.fit.verdict} on {one.instance_type}: {_memory(one)}"
        if one.speed:
            yield f"speed of a replica with {_load(one.load)}: {_speed(one.speed)}"
        if one.cold_start:
            yield f"cold start {_cold_start(one.cold_start)}"
        if one.usd_per_hour:
            yield f"{dollars(one.usd_per_hour)} an hour and node{_per_million(one.usd_per_million_tokens)}"
            if one.usd_per_hour.low < one.usd_per_hour.high:  # only spot makes a price a range
                yield _interruptions(one.instance_type)


def _interruptions(instance_type: str) -> str:
    found = INSTANCE_TYPES[instance_type].interruption_class
    often = "not recorded" if found is None else f"{_INTERRUPTED[found]} a month in the worst region"
    return f"spot interruptions of {instance_type}: {often}"


def _load(load: Load) -> str:
    tokens = f"{load.input_tokens:,} tokens in, {load.output_tokens:,} out"
    many = f"{load.concurrency or 1:g} at a time" if load.rate is None else f"{load.rate:.2g} a second"
    return f"requests of {tokens}, {many}"


def _memory(one: OnInstance) -> str:
    if one.speed is None:
        return one.fit.reasons[0]
    (low, high), (few, many) = one.fit.kv_tokens, one.fit.requests_at_full_context
    requests = f"{few:g}" if few == many else f"{few:g} to {many:g}"
    return f"KV cache of {low:,} to {high:,} tokens, {requests} requests at full context"


def _speed(speed: Speed) -> str:
    basis = (
        f"{speed.calibration.points} measured runs" if speed.calibration else "bounds only, nothing measured"
    )
    return f"first token {_range(speed.ttft_ms)}, between tokens {_range(speed.itl_ms)} ({basis})"


def _range(bound: Bound) -> str:
    """`about 2.4 s (0.4 to 15)`, or the bounds alone where nothing was measured."""
    unit, scale = ("s", _SECOND) if bound.likely >= _SECOND else ("ms", 1.0)
    span = f"{_figure(bound.floor / scale)} to {_figure(bound.high / scale)}"
    return (
        f"{span} {unit}"
        if bound.estimate is None
        else f"about {_figure(bound.estimate / scale)} {unit} ({span})"
    )


def _figure(number: float) -> str:
    """Three digits, and never an exponent."""
    return f"{number:,.0f}" if number >= _SECOND else f"{number:.3g}"


def _cold_start(start: ColdStart) -> str:
    parts = ", ".join(
        f"{name} {span.likely:.0f}"
        for name, span in (
            ("node", start.node), ("image", start.image + start.copy), ("weights", start.weights), ("engine", start.engine),
        )
    )  # fmt: skip
    return f"about {start.total.likely:.0f} s ({start.total.low:.0f} to {start.total.high:.0f}): {parts}"


def dollars(amount: Dollars) -> str:
    """A range of US dollars; cents only where they matter."""
    digits = 2 if amount.high < 100 else 0  # noqa: PLR2004 - a matter of reading
    low, high = f"${amount.low:,.{digits}f}", f"${amount.high:,.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _per_million(cost: PerMillion | None) -> str:
    if cost is None:
        return ""
    likely = "" if cost.likely is None else f"about ${cost.likely:,.2f}, "
    return f"; {likely}${cost.low:,.2f} to ${cost.high:,.2f} per million output tokens at that load"


def cost_line(size: StackSize) -> str:
    """The month from floor to ceiling, and what it does not count."""
    missing = f"; without a price: {', '.join(size.unpriced)}" if size.unpriced else ""
    return (
        f"instances: {dollars(size.usd_per_month)} a month, from the fewest replicas on the cheapest capacity to every limit "
        f"on demand (prices of {PRICE_REGION} on {PRICE_DATE} where the stack names none; EKS, load balancer, NAT, storage and traffic are not counted{missing})"
    )


def quota_lines(size: StackSize) -> Iterator[str]:
    """EC2 quotas at the ceiling, each with the command that shows the account's."""
    for need in size.quotas:
        yield f"{need.vcpus} vCPUs of {need.quota.name} ({', '.join(need.groups)}): {need.command}"


def sizing_json(size: StackSize) -> dict[str, Any]:
    """Verdicts, monthly cost and quotas as plain data."""
    return {
        "verdicts": [verdict_json(verdict) for verdict in size.verdicts],
        "usdPerMonth": [number(size.usd_per_month.low), number(size.usd_per_month.high)],
        "priceRegion": PRICE_REGION,
        "priceDate": PRICE_DATE.isoformat(),
        "unpriced": list(size.unpriced),
        "nodes": [
            {"name": n.name, "instanceTypes": list(n.instance_types), "least": n.least, "most": n.most}
            for n in size.nodes
        ],
        "quotas": [
            {
                "code": q.quota.code,
                "name": q.quota.name,
                "capacity": q.capacity,
                "vcpus": q.vcpus,
                "command": q.command,
            }
            for q in size.quotas
        ],
    }
