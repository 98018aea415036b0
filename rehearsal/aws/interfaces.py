"""Network interfaces that AWS services put into subnets, and which moto does not make for them.

Without them a subnet or security group could go while a cluster or cache still stands in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call


def interfaces_made(cloud: Cloud, owner: str, subnets: Iterable[str], groups: Sequence[str]) -> None:
    """One interface in each subnet, with the security groups, described by its owner as AWS does."""
    for subnet in subnets:
        arguments = {"SubnetId": subnet, "Groups": list(groups), "Description": owner}
        cloud.call(Call("ec2.create_network_interface", arguments), {})


def interfaces_gone(cloud: Cloud, owner: str) -> None:
    """Take an owner's interfaces away again."""
    answer = "NetworkInterfaces[].[Description, NetworkInterfaceId]"
    for description, identity in cloud.call(Call("ec2.describe_network_interfaces", answer=answer), {}):
        if description == owner:
            cloud.call(Call("ec2.delete_network_interface", {"NetworkInterfaceId": identity}), {})
