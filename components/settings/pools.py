"""Pools of nodes that Karpenter launches: one for heads and ingress without GPUs, and the GPU pools."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, field_validator

from components import pins
from components.settings.base import (
    Cpu,
    Cron,
    DiskSize,
    Duration,
    DurationOrNever,
    Fault,
    HoursAndMinutes,
    InstanceType,
    LabelKey,
    LabelValue,
    Memory,
    Name,
    Natural,
    Positive,
    Settings,
    Zone,
    form,
)

NodeCount = Annotated[
    str, form(r"^((100|[0-9]{1,2})%|[0-9]+)$", 'a number of nodes in quotes like "1", or a share like "10%"')
]
AmiAlias = Annotated[
    str,
    form(
        r"^bottlerocket@v[0-9]+\.[0-9]+\.[0-9]+$", "a pinned image of Bottlerocket like bottlerocket@v1.64.0"
    ),
]
ReservationId = Annotated[
    str, form(r"^cr-[0-9a-f]{8,17}$", "a capacity reservation like cr-0f1e2d3c4b5a69788")
]


class Capacity(StrEnum):
    """Kinds of EC2 capacity, by Karpenter's own names and order of preference."""

    RESERVED = "reserved"
    SPOT = "spot"
    ON_DEMAND = "on-demand"


class Limits(Settings):
    """What a pool may grow to at most. This is the ceiling of the bill."""

    gpus: Positive = Field(description="GPUs of all nodes of the pool together, at most.")
    cpu: Cpu | None = Field(
        default=None, description="CPU cores of all nodes together; unset: only the GPUs count."
    )
    memory: Memory | None = Field(
        default=None, description="Memory of all nodes together; unset: only the GPUs count."
    )


class CpuLimits(Settings):
    """What the CPU pool may grow to at most."""

    # Sixteen m6i.xlarge: a head and two ingress pods of ten models, and as much again during an upgrade.
    cpu: Cpu = "64"
    memory: Memory = "256Gi"


class DataVolume(Settings):
    """EBS volume for images and ephemeral storage, /dev/xvdb on Bottlerocket (the OS itself lies on /dev/xvda)."""

    # Images take 30 GB and a 70B model 141 GB; the rates let both be read in minutes. gp3 goes no further than the limits.
    size: DiskSize = Field(default="500Gi", description="Size in GiB.")
    iops: Annotated[int, Field(ge=3000, le=80000, description="Reads and writes a second.")] = 10000
    throughput: Annotated[int, Field(ge=125, le=2000, description="MiB/s")] = 1000

    def faults(self) -> Iterable[Fault]:
        """EBS refuses a gp3 volume with more throughput than a quarter of a MiB/s for each operation."""
        if self.throughput * 4 > self.iops:
            message = f"throughput {self.throughput} needs at least {self.throughput * 4} iops, and they are {self.iops}; raise iops or lower throughput"
            yield self.written("throughput", "iops"), message


class Efa(Settings):
    """EFA network interfaces, for models over several nodes only."""

    interfaces: Positive = Field(description="EFA interfaces of a node: at most what the instance type has.")


class Budget(Settings):
    """How many nodes Karpenter may disrupt by itself at once, optionally within a window."""

    # One at a time: a GPU node takes minutes to be useful again.
    nodes: NodeCount = Field(default="1", description='How many nodes at once, or a share; "0": none.')
    reasons: tuple[Literal["Empty", "Drifted", "Underutilized"], ...] = Field(
        default=(), description="For which reasons the budget counts; empty: for all."
    )
    schedule: Cron | None = Field(default=None, description="When the window opens: a cron expression, UTC.")
    duration: HoursAndMinutes | None = Field(default=None, description="How long the window stays open.")

    def faults(self) -> Iterable[Fault]:
        """A window has a beginning and a length."""
        if (self.schedule is None) != (self.duration is None):
            yield (
                self.written("schedule", "duration"),
                "schedule and duration make a window together; give both or neither",
            )


