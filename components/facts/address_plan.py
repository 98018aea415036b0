"""Which addresses the subnets of a zone get. Standard library only: settings ask it, and Network builds by it.

The VPC is cut into /19 blocks. The letter of a zone is its slot: zone `a` has the first block for its private subnet,
`b` the second, and so on. The block after the last slot is cut into /24, one for the public subnet of each slot. So a
zone's addresses depend on nothing but the VPC's range and the zone itself: adding, removing or reordering zones never
moves a subnet, which AWS could only do by replacing it.

A /16 has six slots (a to f) and one block left over; a /17 has three (a to c). A /18 has room for one zone only, and
EKS wants two.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PRIVATE_PREFIX: Final = 19  # 8,187 usable addresses: nodes take whole /28 blocks for their pods
PUBLIC_PREFIX: Final = 24  # load balancers and NAT gateways only
SLOTS: Final = {16: 6, 17: 3}  # length of the VPC's prefix -> zones that fit


@dataclass(frozen=True, slots=True)
class ZoneAddresses:
    """Ranges of one zone, as CIDR blocks."""

    private: str
    public: str


def plan(cidr: str, zones: Iterable[str]) -> dict[str, ZoneAddresses]:
    """Ranges of every zone, in the order of ``zones``.

    Raises:
        ValueError: the VPC's range is too small or too large, or a zone has no slot in it; the text says what fits.
    """
    network = ipaddress.IPv4Network(cidr)
    slots = SLOTS.get(network.prefixlen)
    if slots is None:
        message = f"{cidr} is a /{network.prefixlen}; a VPC here is /16 (zones a to f) or /17 (zones a to c)"
        raise ValueError(message)
    blocks = list(network.subnets(new_prefix=PRIVATE_PREFIX))
    publics = list(blocks[slots].subnets(new_prefix=PUBLIC_PREFIX))
    indexes = {zone: _slot(zone, slots, cidr) for zone in zones}
    return {zone: ZoneAddresses(str(blocks[index]), str(publics[index])) for zone, index in indexes.items()}


def _slot(zone: str, slots: int, cidr: str) -> int:
    """Number of a zone's slot, by its last letter."""
    index = ord(zone[-1]) - ord("a")
    if not 0 <= index < slots:
        last = chr(ord("a") + slots - 1)
        message = f"zone {zone} has no slot in {cidr}: it has room for zones a to {last}" + (
            "; take a /16 for more" if slots < max(SLOTS.values()) else ""
        )
        raise ValueError(message)
    return index
