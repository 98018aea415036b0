"""What a stack's own settings say to each other: names, references, zones, versions, pools and their types."""

import re
from collections import Counter
from collections.abc import Iterator

from components import pins
from components.facts.instance_types import INSTANCE_TYPES
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.hardware import hardware
from guardrails.objects import Subject
from guardrails.stack import PoolFacts, StackFacts, engine_of
from guardrails.values import listed
from guardrails.world import World

RAY_SERVICE_NAME_LENGTH = 47  # KubeRay 1.7 utils/validation.go: it adds a generated suffix
DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

NAME_LENGTH = Rule(
    id="ray-name-invalid",
    severity=Severity.ERROR,
    sentence="A model's name is one that KubeRay accepts for a RayService: a DNS label of at most 47 characters.",
    why="KubeRay refuses longer names, since it adds a suffix for each cluster it makes.",
    remedy="shorten the name",
    source="KubeRay 1.7.0 ray-operator/controllers/ray/utils/validation.go",
)
DUPLICATE = Rule(
    id="name-duplicate",
    severity=Severity.ERROR,
    sentence="Pools and models have names of their own.",
    why="Names become Kubernetes objects and host names; the second would replace the first.",
    remedy="rename one of the two",
    source="docs/decisions: one RayService and one NodePool per name",
)
POOL_UNKNOWN = Rule(
    id="pool-unknown",
    severity=Severity.ERROR,
    sentence="A model runs on a pool that the stack has.",
    why="Its pods would select nodes that never come.",
    remedy="name one of the pools, or add it to gpuPools",
    source="components/settings/platform.py",
)
TYPE_UNKNOWN = Rule(
    id="instance-type-unknown",
    severity=Severity.ERROR,
    sentence="Every instance type of a pool is one whose size, GPUs and price are in the table.",
    why="Nothing could be said about fit, speed or price, and a misspelt type makes a pool that never launches.",
    remedy="use a type of components/facts/instance_types.py, or add a row with its source",
    source="components/facts/instance_types.py",
    profile=Profile.HOUSE,
)
TYPE_WITHOUT_GPU = Rule(
    id="gpu-pool-without-gpu",
    severity=Severity.ERROR,
    sentence="Every instance type of a GPU pool has GPUs.",
    why="Pods that ask for a GPU never fit on the others, and they cost money under the GPU taint.",
    remedy="remove the type from the pool",
    source="EC2 instance types",
    profile=Profile.HOUSE,
)
ZONE = Rule(
    id="zone-outside-network",
    severity=Severity.ERROR,
    sentence="Zones belong to the stack's region, and a pool's zones to the stack's network.",
    why="There is no subnet to launch a node in.",
    remedy="name zones of the region that network.zones has too",
    source="components/network.py",
    profile=Profile.HOUSE,
)
KUBERNETES = Rule(
    id="kubernetes-version-unsupported",
    severity=Severity.ERROR,
    sentence="The Kubernetes version is one that the pinned Karpenter, KubeRay and node image support.",
    why="Karpenter's matrix and the Bottlerocket release stop there.",
    remedy=f"use {' or '.join(pins.KUBERNETES_SUPPORTED)}, in quotes",
    source="components/pins.py; Karpenter 1.14 compatibility matrix",
    profile=Profile.HOUSE,
)
RESERVED = Rule(
    id="reserved-without-reservation",
    severity=Severity.ERROR,
    sentence="A pool that allows reserved capacity names its reservations, and one that names them allows it.",
    why="Karpenter never uses a reservation that the node class does not select, and never launches without one.",
    remedy="add reservationIds, or remove reserved from capacity",
    source="Karpenter 1.14 docs, capacityReservationSelectorTerms",
    profile=Profile.HOUSE,
)
EFA_IMAGE = Rule(
    id="efa-without-image",
    severity=Severity.ERROR,
    sentence="A model that uses EFA runs an image with libfabric and aws-ofi-nccl.",
    why="NCCL falls back to TCP in silence, at a tenth of the bandwidth.",
    remedy="remove images.serving so that the stack takes AWS's image, or put libfabric and aws-ofi-nccl in yours",
    source="docs: Ray LLM images compared; vllm#27633",
    profile=Profile.HOUSE,
)
EFA_SPREAD = Rule(
    id="efa-pool-spread",
    severity=Severity.WARN,
    sentence="A pool with EFA has one zone and a placement group.",
    why="EFA does not cross zones, and a replica's nodes must lie close to each other.",
    remedy="set zones to one zone and placementGroup: true",
    source="EC2 user guide, EFA limitations; Karpenter placementGroupSelector",
    profile=Profile.HOUSE,
)


