"""The real program run for each stack file, as an engine would in a preview."""

import socket

import pytest

from guardrails.core import Severity
from preview.build import build
from preview.monitor import Registration
from tests.conftest import ROOT, STACKS

RELEASE = "kubernetes:helm.sh/v3:Release"
KARPENTER = f"{RELEASE} karpenter-chart"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
RAY_SERVICE = "kubernetes:ray.io/v1:RayService"
# Whoever is on the left is destroyed before whoever is on the right: a type, and the start of a name where it matters.
DESTROYED_BEFORE = [
    (RAY_SERVICE, "kubernetes:karpenter.sh/v1:NodePool"),
    (RAY_SERVICE, f"{RELEASE} ray-operator"),
    (RAY_SERVICE, "kubernetes:core/v1:PersistentVolumeClaim"),
    (RAY_SERVICE, "kubernetes:core/v1:Secret"),
    (NODE_CLASS, KARPENTER),
    (KARPENTER, f"{RELEASE} karpenter-crds"),
    (KARPENTER, "aws:sqs/queue:Queue"),
    (KARPENTER, "aws:iam/rolePolicyAttachment:RolePolicyAttachment karpenter-controller"),
    (KARPENTER, "aws:eks/podIdentityAssociation:PodIdentityAssociation karpenter"),
    (KARPENTER, "aws:eks/accessEntry:AccessEntry karpenter"),
    (KARPENTER, "eks:index:Cluster"),
    ("kubernetes:networking.k8s.io/v1:Ingress", f"{RELEASE} gateway"),
    (f"{RELEASE} gateway", "aws:eks/nodeGroup:NodeGroup"),
    ("kubernetes:keda.sh/v1alpha1:ScaledObject", f"{RELEASE} headroom-keda"),
    ("eks:index:Cluster", "aws:ec2/subnet:Subnet"),
    ("eks:index:Cluster", "aws:ec2/vpc:Vpc"),
]


@pytest.mark.parametrize("stack", STACKS)
def test_breaks_no_mandatory_rule(stack: str, preview_of) -> None:
    """A stack of ours passes every mandatory rule of its environment."""
    assert [finding for finding in preview_of(stack).findings if finding.severity is Severity.ERROR] == []


@pytest.mark.parametrize("stack", STACKS)
def test_registers_each_urn_once(stack: str, preview_of) -> None:
    """No two resources share a URN, which the engine would refuse."""
    urns = [r.urn for r in preview_of(stack).registrations]

    assert len(urns) == len(set(urns))
    assert urns != []


@pytest.mark.parametrize("stack", STACKS)
def test_children_do_not_hang_below_custom_resources(stack: str, preview_of) -> None:
    """Every parent is a component: `depends_on=[component]` waits only for a component's own children."""
    kinds = {r.urn: r.type for r in preview_of(stack).registrations}
    odd = [
        r.name
        for r in preview_of(stack).registrations
        if r.parent and not kinds[r.parent].startswith("llm:platform:")
    ]

    assert odd == []


@pytest.mark.parametrize("stack", STACKS)
def test_what_policies_read_is_known(stack: str, preview_of) -> None:
    """Images, taints, shared memory and versions are plain values at preview; otherwise a rule turns into advice."""
    read = (
        "image",
        "taints",
        "startupTaints",
        "sizeLimit",
        "rayVersion",
        "version",
        "tolerations",
        "releaseVersion",
    )
    hidden = [
        f"{r.name}: {path}"
        for r, path in preview_of(stack).unknown
        if path != "launchTemplate.version"  # EC2's own counter of a template, not a version of anything
        and any(f".{step.split('[')[0]}." in f".{path.replace('[', '.[')}." for step in read)
    ]

    assert hidden == []


@pytest.mark.parametrize("stack", STACKS)
def test_touches_no_network(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A preview opens no connection at all."""

    def refuse(*_: object) -> None:
        raise AssertionError("a preview must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)

    assert build(stack, ROOT).registrations != ()


def _reachable(registrations: tuple[Registration, ...]) -> dict[str, set[str]]:
    """URN -> everything that is created before it: dependencies, parents, and theirs."""
    edges = {r.urn: {*r.dependencies, *([r.parent] if r.parent else []), *([r.provider] if r.provider else [])}
             for r in registrations}  # fmt: skip
    reach: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        stack = [start]
        while stack:
            for step in edges.get(stack.pop(), set()) - seen:
                seen.add(step)
                stack.append(step)
        reach[start] = seen
    return reach


def _matching(registrations: tuple[Registration, ...], pattern: str) -> list[Registration]:
    kind, _, name = pattern.partition(" ")
    return [r for r in registrations if r.type == kind and r.name.startswith(name)]


@pytest.mark.parametrize(("first", "then"), DESTROYED_BEFORE, ids=lambda value: value.rpartition(":")[2])
@pytest.mark.parametrize("stack", ["prod", "dev", "multinode"])
def test_destroy_order_follows_from_dependencies(first: str, then: str, stack: str, preview_of) -> None:
    """What must go first depends, directly or not, on what must go after it."""
    registrations = preview_of(stack).registrations
    reach = _reachable(registrations)
    users, used = _matching(registrations, first), _matching(registrations, then)
    late = [
        (user.name, target.name) for user in users for target in used if target.urn not in reach[user.urn]
    ]

    assert late == []
    assert (used != []) or (users == []), f"nothing matches {then}"


def test_a_pool_goes_before_its_node_class(preview_of) -> None:
    """Each NodePool depends on the EC2NodeClass of its own name."""
    registrations = preview_of("prod").registrations
    reach = _reachable(registrations)
    classes = {r.name.removeprefix("pools-node-class-"): r.urn for r in _matching(registrations, NODE_CLASS)}
    pools = _matching(registrations, "kubernetes:karpenter.sh/v1:NodePool")

    assert len(classes) == len(pools) == 4
    assert [
        p.name for p in pools if classes[p.name.removeprefix("pools-node-pool-")] not in reach[p.urn]
    ] == []


def test_order_rows_are_all_used(preview_of) -> None:
    """Each row of the table above speaks of resources that some stack has."""
    everything = tuple(r for stack in STACKS for r in preview_of(stack).registrations)

    assert [
        row
        for row in DESTROYED_BEFORE
        if not (_matching(everything, row[0]) and _matching(everything, row[1]))
    ] == []


@pytest.mark.parametrize("component", [
    "Network", "Cluster", "Karpenter", "GpuPools", "ModelStorage", "Addons", "RayOperator", "Gateway", "Observability",
    "Headroom", "VllmRayService", "Platform",
])  # fmt: skip
def test_every_component_makes_something_somewhere(component: str, preview_of) -> None:
    """Each component of the library has children in at least one stack."""
    made = [
        r.name
        for stack in STACKS
        for r in preview_of(stack).registrations
        if r.parent and r.parent.split("::")[2].split("$")[-1] == f"llm:platform:{component}"
    ]

    assert made != []
