"""All resource types of the stand-in."""

from __future__ import annotations

from typing import Final

from rehearsal.aws import rows_ec2, rows_eks, rows_gateways, rows_iam, rows_network, rows_s3, rows_services
from rehearsal.aws.row import Row

ROWS: Final[dict[str, Row]] = {
    row.token: row
    for module in (rows_network, rows_gateways, rows_ec2, rows_iam, rows_s3, rows_services, rows_eks)
    for row in module.ROWS
}


def what_stood_in() -> list[str]:
    """What is not AWS in a rehearsal, in sentences for its output."""
    names = [token.rpartition(":")[2] for token in held_types()]
    parts = "; ".join(
        f"{token.rpartition(':')[2]}: {', '.join(names)}" for token, names in partly_held().items()
    )
    return [
        "AWS is a moto server on this machine, and the providers pulumi-resource-aws and pulumi-resource-eks are stand-ins.",
        "They check properties by the SDK's types, and refuse to delete what AWS would refuse to delete.",
        f"moto has no API for these, so the stand-in keeps them itself: {', '.join(names)}.",
        f"Of these moto does not take every property, so the stand-in keeps some: {parts}.",
        "Nothing takes time or runs out: no quotas, no waiting for clusters, no permissions checked.",
    ]


def held_types() -> list[str]:
    """Types that the stand-in keeps by itself, because moto has no API for them."""
    return sorted(row.token for row in ROWS.values() if row.held)


def partly_held() -> dict[str, list[str]]:
    """Properties that moto does not take, by type; the stand-in keeps those."""
    return {row.token: sorted(row.kept) for row in ROWS.values() if row.keeps and not row.held}
