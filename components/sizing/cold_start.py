"""How long a new replica takes from nothing: node, image, weights, engine; which loader is fastest here and why.

Rates and times are published figures, not fits, so every term is (low, likely, high). Sources: SOCI blueprint
(image pull 130.8 s plain, 23.2 s with SOCI on Bottlerocket for 9.35 GB), run-ai streamer benchmarks (15 GB on
g5.12xlarge: 3.1 GB/s from S3, 14.3 s from a 1,000 MiB/s volume, 48 s with the default reader; 18 to 21 s from loaded
weights to ready), Mountpoint for S3 (1.25 to 1.55 GB/s a stream, 5.3 to 6.5 GB/s with four), AWS on P4d (2.7 GB/s a
disk, 16 GB/s for eight). One NVMe disk of g5 is a class value, not a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from components.facts.instance_types import INSTANCE_TYPES, InstanceType

SPOT_NOTICE_S = 120.0
IMAGE_GB = 9.35
"""Compressed size of the image whose pull was measured."""


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds or GB/s: low, likely, high."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Span) -> Span:
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def beside(self, other: Span) -> Span:
        """Two things that run at the same time: the longer one counts."""
        return Span(max(self.low, other.low), max(self.likely, other.likely), max(self.high, other.high))


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Terms in seconds. `weights` is what the engine waits for; a copy to NVMe begins when the image is there."""

    node: Span
    image: Span
    copy: Span
    weights: Span
    engine: Span
    loader: str
    fastest_loader: str
    notes: tuple[str, ...]

    @property
    def total(self) -> Span:
        """From an unschedulable pod to an engine that answers."""
        return self.node + self.image + self.copy + self.weights + self.engine


NODE = Span(30, 45, 75)  # EC2 launch, boot and join; Karpenter itself decides in seconds
IMAGE_GB_PER_S: Mapping[str, Span] = MappingProxyType(
    {
        "plain": Span(IMAGE_GB / 480, IMAGE_GB / 131, IMAGE_GB / 60),
        "soci": Span(IMAGE_GB / 60, IMAGE_GB / 23.2, IMAGE_GB / 20),
    }
)
SNAPSHOT = Span(0, 2, 10)  # the image is on the data volume already; its blocks may load lazily
ENGINE: Mapping[str, Span] = MappingProxyType(
    {
        "eager": Span(8, 15, 40),
        "warm": Span(15, 25, 60),  # graphs captured, compiled kernels found in the cache
        "cold": Span(30, 60, 150),
    }
)
_LINE = 0.125  # GB/s of one Gbit/s
_ONE_INTERFACE_GB_PER_S = 12.5  # traffic to S3 leaves through one ENI, of at most 100 Gbit/s
_STREAMER_PART = Span(0.4, 0.62, 0.9)  # of the line; 3.1 of 5 GB/s were measured
_S3_CLIENT_GB_PER_S = Span(4.0, 6.5, _ONE_INTERFACE_GB_PER_S)  # the most that a client was seen to do
_MOUNTPOINT_ONE = Span(1.0, 1.25, 1.55)
_MOUNTPOINT_FOUR = Span(3.5, 5.3, 6.5)
_DISK_ALONE = Span(1.5, 2.7, 3.9)  # 3.9 is what four lanes of PCIe 3 carry
_DISK_OF_MANY = Span(1.5, 2.0, 2.7)
_DEFAULT_READER = Span(0.25, 0.31, 0.60)  # safetensors through page faults, bound by the CPU
_VOLUME_PART = Span(0.85, 0.97, 1.0)


def _scaled(span: Span, by: float) -> Span:
    return Span(span.low * by, span.likely * by, span.high * by)


def _slower(one: Span, other: Span) -> Span:
    return Span(min(one.low, other.low), min(one.likely, other.likely), min(one.high, other.high))


def _line(instance: InstanceType) -> float:
    return min(instance.network_gbps * _LINE, _ONE_INTERFACE_GB_PER_S)


def nvme_rate(instance: InstanceType) -> Span | None:
    """GB/s of reading from the instance's own disks as one volume; None where it has none."""
    if not instance.nvme_disks:
        return None
    return _DISK_ALONE if instance.nvme_disks == 1 else _scaled(_DISK_OF_MANY, instance.nvme_disks)


def volume_rate(instance: InstanceType, mib_per_s: float) -> Span:
    """GB/s of an EBS volume: its own setting or the instance's line, whichever is less."""
    return _scaled(_VOLUME_PART, min(mib_per_s * 2**20 / 1e9, instance.ebs_mbps / 8000))