ARCHITECTURE = Rule(
    id="architecture-unreadable",
    severity=Severity.ERROR,
    sentence="A model's config.json can be read and describes an architecture that is understood.",
    why="Whether the model fits could not be said.",
    remedy="put the model's own config.json beside the stack file, or name a known architecture",
    source="components/facts/models.py",
    profile=Profile.HOUSE,
)


def _houses(world: World) -> list[StackFacts]:
    return [stack for stack in world.stacks if stack.house]


def _pools(stack: StackFacts) -> list[PoolFacts]:
    return [*stack.pools, *((stack.cpu_pool,) if stack.cpu_pool else ())]


def _pool_subject(world: World, stack: StackFacts, pool: PoolFacts) -> Subject:
    return world.stack_subject(stack, pool.name, "pool")


def name_length(world: World) -> Iterator[Hit]:
    """Names that KubeRay refuses: of models in a stack, and of RayServices and RayClusters in manifests."""
    for stack in world.stacks:
        for model in stack.models:
            if len(model.name) > RAY_SERVICE_NAME_LENGTH or not DNS_1035.fullmatch(model.name):
                subject = world.stack_subject(stack, model.name, "model")
                yield Hit(subject, (*model.path, "name"), _name_message(model.name, RAY_SERVICE_NAME_LENGTH))
    for kind, longest in (("RayService", RAY_SERVICE_NAME_LENGTH), ("RayCluster", 53), ("RayJob", 47)):
        for subject in world.kind(kind, group="ray.io"):
            name = subject.name
            if name.endswith("-") and subject.get("metadata", "name") is None:
                name += "xxxxx"  # generateName: the API server adds five characters
            if name and "{" not in name and (len(name) > longest or not DNS_1035.fullmatch(name)):
                yield Hit(subject, ("metadata", "name"), _name_message(name, longest))


def _name_message(name: str, longest: int) -> str:
    if len(name) > longest:
        return f"{name} has {len(name)} characters; KubeRay accepts at most {longest}"
    return f"{name} is not a DNS label: lower-case letters, digits and hyphens, starting with a letter"


def duplicate(world: World) -> Iterator[Hit]:
    """Pools or models of one name."""
    for stack in world.stacks:
        for kind, named in (("pool", stack.pools), ("model", stack.models)):
            counts = Counter(item.name for item in named)
            seen: set[str] = set()
            for item in named:
                if counts[item.name] > 1 and item.name in seen:
                    subject = world.stack_subject(stack, item.name, kind)
                    yield Hit(
                        subject, (*item.path, "name"), f"{item.name} is the name of another {kind} already"
                    )
                seen.add(item.name)


def pool_unknown(world: World) -> Iterator[Hit]:
    """Models on pools that are not there."""
    for stack in world.stacks:
        names = [pool.name for pool in stack.pools]
        for model in stack.models:
            if model.pool is not None and model.pool not in names:
                there = listed(names, "and") or "none"
                subject = world.stack_subject(stack, model.name, "model")
                yield Hit(
                    subject, (*model.path, "pool"), f"there is no pool {model.pool}; the stack has {there}"
                )


def type_unknown(world: World) -> Iterator[Hit]:
    """Types that the platform has no facts on."""
    for stack in _houses(world):
        for pool in _pools(stack):
            for index, name in enumerate(pool.instance_types):
                if name not in INSTANCE_TYPES:
                    path: Path = (*pool.path, "instanceTypes", index)
                    what = (
                        "is not in the table of instance types"
                        if hardware(name)
                        else "is no EC2 instance type"
                    )
                    yield Hit(_pool_subject(world, stack, pool), path, f"{name} {what}", remedy=_remedy(name))


def _remedy(name: str) -> str:
    family = name.partition(".")[0]
    known = [other for other in INSTANCE_TYPES if other.partition(".")[0] == family]
    return f"of this family there are {listed(known)}" if known else ""


