"""Network of a cluster that this stack makes."""

import ipaddress
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from components.facts import address_plan
from components.settings.base import Cidr, Fault, Settings, Zone, form


class NatGateways(StrEnum):
    """How many NAT gateways: one is cheaper, one per zone survives the loss of a zone."""

    SINGLE = "single"
    PER_ZONE = "perZone"


# What private nodes call besides S3 (which has a free gateway endpoint): Karpenter docs, "private clusters".
DEFAULT_INTERFACE_ENDPOINTS = (
    "ec2", "ecr.api", "ecr.dkr", "sts", "ssm", "sqs", "eks", "eks-auth", "logs", "elasticloadbalancing",
)  # fmt: skip


Service = Annotated[str, form(r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", "an AWS service like ecr.dkr")]


class NetworkSettings(Settings):
    """A VPC with one private /19 and one public /24 subnet in each zone."""

    cidr: Cidr = Field(
        default="10.0.0.0/16", description="Network of the VPC, /16 or /17. It cannot be changed later."
    )
    zones: Annotated[tuple[Zone, ...], Field(min_length=2, max_length=6)] = Field(
        description="Zone names. Names, not a number: a number would need a call to AWS at preview."
    )
    # The NAT gateway carries what has no endpoint: image layers of public registries, Hugging Face.
    nat_gateways: NatGateways = Field(
        default=NatGateways.PER_ZONE,
        description="One in all, or one in each zone so that the loss of a zone stays there.",
    )
    # Interface endpoints cost about $7 a month, zone and service; image layers and weights already go through the free
    # S3 gateway endpoint, so a small stack may pass an empty list.
    interface_endpoints: tuple[Service, ...] = Field(
        default=DEFAULT_INTERFACE_ENDPOINTS,
        description="AWS services that nodes reach without the NAT gateway, by the last part of com.amazonaws.<region>.<service>.",
    )

    @field_validator("cidr")
    @classmethod
    def _has_slots(cls, value: str) -> str:
        if ipaddress.IPv4Network(value).prefixlen not in address_plan.SLOTS:
            message = f'"{value}" does not fit; a VPC here is /16 (zones a to f) or /17 (zones a to c)'
            raise ValueError(message)
        return value

    @field_validator("zones")
    @classmethod
    def _zones_differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            message = f"a zone is named twice in {', '.join(value)}; name each once"
            raise ValueError(message)
        return value

    def faults(self) -> Iterable[Fault]:
        """Every zone must have its slot in the addresses of the VPC."""
        for index, zone in enumerate(self.zones):
            try:
                address_plan.plan(self.cidr, [zone])
            except ValueError as error:
                yield ("zones", index), str(error)