class Disruption(Settings):
    """When Karpenter may take a node away by itself."""

    # A GPU node needs minutes to be useful again: only empty nodes go, and not at once.
    consolidate_after: Duration = Field(default="10m", description="How long a node is empty before it goes.")
    budgets: tuple[Budget, ...] = Field(
        default=(Budget(),), description="How many nodes may go at once, and when."
    )
    # Thirty days: every node gets a fresh image in time. Karpenter drains for it even in a closed window.
    expire_after: DurationOrNever = Field(default="720h", description="Age at which a node is replaced.")


class Pool(Settings):
    """What both kinds of pool have."""

    instance_types: Annotated[tuple[InstanceType, ...], Field(min_length=1)] = Field(
        description="EC2 types that Karpenter may launch; more types find spot capacity more often."
    )
    zones: tuple[Zone, ...] = Field(default=(), description="Empty: all zones of the stack.")
    # Pinned: with @latest every release of the image would replace the nodes.
    ami_alias: AmiAlias = Field(
        default=pins.BOTTLEROCKET_ALIAS, description="Image of the nodes, as Karpenter names it."
    )
    labels: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, description="Further labels of the nodes."
    )
    disruption: Disruption = Disruption()
    # Karpenter does not know prefix delegation: it must be told.
    max_pods: Annotated[int, Field(ge=10, le=250, description="Pods of a node, at most.")] = 110

    @field_validator("instance_types", "zones")
    @classmethod
    def _differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) != len(value):
            message = f"something is named twice in {', '.join(value)}; name each once"
            raise ValueError(message)
        return value


class CpuPool(Pool):
    """On-demand nodes for Ray heads and the CPU ingress group: losing a head to spot would stop a model's control."""

    # Several types: on-demand capacity of one can be gone in a zone.
    instance_types: Annotated[tuple[InstanceType, ...], Field(min_length=1)] = (
        "m6i.xlarge", "m6i.2xlarge", "m7i.xlarge", "m7i.2xlarge",
    )  # fmt: skip
    limits: CpuLimits = CpuLimits()
    data_volume: DataVolume = DataVolume(size="200Gi", iops=3000, throughput=250)
    # Longer than the longest drain of a pod (590 s).
    termination_grace_period: Duration = Field(
        default="15m", description="How long a node may drain at most."
    )


class GpuPool(Pool):
    """GPU nodes of like instance types. Every one of them must be able to run each model of the pool."""

    name: Name = Field(description="Name of the pool, by which models choose it.")
    # On-demand unless asked: spot nodes go with two minutes' notice.
    capacity: Annotated[tuple[Capacity, ...], Field(min_length=1)] = Field(
        default=(Capacity.ON_DEMAND,),
        description="Kinds of capacity allowed. Karpenter's order: reserved, spot, on-demand.",
    )
    limits: Limits = Field(description="What the pool may grow to at most: the ceiling of the bill.")
    reservation_ids: tuple[ReservationId, ...] = Field(
        default=(), description="Capacity reservations whose instances the pool uses first."
    )
    efa: Efa | None = Field(
        default=None, description="EFA network interfaces; only models over several nodes need them."
    )
    placement_group: bool = Field(
        default=False, description="Nodes stand close together in one zone, for EFA."
    )
    local_nvme: bool = Field(
        default=True,
        description="RAID0 of the instance's NVMe disks for images and caches; false: the data volume.",
    )
    data_volume: DataVolume = DataVolume()
    weight: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="Karpenter tries pools of higher weight first."
    )
    # Bounds every drain: without it a node under a blocked eviction hangs for ever (karpenter #1789).
    termination_grace_period: Duration = Field(
        default="15m", description="How long a node may drain at most."
    )
    # DaemonSets, the Mountpoint pod and the kubelet. Mountpoint's pods take up to 8.2 GB outside the worker's own request.
    reserve_cpu: Natural = Field(default=2, description="CPU cores of a node that no model gets.")
    reserve_memory: Memory = Field(default="10Gi", description="Memory of a node that no model gets.")

    @field_validator("capacity")
    @classmethod
    def _differ_and_order(cls, value: tuple[Capacity, ...]) -> tuple[Capacity, ...]:
        if len(set(value)) != len(value):
            message = f"a kind is named twice in {', '.join(value)}; name each once"
            raise ValueError(message)
        return value
