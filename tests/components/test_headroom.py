"""GPU nodes kept warm."""

from typing import Any

from components.headroom import Headroom, HeadroomArgs
from tests.components.infra import STACK, Graph, once, registered, settings

WARM = {"model": "small", "waitingRequests": 10}


@once
def headroom(*, install: bool = True, **changes: Any) -> Graph:
    """What is registered, with some of the stack's settings changed."""
    args = HeadroomArgs(settings=settings(STACK, **changes), install=install)

    return registered(lambda: Headroom("headroom", args))


def test_makes_keda_and_what_it_scales() -> None:
    """One chart, one Deployment with its policy, one ScaledObject."""
    graph = headroom(headroom=WARM)

    assert graph.names() == [
        "headroom",
        "headroom-deployment",
        "headroom-keda",
        "headroom-networkpolicy",
        "headroom-scaledobject",
    ]
    assert graph.inputs("headroom-keda")["version"] == "2.20.2"


def test_keda_outlives_its_objects() -> None:
    """It must be there to take its finalizer away."""
    graph = headroom(headroom=WARM)

    assert {"headroom-keda", "headroom-deployment"} <= graph.dependencies("headroom-scaledobject")


def test_the_number_of_pods_is_kedas() -> None:
    """An update does not set it back to 0."""
    assert list(headroom(headroom=WARM)["headroom-deployment"].request.ignoreChanges) == ["spec.replicas"]
    assert list(headroom(headroom=WARM)["headroom-scaledobject"].request.ignoreChanges) == []


def test_uses_a_keda_that_is_there() -> None:
    """Only what is the stack's own is made."""
    assert headroom(install=False, headroom=WARM).names() == [
        "headroom",
        "headroom-deployment",
        "headroom-networkpolicy",
        "headroom-scaledobject",
    ]


def test_nothing_by_default() -> None:
    """Neither pods nor KEDA."""
    assert headroom().names() == ["headroom"]
