"""A small stack on a made cluster, and a look at what a component registers."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec

import pulumi

from components.cluster import ClusterHandle
from components.settings import PlatformSettings
from preview.monitor import Computed, Registration, run

P = ParamSpec("P")
ACCOUNT = "111122223333"
REGION = "us-west-2"
MODEL = {
    "name": "small",
    "source": {
        "kind": "s3",
        "prefix": "qwen2.5-7b-instruct",
        "revision": "a09a35458c702b33eeacc393d103063234e8bc28",
    },
    "architecture": "qwen2.5-7b",
    "pool": "g5",
    "engine": {"maxModelLen": 4096},
}
STACK: dict[str, Any] = {
    "region": REGION,
    "accountId": ACCOUNT,
    "tags": {"team": "ml"},
    "network": {
        "cidr": "10.40.0.0/16",
        "zones": ["us-west-2a", "us-west-2b"],
        "interfaceEndpoints": ["ec2", "ecr.api"],
    },
    "cluster": {"create": {"name": "demo"}},
    "gpuPools": [{"name": "g5", "instanceTypes": ["g5.2xlarge"], "limits": {"gpus": 4}}],
    "storage": {"bucket": "demo-weights"},
    "models": [MODEL],
}
EXISTING: dict[str, Any] = {
    **{key: value for key, value in STACK.items() if key != "network"},
    "cluster": {"existing": {"context": "there", "name": "theirs"}},
}


def settings(stack: Mapping[str, Any] = STACK, **changes: Any) -> PlatformSettings:
    """The settings of a stack with some keys changed; a key changed to None is taken out."""
    values = {key: value for key, value in {**stack, **changes}.items() if value is not None}
    return PlatformSettings.model_validate_json(json.dumps(values))


def existing(**operators: str) -> dict[str, Any]:
    """Cluster settings of one that was there, with these operators."""
    return {"existing": {"context": "there", "name": "theirs", "operators": operators}}


def model(**changes: Any) -> dict[str, Any]:
    """The stack's model with some keys changed."""
    return {**MODEL, **changes}


class Graph:
    """What a program registered, by name."""

    def __init__(self, registrations: list[Registration], outputs: Mapping[str, Any]) -> None:
        self.all = registrations
        self.outputs = outputs
        self._by_name = {registration.name: registration for registration in registrations}
        self._by_urn = {registration.urn: registration for registration in registrations}

    def __getitem__(self, name: str) -> Registration:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def inputs(self, name: str) -> dict[str, Any]:
        """Inputs of a resource."""
        return self._by_name[name].inputs

    def document(self, name: str, key: str = "policy") -> dict[str, Any]:
        """A policy document of a resource; fails when it is unknown."""
        text = self.inputs(name)[key]
        assert isinstance(text, str), f"{name}.{key} is {text}"
        return json.loads(text)

    def names(self, type_suffix: str = "", child_of: str | None = None) -> list[str]:
        """Names of the resources of a type, sorted."""
        return sorted(
            registration.name
            for registration in self.all
            if registration.type.endswith(type_suffix) and child_of in (None, self.parent(registration.name))
        )

    def parent(self, name: str) -> str | None:
        """Name of a resource's parent."""
        parent = self._by_name[name].parent
        return self._by_urn[parent].name if parent else None

    def dependencies(self, name: str) -> set[str]:
        """Names of what a resource names as its dependencies."""
        return {self._by_urn[urn].name for urn in self._by_name[name].dependencies}

    def outlived_by(self, name: str) -> set[str]:
        """Names of everything that a destroy keeps until this resource is gone, as the engine orders it."""
        found: set[str] = set()
        waiting = [self._by_name[name].urn]
        while waiting:
            registration = self._by_urn[waiting.pop()]
            for urn in (*registration.dependencies, registration.parent, registration.provider):
                if urn in self._by_urn and self._by_urn[urn].name not in found:
                    found.add(self._by_urn[urn].name)
                    waiting.append(urn)
        return found


def registered(program: Callable[[], object], computed: Computed | None = None) -> Graph:
    """Run a program as a preview does (or as an update, with computed values) and look at what it registers."""
    monitor = run(lambda: program() and None, "test", {}, computed=computed)
    return Graph(monitor.registrations, monitor.outputs)


def once(function: Callable[P, Graph]) -> Callable[P, Graph]:
    """Run for each set of arguments once: tests only look."""
    kept: dict[str, Graph] = {}

    @wraps(function)
    def get(*args: P.args, **kwargs: P.kwargs) -> Graph:
        key = repr((args, kwargs))
        if key not in kept:
            kept[key] = function(*args, **kwargs)
        return kept[key]

    return get


def inside(cluster: ClusterHandle) -> pulumi.ResourceOptions:
    """Options that hand a cluster's providers to a component."""
    return pulumi.ResourceOptions(
        providers=[provider for provider in (cluster.aws, cluster.kubernetes) if provider]
    )


def unknown(value: Any) -> bool:
    """Whether only an update can tell a value."""
    return value == {"$unknown": True}


def statements(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Statements of a policy document."""
    yield from document["Statement"]
