"""The facts of a neutral stack intent, as the real-world cases write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.quantities import seconds_or_none
from guardrails.core import Path
from guardrails.stack import ModelFacts, PoolFacts, StackFacts
from guardrails.taints import parse_taint
from guardrails.values import flag, get, mapping, mappings, number, text, texts, whole


def from_intent(intent: Mapping[str, Any]) -> StackFacts:
    """The facts of a neutral stack intent (`tests/realworld/README.md`), its keys in snake_case or camelCase."""
    tree = _snake(intent)
    cluster = mapping(tree.get("cluster"))
    version = next((tree[key] for key in _VERSION_KEYS if tree.get(key) is not None), None)
    version = get(cluster, "kubernetes_version") or cluster.get("version") or version
    if isinstance(version, dict):
        version = version.get("version")
    pools = tree.get("node_pools") or tree.get("gpu_pools") or tree.get("pools")
    return StackFacts(
        name=text(tree.get("stack")) or "",
        env=text(tree.get("env")) or "prod",
        region=text(tree.get("region")) or "",
        kubernetes=text(version),
        kubernetes_path=("cluster", "version"),
        pools=tuple(_intent_pool(pool, index) for index, pool in mappings(pools)),
        models=tuple(_intent_model(model, index) for index, model in mappings(tree.get("models"))),
        plain=mapping(intent),
        house=False,
    )


_VERSION_KEYS = ("kubernetes_version", "kubernetes", "cluster_version", "eks_version")


def _intent_pool(pool: dict[str, object], index: int) -> PoolFacts:
    limits, consolidation = mapping(pool.get("limits")), mapping(pool.get("consolidation"))
    said = "taint" in pool or "taints" in pool
    taint = pool.get("taints", pool.get("taint"))
    return PoolFacts(
        name=text(pool.get("name")) or str(index),
        path=("node_pools", index),
        instance_types=tuple(texts(pool.get("instance_types"))),
        capacity=tuple(texts(pool.get("capacity") or pool.get("capacity_types"))),
        zones=tuple(texts(pool.get("zones"))),
        taints=tuple(parse_taint(item) for item in texts(taint) if item) if said else None,
        has_limits=bool(limits),
        gpus=number(limits.get("gpu", limits.get("gpus", limits.get("nvidia.com/gpu")))),
        cpu=number(limits.get("cpu")),
        memory=number(limits.get("memory")),
        consolidation=text(consolidation.get("policy") or pool.get("consolidation_policy")),
        consolidate_after=seconds_or_none(consolidation.get("after") or pool.get("consolidate_after")),
        ami_alias=text(pool.get("ami_alias")),
        termination_grace=seconds_or_none(pool.get("termination_grace_period")),
        efa=whole(pool.get("efa")),
        disk=number(pool.get("disk") or pool.get("disk_size")),
    )


# Words of an intent for engine arguments.
_INTENT_ARGUMENTS = (
    "dtype", "quantization", "kv_cache_dtype", "max_model_len", "max_num_seqs", "gpu_memory_utilization",
    "trust_remote_code", "max_num_batched_tokens",
)  # fmt: skip
_INTENT_SHAPE = (
    "params_b",
    "layers",
    "kv_heads",
    "head_dim",
    "attention_heads",
    "bytes_per_param",
    "weights_gb",
)


def _intent_model(model: dict[str, object], index: int) -> ModelFacts:
    path: Path = ("models", index)
    replicas = model.get("replicas")
    counts = mapping(replicas) or {"min": replicas or 1, "max": replicas or 1}
    further = mapping(model.get("engine_args") or model.get("engine_kwargs"))
    arguments = {name: model[name] for name in _INTENT_ARGUMENTS if model.get(name) is not None}
    return ModelFacts(
        name=text(model.get("name")) or str(index),
        path=path,
        source=text(model.get("source") or model.get("model")) or "",
        shape={name: found for name in _INTENT_SHAPE if (found := number(model.get(name))) is not None},
        pool=text(model.get("pool")),
        tensor_parallel=whole(model.get("tensor_parallel", model.get("tensor_parallel_size"))) or 1,
        pipeline_parallel=whole(model.get("pipeline_parallel", model.get("pipeline_parallel_size"))) or 1,
        min_replicas=whole(counts.get("min")) or 0,
        max_replicas=whole(counts.get("max")) or whole(counts.get("min")) or 1,
        arguments={**arguments, **further},
        argument_paths={
            "tensor_parallel_size": (*path, "tensor_parallel"),
            "pipeline_parallel_size": (*path, "pipeline_parallel"),
            **{name: (*path, name) for name in arguments},
        },
        further=tuple(further),
        redis=flag(model.get("redis")),
        upgrade=text(model.get("upgrade") or model.get("upgrade_strategy")) or "",
    )


def _snake(value: object) -> Any:
    """Keys of a tree in snake_case; keys with a domain ("nvidia.com/gpu") stay."""
    if isinstance(value, dict):
        return {_snake_key(str(key)): _snake(item) for key, item in value.items()}
    return [_snake(item) for item in value] if isinstance(value, list) else value


def _snake_key(key: str) -> str:
    if "/" in key or "." in key:
        return key
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key).lstrip("_")
