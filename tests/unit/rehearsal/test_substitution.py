"""The tiny model takes the place of a stack's own, and nothing else of a RayService changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from preview.build import Preview
from rehearsal.kubelet import images
from rehearsal.substitution import (
    Substitution,
    _transformed,
    not_awaited,
    simulated,
    substituted,
    without_reservations,
)

WEIGHTS = Path("/somewhere/tiny")
LLM = ("applications", 0, "args", "llm_configs", 0)


@pytest.fixture
def service(preview_of: Callable[[str], Preview]) -> Callable[[str, str], dict[str, Any]]:
    """A model's RayService as a stack has it."""

    def get(stack: str, name: str) -> dict[str, Any]:
        objects = preview_of(stack).objects
        found = next(o for o in objects if o["kind"] == "RayService" and o["metadata"]["name"] == name)
        return copy.deepcopy(dict(found))

    return get


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf of nested values with its path; the Serve document is opened."""
    if path[-1:] == ("serveConfigV2",):
        value = yaml.safe_load(value)
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def changed(before: Any, after: Any) -> set[tuple[Any, ...]]:
    """The paths at which two objects differ."""
    old, new = dict(leaves(before)), dict(leaves(after))
    return {path for path in old.keys() | new.keys() if old.get(path) != new.get(path)}


def test_only_the_named_fields_of_a_gpu_model_change(service: Callable[[str, str], dict[str, Any]]) -> None:
    """Path, loader, quantization, TP, context, KV cache, accelerator and bundle differ, and the Redis; nothing else."""
    before = service("prod", "llama-70b-awq")
    after, said = substituted(before, WEIGHTS)

    config = {path[7:] for path in changed(before, after) if path[2:7] == LLM}
    assert config == {
        ("model_loading_config", "model_source"),
        ("accelerator_config", "kind"),
        ("accelerator_type",),
        ("placement_group_config", "bundle_per_worker", "CPU"),
        ("placement_group_config", "bundle_per_worker", "GPU"),
        ("engine_kwargs", "tensor_parallel_size"),
        ("engine_kwargs", "kv_cache_memory_bytes"),
        ("engine_kwargs", "enforce_eager"),
        ("engine_kwargs", "max_model_len"),
        ("engine_kwargs", "quantization"),
        ("engine_kwargs", "gpu_memory_utilization"),
        ("engine_kwargs", "safetensors_load_strategy"),
    }
    others = {path[:3] for path in changed(before, after) if path[2:7] != LLM}
    assert others == {("spec", "rayClusterConfig", "gcsFaultToleranceOptions")}
    document = yaml.safe_load(after["spec"]["serveConfigV2"])
    bundle = document["applications"][0]["args"]["llm_configs"][0]["placement_group_config"]
    assert bundle["bundle_per_worker"] == {"CPU": 1, "GPU": 4}
    assert "tensor_parallel_size is 1, not 4" in said
    assert any(sentence.startswith("the head keeps its state itself") for sentence in said)


def test_a_cpu_model_gets_other_weights_only(service: Callable[[str, str], dict[str, Any]]) -> None:
    """The local stack's model is served as it is, from where the tiny model lies."""
    before = service("local", "tiny")
    after, said = substituted(before, WEIGHTS)

    assert changed(before, after) == {("spec", "serveConfigV2", *LLM, "model_loading_config", "model_source")}
    assert said == ["the weights are those of tiny, not /opt/models/tiny"]


