"""EC2 quotas that a stack needs at its ceiling, and the commands that show what an account has.

Quotas count vCPUs by family, spot and on-demand apart. Codes are those of the Service Quotas catalogue and were not
verified against an account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

from components.facts.instance_types import INSTANCE_TYPES
from components.sizing.price import Nodes


@dataclass(frozen=True, slots=True)
class Quota:
    """One EC2 quota: its code and its name in the console."""

    code: str
    name: str


ON_DEMAND: Mapping[str, Quota] = MappingProxyType(
    {
        "G and VT": Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
        "P": Quota("L-417A185B", "Running On-Demand P instances"),
        "Standard": Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    }
)
SPOT: Mapping[str, Quota] = MappingProxyType(
    {
        "G and VT": Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
        "P": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
        "P5": Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
        "Standard": Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"),
    }
)


@dataclass(frozen=True, slots=True)
class QuotaNeed:
    """vCPUs that a stack can reach under one quota, by which groups, in which zones, and how to look."""

    quota: Quota
    capacity: str
    vcpus: int
    groups: tuple[str, ...]
    command: str


def quota_of(instance_type: str, *, spot: bool) -> Quota:
    """The quota that a type counts against. Raises KeyError for an unknown type."""
    instance = INSTANCE_TYPES[instance_type]
    if spot:
        return SPOT["P5" if instance.family.startswith("p5") else instance.quota_family]
    return ON_DEMAND[instance.quota_family]


def quota_needs(groups: Iterable[Nodes], region: str) -> tuple[QuotaNeed, ...]:
    """What the groups need at their ceiling; a group that may buy either kind counts fully against both."""
    vcpus: dict[tuple[Quota, str], int] = {}
    names: dict[tuple[Quota, str], list[str]] = {}
    for nodes in groups:
        for capacity in _capacities(nodes):
            for quota, largest in _largest_by_quota(nodes, spot=capacity == "spot").items():
                key = (quota, capacity)
                vcpus[key] = vcpus.get(key, 0) + round(largest * nodes.most)
                names.setdefault(key, []).append(nodes.name)
    return tuple(
        QuotaNeed(quota, capacity, count, tuple(names[quota, capacity]), quota_command(quota, region))
        for (quota, capacity), count in sorted(vcpus.items(), key=lambda item: (item[0][1], item[0][0].code))
    )


def _capacities(nodes: Nodes) -> tuple[str, ...]:
    return tuple(name for name, bought in (("on-demand", nodes.on_demand), ("spot", nodes.spot)) if bought)


def _largest_by_quota(nodes: Nodes, *, spot: bool) -> dict[Quota, int]:
    """VCPUs of the largest candidate under each quota."""
    largest: dict[Quota, int] = {}
    for name in nodes.instance_types:
        quota = quota_of(name, spot=spot)
        largest[quota] = max(largest.get(quota, 0), INSTANCE_TYPES[name].vcpus)
    return largest


def quota_command(quota: Quota, region: str) -> str:
    """The command that shows the account's value."""
    return (
        f"aws service-quotas get-service-quota --region {region} --service-code ec2 --quota-code {quota.code} "
        "--query Quota.Value"
    )


@dataclass(frozen=True, slots=True)
class QuotaCheck:
    """A need beside what the account has; `vcpus` is None where it could not be asked."""

    need: QuotaNeed
    vcpus: float | None

    @property
    def enough(self) -> bool | None:
        """Whether it is enough; None where nothing is known."""
        return None if self.vcpus is None else self.vcpus >= self.need.vcpus


def compare(needs: Iterable[QuotaNeed], value_of: Callable[[str], float | None]) -> tuple[QuotaCheck, ...]:
    """Needs beside the account's values; `value_of` gives the vCPUs of a quota code."""
    return tuple(QuotaCheck(need, value_of(need.quota.code)) for need in needs)


def account_quota(region: str) -> Callable[[str], float | None]:
    """Asks Service Quotas through botocore, with the credentials that are there.

    Raises ImportError where botocore is not installed; a quota that may not be read is None.
    """
    session = import_module("botocore.session").get_session()
    errors = import_module("botocore.exceptions")
    client = session.create_client("service-quotas", region_name=region)

    def value_of(code: str) -> float | None:
        try:
            return float(client.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
        except (errors.BotoCoreError, errors.ClientError):
            return None

    return value_of


def zone_command(instance_type: str, region: str) -> str:
    """The command that lists the zones which offer a type."""
    return (
        f"aws ec2 describe-instance-type-offerings --region {region} --location-type availability-zone "
        f"--filters Name=instance-type,Values={instance_type} --query InstanceTypeOfferings[].Location"
    )
