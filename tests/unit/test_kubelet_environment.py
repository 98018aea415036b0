"""Variables, commands and the downward API of process pods follow the rules of Kubernetes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from rehearsal.kubelet import environment
from rehearsal.kubelet.environment import NotStartableError

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "ns",
        "uid": "u",
        "labels": {"app": "x", "b": "y"},
        "annotations": {"a/b": "c"},
    },
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "one", "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}}}],
    },
    "status": {"podIP": "10.244.1.2", "hostIP": "10.0.0.1"},
}
OBJECTS = {
    ("ConfigMap", "ns", "settings"): {"data": {"level": "info", "odd": "1"}},
    ("Secret", "ns", "password"): {"data": {"key": base64.b64encode(b"s3cret").decode()}},
}


def find(kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    """The objects of this test."""
    return OBJECTS.get((kind, namespace, name))


def variables(*rows: dict[str, Any], **more: Any) -> dict[str, str]:
    """The variables of a container with these rows."""
    container = {
        "name": "one",
        "env": list(rows),
        "resources": POD["spec"]["containers"][0]["resources"],
        **more,
    }
    return environment.variables(container, POD, find, base={"HOME": "/home/ray"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)/$(A)", "1/1"),
        ("$$(A)", "$(A)"),
        ("$(UNKNOWN) $A ${A}", "$(UNKNOWN) $A ${A}"),
        ("$$$(A)", "$1"),
        ("plain", "plain"),
    ],
)
def test_references_in_texts(text: str, expected: str) -> None:
    """`$(NAME)` is a value, `$$` a dollar, and what is neither stays for the shell."""
    assert environment.expand(text, {"A": "1"}) == expected


def test_a_variable_may_use_those_before_it() -> None:
    """A later value refers to an earlier variable and to those of the environment, not the other way round."""
    assert variables({"name": "B", "value": "$(C)"}, {"name": "C", "value": "$(HOME)/c"}) == {
        "HOME": "/home/ray",
        "B": "$(C)",
        "C": "/home/ray/c",
    }


def test_values_from_objects_and_fields() -> None:
    """Secrets, ConfigMaps, fields and resources give values; a referred text is never expanded."""
    rows = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "password", "key": "key"}}},
        {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "MI", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "GONE", "valueFrom": {"secretKeyRef": {"name": "nope", "key": "k", "optional": True}}},
    ]

    assert variables(*rows) == {
        "HOME": "/home/ray",
        "PASSWORD": "s3cret",
        "LEVEL": "info",
        "IP": "10.244.1.2",
        "APP": "x",
        "CPU": "2",
        "MI": "2048",
    }


def test_all_keys_of_an_object() -> None:
    """`envFrom` takes every key, with its prefix, and a container's own variable wins."""
    seen = variables(
        {"name": "S_odd", "value": "own"}, envFrom=[{"prefix": "S_", "configMapRef": {"name": "settings"}}]
    )

    assert seen == {"HOME": "/home/ray", "S_level": "info", "S_odd": "own"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"secretKeyRef": {"name": "nope", "key": "k"}}, 'secret "nope" not found'),
        (
            {"configMapKeyRef": {"name": "settings", "key": "k"}},
            "couldn't find key k in ConfigMap ns/settings",
        ),
        ({"fieldRef": {"fieldPath": "status.phase"}}, "no field status.phase"),
    ],
)
def test_what_is_not_there_keeps_a_container_waiting(source: dict[str, Any], words: str) -> None:
    """A missing object or key is a reason to wait, named as kubectl would show it."""
    with pytest.raises(NotStartableError, match=words) as caught:
        variables({"name": "X", "valueFrom": source})

    assert caught.value.reason == "CreateContainerConfigError"


def test_a_missing_limit_is_the_nodes() -> None:
    """Without a limit the node's allocatable amount counts; without a request it is zero."""
    node = {"status": {"allocatable": {"cpu": "7", "memory": "4Gi"}}}

    assert environment.resource_value({"name": "c"}, "limits.cpu", None, node) == "7"
    assert environment.resource_value({"name": "c"}, "limits.memory", "1Gi", node) == "4"
    assert environment.resource_value({"name": "c"}, "requests.cpu", None, node) == "0"


def test_all_labels_as_a_file() -> None:
    """The downward API writes all labels with quoted values, one a line."""
    assert environment.field_value(POD, "metadata.labels") == 'app="x"\nb="y"'


def test_a_command_is_needed() -> None:
    """An image's own entry point is not known here, and the message says so."""
    assert environment.command({"name": "c", "command": ["sh"], "args": ["$(A)"]}, {"A": "x"}) == ["sh", "x"]
    with pytest.raises(NotStartableError, match="names no command"):
        environment.command({"name": "c"}, {})
