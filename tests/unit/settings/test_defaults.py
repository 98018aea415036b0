"""Defaults as literals: each has its reason beside it, and a change of one is a change for every stack."""

from typing import Any

import pytest

from tests.unit.settings.stackfile import settings

# Path below the settings, by their Python names -> the value where a stack file says nothing.
DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("tags", {}),
    ("namespace", "llm-serving"),
    ("images.mirror", None),
    ("images.pull_through_cache", None),
    ("images.serving", None),
    ("images.has_runai", False),
    ("network.nat_gateways", "perZone"),
    ("network.interface_endpoints", ("ec2", "ecr.api", "ecr.dkr", "sts", "ssm", "sqs", "eks", "eks-auth", "logs", "elasticloadbalancing")),
    ("cluster.create.kubernetes_version", "1.36"),
    ("cluster.create.endpoint_access.public", False),
    ("cluster.create.endpoint_access.cidrs", ()),
    ("cluster.create.administrators", ()),
    ("cluster.create.log_types", ("audit", "authenticator")),
    ("cluster.create.secrets_key_arn", None),
    ("cluster.create.deletion_protection", False),
    ("cluster.create.system_nodes.instance_type", "m6i.xlarge"),
    ("cluster.create.system_nodes.minimum", 2),
    ("cluster.create.system_nodes.maximum", 4),
    ("cpu_pool.instance_types", ("m6i.xlarge", "m6i.2xlarge", "m7i.xlarge", "m7i.2xlarge")),
    ("cpu_pool.limits.cpu", "64"),
    ("cpu_pool.limits.memory", "256Gi"),
    ("cpu_pool.data_volume.size", "200Gi"),
    ("cpu_pool.data_volume.iops", 3000),
    ("cpu_pool.data_volume.throughput", 250),
    ("cpu_pool.termination_grace_period", "15m"),
    ("gpu_pools.0.zones", ()),
    ("gpu_pools.0.ami_alias", "bottlerocket@v1.64.0"),
    ("gpu_pools.0.capacity", ("on-demand",)),
    ("gpu_pools.0.reservation_ids", ()),
    ("gpu_pools.0.efa", None),
    ("gpu_pools.0.placement_group", False),
    ("gpu_pools.0.local_nvme", True),
    ("gpu_pools.0.data_volume.size", "500Gi"),
    ("gpu_pools.0.data_volume.iops", 10000),
    ("gpu_pools.0.data_volume.throughput", 1000),
    ("gpu_pools.0.disruption.consolidate_after", "10m"),
    ("gpu_pools.0.disruption.expire_after", "720h"),
    ("gpu_pools.0.max_pods", 110),
    ("gpu_pools.0.weight", None),
    ("gpu_pools.0.termination_grace_period", "15m"),
    ("gpu_pools.0.reserve_cpu", 2),
    ("gpu_pools.0.reserve_memory", "10Gi"),
    ("storage.bucket", None),
    ("storage.existing", False),
    ("models.0.served_name", None),
    ("models.0.pipeline_parallel", 1),
    ("models.0.shm", "16Gi"),
    ("models.0.loader", "mountpoint"),
    ("models.0.serving", "direct"),
    ("models.0.routing", "powerOfTwo"),
    ("models.0.drain", None),
    ("models.0.objective", None),
    ("models.0.upgrade", "NewCluster"),
    ("models.0.max_surge_percent", 0),
    ("models.0.redis", None),
    ("models.0.ray_token", True),
    ("models.0.debug", False),
    ("models.0.head.cpu", "2"),
    ("models.0.head.memory", "8Gi"),
    ("models.0.ingress.replicas", 2),
    ("models.0.ingress.cpu", "2"),
    ("models.0.ingress.memory", "4Gi"),
    ("models.0.cpu_worker.cpu", "2"),
    ("models.0.cpu_worker.memory", "8Gi"),
    ("models.0.engine.dtype", "auto"),
    ("models.0.engine.quantization", "none"),
    ("models.0.engine.kv_cache_dtype", "auto"),
    ("models.0.engine.max_num_seqs", 64),
    ("models.0.engine.max_num_batched_tokens", 2048),
    ("models.0.engine.gpu_memory_utilization", 0.92),
    ("models.0.engine.prefix_caching", True),
    ("models.0.engine.chunked_prefill", True),
    ("models.0.engine.enforce_eager", False),
    ("models.0.engine.trust_remote_code", False),
    ("models.0.engine.arguments", {}),
    # Guide 1's figures where they make sense with Ray Serve.
    ("models.0.scaling.target_ongoing_requests", 40),
    ("models.0.scaling.max_ongoing_requests", 80),
    ("models.0.scaling.max_queued_requests", 200),
    ("models.0.scaling.waiting_per_replica", 5),
    ("models.0.scaling.kv_cache_target", 0.85),
    ("models.0.scaling.look_back", 30),
    ("models.0.scaling.upscale_delay", 0),
    ("models.0.scaling.downscale_delay", 600),
    ("models.0.timeouts.request", 600),
    ("models.0.timeouts.engine_ready", 1800),
    ("models.0.timeouts.engine_start", 3600),
    ("endpoint", None),
    ("headroom", None),
    ("budget", None),
    ("observability.enabled", True),
    ("observability.retention_days", 15),
    ("observability.storage", "100Gi"),
    ("observability.scrape_interval", 5),
    ("policy.environment", "prod"),
    ("policy.overrides", {}),
    ("policy.waivers", ()),
    ("deletion.protect", True),
    ("deletion.keep_weights", True),
)  # fmt: skip


