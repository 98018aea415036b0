"""All resource types of the stand-in."""

from __future__ import annotations

from typing import Final

from rehearsal.aws import rows_ec2, rows_eks, rows_iam, rows_network, rows_s3, rows_services
from rehearsal.aws.row import Row

ROWS: Final[dict[str, Row]] = {
    row.token: row
    for module in (rows_network, rows_ec2, rows_iam, rows_s3, rows_services, rows_eks)
    for row in module.ROWS
}


def held_types() -> list[str]:
    """Types that the stand-in keeps by itself, because moto has no API for them."""
    return sorted(row.token for row in ROWS.values() if row.held)


def partly_held() -> dict[str, list[str]]:
    """Properties that moto does not take, by type; the stand-in keeps those."""
    return {row.token: sorted(row.kept) for row in ROWS.values() if row.keeps and not row.held}