def test_the_wait_for_the_stacks_weights_is_left_out(service: Callable[[str, str], dict[str, Any]]) -> None:
    """No pod waits for weights that nobody brings, and the words say so."""
    before = service("prod", "llama-70b")
    after, said = substituted(before, WEIGHTS)
    pods = [group["template"]["spec"] for group in after["spec"]["rayClusterConfig"]["workerGroupSpecs"]]

    assert any(
        "initContainers" in g["template"]["spec"]
        for g in before["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    )
    assert all("initContainers" not in spec for spec in pods)
    assert "no pod waits for the stack's own weights on its node's disk" in said


def test_one_factor_keeps_the_order_of_the_graces(service: Callable[[str, str], dict[str, Any]]) -> None:
    """Serve's shutdown, Ray's drain and the pod's grace shrink together, and stay in their order."""
    after, said = substituted(service("prod", "llama-8b"), WEIGHTS, 0.2)
    spec = after["spec"]["rayClusterConfig"]["workerGroupSpecs"][1]["template"]["spec"]
    drain = {v["name"]: v.get("value") for v in spec["containers"][0]["env"]}[
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"
    ]
    config = yaml.safe_load(after["spec"]["serveConfigV2"])["applications"][0]["args"]["llm_configs"][0]

    assert config["deployment_config"]["graceful_shutdown_timeout_s"] == 16
    assert (drain, spec["terminationGracePeriodSeconds"]) == ("19", 22)
    assert after["spec"]["rayClusterDeletionDelaySeconds"] == 120
    # A pod must still be there when its replica starts again in place, and that is no faster here.
    assert after["spec"]["rayClusterConfig"]["autoscalerOptions"]["idleTimeoutSeconds"] == 300
    assert config["deployment_config"]["health_check_period_s"] == 10
    assert sum("0.2" in sentence for sentence in said) == 2


def test_simulated_models_are_not_awaited(service: Callable[[str, str], dict[str, Any]]) -> None:
    """A model without process pods is marked for simulation in every pod, and the engine does not wait."""
    before = service("prod", "llama-70b")
    after = simulated(before)
    cluster = after["spec"]["rayClusterConfig"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]

    assert after["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert {g["template"]["metadata"]["annotations"]["llm-platform.dev/simulated"] for g in groups} == {
        "true"
    }
    assert after["spec"]["serveConfigV2"] == before["spec"]["serveConfigV2"]


@pytest.mark.parametrize(
    ("name", "says"),
    [("llama-8b", "pulumi.com/waitFor"), ("llama-70b", "pulumi.com/skipAwait")],
)
def test_the_transform_takes_the_live_models_only(
    service: Callable[[str, str], dict[str, Any]], name: str, says: str
) -> None:
    """Of a stack's models those named are served by the tiny one; the others keep their document."""
    args = pulumi.ResourceTransformArgs(
        custom=True,
        type_="kubernetes:ray.io/v1:RayService",
        name=name,
        props=service("prod", name),
        opts=pulumi.ResourceOptions(),
    )
    result = _transformed(args, Substitution(("llama-8b",), str(WEIGHTS)))

    assert result is not None
    props: dict[str, Any] = dict(result.props)
    assert says in props["metadata"]["annotations"]
    assert (str(WEIGHTS) in props["spec"]["serveConfigV2"]) is (name == "llama-8b")


def test_an_ingress_of_a_simulated_model_is_not_awaited() -> None:
    """Its Service would come with the first answer only."""
    manifest = {"metadata": {"name": "a", "annotations": {"x": "1", "pulumi.com/timeoutSeconds": "9"}}}

    assert not_awaited(manifest)["metadata"]["annotations"] == {"x": "1", "pulumi.com/skipAwait": "true"}
    assert manifest["metadata"]["annotations"] == {"x": "1", "pulumi.com/timeoutSeconds": "9"}


def test_reservations_are_left_out_of_node_classes() -> None:
    """Moto has no capacity reservations, so a node class that names some would never be ready."""
    manifest = {
        "metadata": {"name": "p4d"},
        "spec": {"role": "r", "capacityReservationSelectorTerms": [{"id": "cr-1"}]},
    }

    assert without_reservations(manifest) == {"metadata": {"name": "p4d"}, "spec": {"role": "r"}}
    assert without_reservations({"spec": {"role": "r"}}) is None


def test_no_variable_of_the_image_wins_over_the_size_of_the_cache() -> None:
    """The CPU platform of vLLM takes its variable first: 1 GiB for each engine instead of 64 MiB."""
    assert "VLLM_CPU_KVCACHE_SPACE" not in images.RAY.variables