def at(path: str) -> Any:
    """The value at a path of the small stack's settings."""
    value: Any = settings()
    for step in path.split("."):
        value = value[int(step)] if step.isdigit() else getattr(value, step)
    return value


@pytest.mark.parametrize(("path", "value"), DEFAULTS, ids=[path for path, _ in DEFAULTS])
def test_default(path: str, value: object) -> None:
    """What a stack gets where its file says nothing."""
    assert at(path) == value


def test_scaling_alone_is_one_to_eight_replicas() -> None:
    """A model without the block scales as guide 1 has it."""
    model = settings(("        scaling: {minReplicas: 1, maxReplicas: 2}\n", "")).models[0]

    assert (model.scaling.min_replicas, model.scaling.max_replicas) == (1, 8)


def test_a_node_may_be_disrupted_one_at_a_time() -> None:
    """The default budget has no window."""
    pool = settings(('        disruption:\n          budgets:\n            - nodes: "1"\n', "")).gpu_pools[0]

    assert [(b.nodes, b.reasons, b.schedule, b.duration) for b in pool.disruption.budgets] == [
        ("1", (), None, None)
    ]


def test_a_cluster_made_here_gets_every_operator() -> None:
    """On a cluster that is there, what is not said to be installed is present."""
    existing = (
        ('    accountId: "111122223333"\n    network:\n      cidr: 10.0.0.0/16\n      zones: [us-west-2a, us-west-2b]\n', ""),
        ('      create:\n        name: llm-test\n        kubernetesVersion: "1.36"\n', "      existing: {context: a, name: b}\n"),
    )  # fmt: skip

    assert set(dict(settings().operators).values()) == {"install"}
    assert set(dict(settings(*existing).operators).values()) == {"present"}


def test_names_derived_from_settings() -> None:
    """The name in the API, the host, the pool, and the GPUs of a replica follow from what is written."""
    platform = settings(
        ("    region: us-west-2\n", "    region: us-west-2\n    endpoint: {host: llm.example.com}\n")
    )
    model = platform.models[0]

    assert (model.api_name, platform.host_of(model), platform.pool_of(model)) == (
        "llama-8b",
        "llama-8b.llm.example.com",
        platform.gpu_pools[0],
    )
    assert (model.gpus, model.nodes, platform.cluster_name, platform.zones) == (
        1,
        1,
        "llm-test",
        ("us-west-2a", "us-west-2b"),
    )


def test_secrets_that_a_stack_needs_have_their_reason() -> None:
    """Gated weights, Ray's token, Redis and endpoint keys each need one."""
    commit = "a" * 40
    platform = settings(
        (
            "revision: v1",
            f"revision: v1\n          downloadFrom: {{repository: a/b, revision: {commit}, gated: true}}",
        ),
        ("        tensorParallel: 1\n", "        redis: {}\n"),
        (
            "    region: us-west-2\n",
            "    region: us-west-2\n    endpoint: {host: llm.example.com, keys: true}\n",
        ),
    )

    assert platform.needed_secrets == {
        "huggingFaceToken": "needed by llama-8b",
        "rayAuthToken": "needed by llama-8b",
        "redisPassword": "needed by llama-8b",
        "endpointKeys": "needed by endpoint.keys",
    }
