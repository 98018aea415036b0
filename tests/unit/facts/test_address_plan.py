"""Addresses of zones: literal ones, and what holds for every choice of zones."""

import ipaddress
import random
from itertools import combinations

import pytest

from components.facts.address_plan import plan

LETTERS = {"10.40.0.0/16": "abcdef", "172.16.128.0/17": "abc"}


def test_gives_each_zone_its_slot() -> None:
    """The letter of a zone is its place, whatever else the stack has."""
    got = plan("10.40.0.0/16", ["us-west-2a", "us-west-2c"])

    assert {zone: (addresses.private, addresses.public) for zone, addresses in got.items()} == {
        "us-west-2a": ("10.40.0.0/19", "10.40.192.0/24"),
        "us-west-2c": ("10.40.64.0/19", "10.40.194.0/24"),
    }


def test_fits_three_zones_into_half_the_range() -> None:
    """A /17 has three private blocks, and the fourth for the public ones."""
    got = plan("172.16.128.0/17", ["eu-west-1a", "eu-west-1b", "eu-west-1c"])

    assert [(addresses.private, addresses.public) for addresses in got.values()] == [
        ("172.16.128.0/19", "172.16.224.0/24"),
        ("172.16.160.0/19", "172.16.225.0/24"),
        ("172.16.192.0/19", "172.16.226.0/24"),
    ]


@pytest.mark.parametrize("cidr", sorted(LETTERS))
def test_a_zone_never_moves(cidr: str) -> None:
    """Whatever zones are added, removed or put in another order, each keeps its addresses."""
    alone = {letter: plan(cidr, [f"us-east-1{letter}"])[f"us-east-1{letter}"] for letter in LETTERS[cidr]}
    shuffled = random.Random(1)
    for size in range(1, len(LETTERS[cidr]) + 1):
        for chosen in combinations(LETTERS[cidr], size):
            letters = shuffled.sample(chosen, size)

            assert list(plan(cidr, [f"us-east-1{letter}" for letter in letters]).values()) == [
                alone[letter] for letter in letters
            ]


@pytest.mark.parametrize("cidr", sorted(LETTERS))
def test_blocks_lie_apart_inside_the_range(cidr: str) -> None:
    """All blocks are inside the VPC's range, and no two overlap."""
    vpc = ipaddress.ip_network(cidr)
    zones = plan(cidr, [f"us-east-1{letter}" for letter in LETTERS[cidr]]).values()
    blocks = [ipaddress.ip_network(block) for zone in zones for block in (zone.private, zone.public)]

    assert all(block.subnet_of(vpc) for block in blocks)
    assert not any(one.overlaps(other) for one, other in combinations(blocks, 2))


@pytest.mark.parametrize(
    ("cidr", "zone", "sentence"),
    [
        (
            "10.0.0.0/18",
            "us-west-2a",
            "10.0.0.0/18 is a /18; a VPC here is /16 (zones a to f) or /17 (zones a to c)",
        ),
        (
            "10.0.0.0/17",
            "ap-northeast-1d",
            "zone ap-northeast-1d has no slot in 10.0.0.0/17: it has room for zones a to c; take a /16 for more",
        ),
        (
            "10.0.0.0/16",
            "us-east-1g",
            "zone us-east-1g has no slot in 10.0.0.0/16: it has room for zones a to f",
        ),
    ],
)
def test_says_what_fits(cidr: str, zone: str, sentence: str) -> None:
    """What does not fit is refused with what would."""
    with pytest.raises(ValueError, match="^" + sentence.replace("(", r"\(").replace(")", r"\)") + "$"):
        plan(cidr, [zone])
