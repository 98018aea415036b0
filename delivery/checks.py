"""Where a delivery and the stack that it delivers disagree: each would be found out by a deployment that hangs or fails."""

import ipaddress
from collections.abc import Iterator, Sequence

from components.settings import PlatformSettings
from components.settings.base import Fault
from components.settings.cluster import CreateCluster
from delivery import names
from delivery.settings import DeliverySettings


def disagreements(settings: DeliverySettings, platform: PlatformSettings, stack: str) -> Iterator[Fault]:
    """Every disagreement, with the key of the delivery that shows it."""
    if platform.account_id is None:
        yield (), f"needs accountId in Pulumi.{stack}.yaml: roles are made in that account"
        return
    cluster = platform.cluster.create
    if cluster is None:
        return  # whoever made the existing cluster says who reaches and administers it
    if settings.deployments:
        yield from _unreachable(settings, cluster, stack)
    deployer = names.role_arn(platform.region, platform.account_id, names.deployer(stack))
    if deployer in cluster.administrators:
        message = (
            f"makes {deployer}, which is among the administrators in Pulumi.{stack}.yaml; remove it there: "
            "EKS makes the role that creates a cluster an administrator and refuses a second entry for it"
        )
        yield (), message


def _unreachable(settings: DeliverySettings, cluster: CreateCluster, stack: str) -> Iterator[Fault]:
    assert settings.deployments is not None  # noqa: S101 - asked by the caller
    runners, access = settings.deployments.runners, cluster.endpoint_access
    if not runners.cidrs:
        return
    where = ("deployments", "runners", "cidrs")
    if not access.public:
        message = (
            f"cannot reach the API endpoint of {cluster.name}, which is private in Pulumi.{stack}.yaml; "
            "name a pool of runners inside the VPC, or open the endpoint to these networks there"
        )
        yield where, message
        return
    for index, cidr in enumerate(runners.cidrs):
        if not _within(cidr, access.cidrs):
            message = f"{cidr} is not among cluster.create.endpointAccess.cidrs of Pulumi.{stack}.yaml; add it there"
            yield (*where, index), message


def _within(cidr: str, allowed: Sequence[str]) -> bool:
    network = ipaddress.IPv4Network(cidr)
    return any(network.subnet_of(ipaddress.IPv4Network(each)) for each in allowed)
