"""Redis for Ray heads."""

from typing import Any

import pulumi
import pytest

from components.cluster import cluster_for
from components.redis import redis_for
from preview.monitor import Registration
from tests.components.infra import EXISTING, STACK, Graph, inside, model, once, registered, settings

AUTH = "not-a-real-password"


@once
def redis(stack: Any = STACK, *, up: bool = False, **changes: Any) -> Graph:
    """What Redis registers, with some of the stack's settings changed; as an update when ``up``."""
    wanted = settings(stack, **{"models": [model(redis={})], **changes})

    def program() -> None:
        cluster = cluster_for(wanted)
        made = redis_for(wanted, cluster, pulumi.Output.secret(AUTH), inside(cluster))
        pulumi.export("address", made.address if made else None)

    def computed(registration: Registration) -> tuple[str, dict[str, Any]]:
        outputs = (
            {"primaryEndpointAddress": "state.cache.example.com"}
            if registration.name == "redis-state"
            else {}
        )
        return f"{registration.name}-id", outputs

    return registered(program, computed if up else None)


def test_redis_is_encrypted_and_has_a_password() -> None:
    """Encrypted on disk and on the wire; the password is a secret."""
    inputs = redis().inputs("redis-state")

    assert (inputs["transitEncryptionEnabled"], inputs["atRestEncryptionEnabled"]) == (True, True)
    assert inputs["authToken"] == {"$secret": True}
    assert (inputs["engine"], inputs["engineVersion"], inputs["nodeType"]) == (
        "redis",
        "7.1",
        "cache.t4g.small",
    )


def test_redis_survives_a_zone() -> None:
    """A replica in another zone takes over by itself."""
    inputs = redis().inputs("redis-state")

    assert (inputs["numCacheClusters"], inputs["automaticFailoverEnabled"], inputs["multiAzEnabled"]) == (
        2,
        True,
        True,
    )


def test_only_nodes_reach_redis() -> None:
    """One port, for the nodes' security group only."""
    graph = redis()
    (rule,) = graph.names("IngressRule", child_of="redis")

    assert (graph.inputs(rule)["fromPort"], graph.inputs(rule)["toPort"]) == (6379, 6379)
    assert graph.dependencies(rule) == {"redis-access", "network-nodes"}
    assert graph.names("EgressRule", child_of="redis") == []


def test_address_is_for_tls() -> None:
    """The address of the primary tells Ray to use TLS."""
    assert redis(up=True).outputs == {"address": "rediss://state.cache.example.com:6379"}


def test_largest_node_type_wins() -> None:
    """One Redis serves all models, of the largest node type that one of them names."""
    types = ["cache.t4g.medium", "cache.r7g.large", "cache.t4g.small"]
    models = [model(name=f"m{index}", redis={"nodeType": node_type}) for index, node_type in enumerate(types)]
    graph = redis(models=models)

    assert graph.names(":ReplicationGroup") == ["redis-state"]
    assert graph.inputs("redis-state")["nodeType"] == "cache.r7g.large"


def test_address_of_a_model_is_enough() -> None:
    """Where every model names an address, or wants no Redis, none is made."""
    named = [model(redis={"address": "rediss://state.example.com:6379"}), model(name="other")]

    assert "redis" not in redis(models=named)


def test_existing_cluster_has_no_place_for_redis() -> None:
    """On a cluster that was there an address must be named, which is said."""
    with pytest.raises(pulumi.RunError) as refused:
        redis(EXISTING)

    assert str(refused.value) == (
        "models small: redis without an address is made by the stack, which needs cluster.create and the secret "
        "llm-platform:redisPassword; name an address instead"
    )
