"""What sizing says of a stack before money is spent: objectives, speed, loaders, and the bill.

Whether a model fits at all is `memory_fit`, which also reads plain manifests.
"""

from collections.abc import Callable, Iterator, Mapping

from components.facts.instance_types import PRICE_DATE, price_age_days
from guardrails.core import Check, Hit, Profile, Rule, Severity, Table
from guardrails.world import World

MAX_PRICE_AGE_DAYS = 180  # AWS changed prices of these families twice in 2025; half a year is long
_SIZING = "components/sizing; docs/sizing.md"


def _rule(name: str, severity: Severity, sentence: str, why: str, remedy: str) -> Rule:
    return Rule(
        id=name,
        severity=severity,
        sentence=sentence,
        why=why,
        remedy=remedy,
        source=_SIZING,
        profile=Profile.HOUSE,
    )


# Kind of a remark of sizing -> the rule that reports it.
OF_REMARK: Mapping[str, Rule] = {
    "infeasible-objective": _rule(
        "objective-infeasible",
        Severity.ERROR,
        "A model's objective is within what the hardware can do at all.",
        "Not even the physical floor of these GPUs meets it, so no number of replicas does.",
        "loosen the objective, or choose faster GPUs (llmp size --model M --objective … --rate R ranks them)",
    ),
    "objective-missed": _rule(
        "objective-missed",
        Severity.WARN,
        "A model's objective is met by some number of replicas.",
        "By the estimate users wait longer than promised, however many replicas there are.",
        "loosen the objective, or choose faster GPUs",
    ),
    "too-few-replicas": _rule(
        "too-few-replicas",
        Severity.WARN,
        "The objective's rate is met within maxReplicas.",
        "At that rate requests queue, and the objective is missed although every replica runs.",
        "raise scaling.maxReplicas and the pool's limit, or lower the objective's rate",
    ),
    "overload": _rule(
        "objective-overloads",
        Severity.WARN,
        "A replica keeps up with its share of the objective's rate.",
        "Its KV cache or its compute is used up, so that requests queue without end.",
        "raise scaling.maxReplicas, or lower the objective's rate or tokens",
    ),
    "objective-not-sure": _rule(
        "objective-not-sure",
        Severity.ADVICE,
        "The objective is met by the cautious bound too.",
        "The estimate meets it, its upper bound does not.",
        "measure it on the real GPUs before promising it (vllm bench serve against the endpoint)",
    ),
    "low-confidence": _rule(
        "estimate-of-low-confidence",
        Severity.ADVICE,
        "Estimates rest on measured runs of the same GPU and engine.",
        "Few or no public runs exist for this pair, so the interval is wide.",
        "measure it on the real GPUs before promising it (vllm bench serve against the endpoint)",
    ),
    "tensor-parallel-over-pcie": _rule(
        "tensor-parallel-over-pcie",
        Severity.ADVICE,
        "Large models with several GPUs have NVLink between them.",
        "Every layer exchanges partial results twice a token; over PCIe that takes a large part of the time.",
        "take p4d or p5 where latency matters; for throughput this is fine",
    ),
    "slower-loader": _rule(
        "loader-not-fastest",
        Severity.ADVICE,
        "A model's loader is the fastest of its instance types.",
        "A new replica answers only when its weights are loaded.",
        "take the loader named there, where its needs are met",
    ),
}
BUDGET = _rule(
    "budget-exceeded",
    Severity.ERROR,
    "The stack stays within its monthly budget even at its ceiling.",
    "Pools may grow to their limits by themselves, at any hour.",
    "lower limits.gpus or maxReplicas, or raise budget.usdPerMonth",
)
CPU_POOL = _rule(
    "cpu-pool-too-small",
    Severity.ERROR,
    "The CPU pool has room for the head and the ingress pods of every model.",
    "Pods that find no node stay Pending, and their model never answers.",
    "raise cpuPool.limits.cpu, or lower the models' head.cpu and ingress",
)
UNPRICED = _rule(
    "price-unknown",
    Severity.WARN,
    "Every instance type has a price.",
    "The budget does not count nodes without one.",
    "give it in budget.prices",
)
OLD_PRICES = _rule(
    "prices-old",
    Severity.ADVICE,
    "The price table is less than half a year old.",
    "Costs and the budget are computed with it.",
    "run components/facts/refresh, or give own prices in budget.prices",
)


def remarks(kind: str) -> Callable[[World], Iterator[Hit]]:
    """The check that reports one kind of remark."""

    def check(world: World) -> Iterator[Hit]:
        for stack in world.stacks:
            paths = {model.name: model.path for model in stack.models}
            for verdict in stack.size.verdicts if stack.size else ():
                subject = world.stack_subject(stack, verdict.name, "model")
                for remark in verdict.remarks:
                    if remark.kind == kind:
                        text = remark.text.removeprefix(
                            f"{verdict.name} "
                        )  # the finding names the model itself
                        yield Hit(subject, (*paths[verdict.name], *remark.setting.split(".")), text)

    return check


def budget(world: World) -> Iterator[Hit]:
    """A ceiling above the budget."""
    for stack in world.stacks:
        if stack.size and stack.budget is not None and stack.size.usd_per_month.high > stack.budget:
            message = (
                f"at its ceiling the stack costs ${stack.size.usd_per_month.high:,.0f} a month for instances, "
                f"the budget is ${stack.budget:,.0f}"
            )
            yield Hit(world.stack_subject(stack, "", "stack"), ("budget", "usdPerMonth"), message)


def cpu_pool(world: World) -> Iterator[Hit]:
    """A CPU pool whose limit is below what heads and ingress pods ask for."""
    for stack in world.stacks:
        limit = stack.cpu_pool.cpu if stack.cpu_pool else None
        if stack.size and limit is not None and stack.size.head_and_ingress_cpus > limit:
            message = f"heads and ingress pods ask for {stack.size.head_and_ingress_cpus:g} CPUs, the pool's limit is {limit:g}"
            yield Hit(world.stack_subject(stack, "", "stack"), ("cpuPool", "limits", "cpu"), message)


def unpriced(world: World) -> Iterator[Hit]:
    """Pools whose nodes have no known price."""
    for stack in world.stacks:
        for name in stack.size.unpriced if stack.size else ():
            message = f"the nodes of {name} have no price in the table"
            yield Hit(world.stack_subject(stack, name, "pool"), ("gpuPools",), message)


def old_prices(world: World) -> Iterator[Hit]:
    """A price table that is out of date on the day of the check."""
    age = price_age_days(world.today)
    for stack in world.stacks:
        if stack.size and stack.budget is not None and age > MAX_PRICE_AGE_DAYS:
            message = f"prices are those of {PRICE_DATE}, {age} days ago"
            yield Hit(world.stack_subject(stack, "", "stack"), ("budget",), message)


_CHECKS: tuple[tuple[Rule, Check], ...] = (
    (BUDGET, budget),
    (CPU_POOL, cpu_pool),
    (UNPRICED, unpriced),
    (OLD_PRICES, old_prices),
)
RULES: Table = (*((rule, remarks(kind)) for kind, rule in OF_REMARK.items()), *_CHECKS)