def loader_rates(instance: InstanceType, volume_mib_per_s: float = 1_000) -> dict[str, Span]:
    """GB/s of every way from the weights' place to the engine on this instance."""
    line = _line(instance)
    rates = {
        "streamer": _slower(_scaled(_STREAMER_PART, line), _S3_CLIENT_GB_PER_S),
        "mountpoint": _slower(_MOUNTPOINT_ONE, _scaled(Span(0.9, 0.95, 1.0), line)),
        "mountpoint-4": _slower(_MOUNTPOINT_FOUR, _scaled(_STREAMER_PART, line)),
        "ebs": volume_rate(instance, volume_mib_per_s),
        "streamer-volume": volume_rate(instance, volume_mib_per_s),
        "safetensors": _slower(_DEFAULT_READER, volume_rate(instance, volume_mib_per_s)),
    }
    nvme = nvme_rate(instance)
    return rates if nvme is None else {**rates, "nvmeCache": nvme}


def seconds_for(gigabytes: float, rate: Span) -> Span:
    """Seconds for an amount at a rate."""
    return Span(gigabytes / rate.high, gigabytes / rate.likely, gigabytes / rate.low)


def image_span(mode: str, image_gb: float = IMAGE_GB) -> Span:
    """Seconds until the image is there: "plain", "soci" (parallel pull) or "snapshot" (on the volume already)."""
    return SNAPSHOT if mode == "snapshot" else seconds_for(image_gb, IMAGE_GB_PER_S[mode])


def cold_start(
    instance_type: str,
    weights_gb: float,
    *,
    loader: str = "mountpoint",
    image: str = "soci",
    engine: str = "cold",
    cached: bool = False,
    volume_mib_per_s: float = 1_000,
    upscale_delay_s: float = 0.0,
    image_gb: float = IMAGE_GB,
) -> ColdStart:
    """The start of one replica on a new node.

    `loader` is a key of `loader_rates`; with "nvmeCache" the node first copies from S3 (unless `cached`), by a pod of
    the same image. `engine` is a key of `ENGINE`. Raises KeyError, naming what there is, for an instance or loader that
    is not known.
    """
    instance = INSTANCE_TYPES[instance_type]
    rates = loader_rates(instance, volume_mib_per_s)
    if loader not in rates:
        raise KeyError(f"loader {loader!r} is not possible on {instance_type}; there are {', '.join(rates)}")
    copying = loader == "nvmeCache" and not cached
    copy = seconds_for(weights_gb, rates["mountpoint-4"]) if copying else Span(0, 0, 0)
    fastest = fastest_loader(rates)
    start = ColdStart(
        node=NODE,
        image=image_span(image, image_gb),
        copy=copy,
        weights=seconds_for(weights_gb, rates[loader]),
        engine=ENGINE[engine],
        loader=loader,
        fastest_loader=fastest,
        notes=(),
    )
    return _with_notes(start, rates, instance, upscale_delay_s)


def fastest_loader(rates: Mapping[str, Span]) -> str:
    """The way with the highest likely rate, among those that a stack may choose."""
    choices = ("streamer", "mountpoint", "mountpoint-4", "nvmeCache")
    return max((name for name in choices if name in rates), key=lambda name: rates[name].likely)


def _with_notes(
    start: ColdStart, rates: Mapping[str, Span], instance: InstanceType, upscale_delay_s: float
) -> ColdStart:
    likely = start.total.likely
    gap = likely - SPOT_NOTICE_S
    rate, disks = rates[start.fastest_loader].likely, instance.nvme_disks
    here = f"line {instance.network_gbps:g} Gbit/s, {disks} NVMe disk(s), EBS {instance.ebs_mbps / 8000:.1f} GB/s"
    wait = likely + upscale_delay_s
    notes = [
        f"{start.fastest_loader} is the fastest loader on {instance.name}: {rate:.1f} GB/s ({here})",
        f"a burst waits {wait:.0f} s for a new replica ({upscale_delay_s:.0f} s of them before it is asked for)",
    ]
    if gap > 0:
        notes.append(
            f"the spot notice is {SPOT_NOTICE_S:.0f} s: a replacement is ready {gap:.0f} s after the node is gone"
        )
    return ColdStart(
        start.node,
        start.image,
        start.copy,
        start.weights,
        start.engine,
        start.loader,
        start.fastest_loader,
        tuple(notes),
    )


def start_seconds(
    instance_type: str, weights_gb: float, loader: str, volume_mib_per_s: float = 1_000, engine: str = "warm"
) -> tuple[float, float]:
    """Seconds from a started container to a ready engine, least and most: weights, then engine."""
    rates = loader_rates(INSTANCE_TYPES[instance_type], volume_mib_per_s)
    span = seconds_for(weights_gb, rates[loader]) + ENGINE[engine]
    return span.low, span.high