def type_without_gpu(world: World) -> Iterator[Hit]:
    """CPU types in GPU pools."""
    for stack in _houses(world):
        for pool in stack.pools:
            for index, name in enumerate(pool.instance_types):
                known = INSTANCE_TYPES.get(name)
                if known and not known.gpus:
                    yield Hit(
                        _pool_subject(world, stack, pool),
                        (*pool.path, "instanceTypes", index),
                        f"{name} has no GPU",
                    )


def zones(world: World) -> Iterator[Hit]:
    """Zones of another region, and pool zones without a subnet."""
    for stack in _houses(world):
        region = stack.region
        for index, zone in enumerate(stack.zones):
            if zone[:-1] != region:
                subject = world.stack_subject(stack, "network", "stack")
                yield Hit(subject, ("network", "zones", index), f"zone {zone} is not in region {region}")
        for pool in _pools(stack):
            for index, zone in enumerate(pool.zones):
                path: Path = (*pool.path, "zones", index)
                subject = _pool_subject(world, stack, pool)
                if zone[:-1] != region:
                    yield Hit(subject, path, f"zone {zone} is not in region {region}")
                elif stack.zones and zone not in stack.zones:
                    yield Hit(
                        subject, path, f"zone {zone} is not one of network.zones, {listed(stack.zones)}"
                    )


def kubernetes(world: World) -> Iterator[Hit]:
    """Versions outside the table."""
    for stack in _houses(world):
        if stack.kubernetes is not None and stack.kubernetes not in pins.KUBERNETES_SUPPORTED:
            subject = world.stack_subject(stack, "cluster", "stack")
            message = f"Kubernetes {stack.kubernetes} is not supported; supported: {listed(pins.KUBERNETES_SUPPORTED)}"
            yield Hit(subject, stack.kubernetes_path, message)


def reserved(world: World) -> Iterator[Hit]:
    """Reserved capacity without reservations, and the reverse."""
    for stack in _houses(world):
        for pool in stack.pools:
            subject = _pool_subject(world, stack, pool)
            if "reserved" in pool.capacity and not pool.reservations:
                yield Hit(
                    subject,
                    (*pool.path, "capacity"),
                    "capacity reserved is allowed, but reservationIds is empty",
                )
            elif pool.reservations and "reserved" not in pool.capacity:
                message = "reservationIds are named, but capacity does not allow reserved"
                yield Hit(subject, (*pool.path, "reservationIds"), message)


def efa_image(world: World) -> Iterator[Hit]:
    """EFA with an image of the user's own, of which nothing is known."""
    for stack in _houses(world):
        for model in stack.models:
            pool = stack.pool(model.pool)
            if pool and pool.efa and model.pipeline_parallel > 1 and stack.own_image:
                subject = world.stack_subject(stack, model.name, "model")
                image = engine_of(stack, model).image.repository
                message = f"the model uses EFA, and images.serving replaces {image}, which has libfabric"
                yield Hit(subject, ("images", "serving"), message, Severity.WARN)


def efa_spread(world: World) -> Iterator[Hit]:
    """EFA pools over several zones or without a placement group."""
    for stack in _houses(world):
        for pool in stack.pools:
            if not pool.efa:
                continue
            subject, zone_count = _pool_subject(world, stack, pool), len(pool.zones or stack.zones)
            if zone_count > 1:
                message = f"the pool has EFA and {zone_count} zones; EFA does not cross zones"
                yield Hit(subject, (*pool.path, "zones"), message)
            if not pool.placement_group:
                yield Hit(subject, (*pool.path, "placementGroup"), "the pool has EFA and no placement group")


def architecture(world: World) -> Iterator[Hit]:
    """Files that tell no shape."""
    for stack in _houses(world):
        for model in stack.models:
            if model.shape_problem:
                subject = world.stack_subject(stack, model.name, "model")
                yield Hit(subject, (*model.path, "architecture"), model.shape_problem)


RULES: Table = (
    (NAME_LENGTH, name_length),
    (DUPLICATE, duplicate),
    (POOL_UNKNOWN, pool_unknown),
    (TYPE_UNKNOWN, type_unknown),
    (TYPE_WITHOUT_GPU, type_without_gpu),
    (ZONE, zones),
    (KUBERNETES, kubernetes),
    (RESERVED, reserved),
    (EFA_IMAGE, efa_image),
    (EFA_SPREAD, efa_spread),
    (ARCHITECTURE, architecture),
)
