"""The Serve document, against literals. Ray's own classes judge it in tests/serving."""

from typing import Any

import pytest

from components.manifests.serve import accelerator_type, serve_document
from components.settings.models import (
    Application,
    EngineSettings,
    Ingress,
    Loader,
    Lora,
    Model,
    PathSource,
    Routing,
    Scaling,
    ServingMode,
)
from components.settings.platform import PlatformSettings
from components.settings.pools import Capacity, Efa, GpuPool
from tests.unit.manifests.serving_samples import cpu_model, endpoint, hub_model, model, platform, pool


def _document(
    served: Model, stack: PlatformSettings | None = None, gpus: GpuPool | None = None
) -> dict[str, Any]:
    stack = stack or platform(served)
    return serve_document(served, gpus or stack.pool_of(served), stack, bucket="weights")


def _args(
    served: Model, stack: PlatformSettings | None = None, gpus: GpuPool | None = None
) -> dict[str, Any]:
    arguments: dict[str, Any] = _document(served, stack, gpus)["applications"][0]["args"]
    return arguments


def _llm(served: Model, gpus: GpuPool | None = None) -> dict[str, Any]:
    config: dict[str, Any] = _args(served, None, gpus)["llm_configs"][0]
    return config


def test_top_level() -> None:
    """A proxy on every node, and an idle connection that outlasts the load balancer's 300 s."""
    document = _document(model(), platform(endpoint=endpoint()))

    assert document["proxy_location"] == "EveryNode"
    assert document["http_options"] == {
        "host": "0.0.0.0",  # noqa: S104 - the document's value
        "port": 8000,
        "request_timeout_s": 600,
        "keep_alive_timeout_s": 610,
    }


def test_access_log_is_off() -> None:
    """A line for each request costs throughput, and the load balancer has it anyway."""
    logging = _document(model())["logging_config"]

    assert logging == {"encoding": "JSON", "log_level": "INFO", "enable_access_log": False}


def test_the_application() -> None:
    """Ray's own builder at the root, under the model's name."""
    application = _document(model())["applications"][0]

    assert (application["name"], application["route_prefix"]) == ("chat", "/")
    assert application["import_path"] == "ray.serve.llm:build_openai_app"


def test_served_name_is_the_models_id() -> None:
    """Callers and metrics see the name in the API, the deployment's policy asks for the same."""
    config = _llm(model(served_name="team/chat"))

    assert config["model_loading_config"]["model_id"] == "team/chat"
    assert (
        config["deployment_config"]["autoscaling_config"]["policy"]["policy_kwargs"]["model"] == "team/chat"
    )


@pytest.mark.parametrize(
    ("loader", "source"),
    [
        (Loader.MOUNTPOINT, "/models/r1"),
        (Loader.NVME_CACHE, "/nvme/r1"),
        (Loader.STREAMER, "s3://weights/models/chat/r1"),
    ],
)
def test_weights_by_loader(loader: Loader, source: str) -> None:
    """The document names the revision, so that a new one is a change of the document alone."""
    assert _llm(model(loader=loader))["model_loading_config"]["model_source"] == source


def test_weights_in_the_image() -> None:
    """A path is taken as it is."""
    source = PathSource(kind="path", path="/opt/m")

    assert _llm(model(source=source, loader=Loader.LOCAL))["model_loading_config"]["model_source"] == "/opt/m"


def test_weights_from_the_hub() -> None:
    """A development stack may let the engine read the hub."""
    assert _llm(hub_model())["model_loading_config"]["model_source"] == "Qwen/Qwen2.5-0.5B"


def test_streaming_without_a_bucket_is_refused() -> None:
    """There is no address to stream from."""
    served = model(loader=Loader.STREAMER)

    with pytest.raises(ValueError, match=r"^chat: streaming needs the name of the bucket$"):
        serve_document(served, pool(), platform(served))


def test_gpus_of_one_node_stay_on_it() -> None:
    """Ray's default would split four GPUs over two nodes without a word."""
    config = _llm(model())

    assert config["placement_group_config"] == {"bundle_per_worker": {"GPU": 1}, "strategy": "STRICT_PACK"}
    assert config["accelerator_config"] == {"kind": "gpu"}
    assert config["accelerator_type"] == "A10G"


def test_a_pipeline_may_span_nodes() -> None:
    """One bundle for each GPU, packed, and not held on one node."""
    assert _llm(model(pipeline_parallel=2))["placement_group_config"]["strategy"] == "PACK"


def test_cpu_workers() -> None:
    """The replica takes one CPU, the engine the rest of its pod, on pods that are workers."""
    config = _llm(cpu_model())

    assert config["accelerator_config"] == {"kind": "cpu"}
    assert "accelerator_type" not in config
    assert config["placement_group_config"]["bundle_per_worker"] == {"CPU": 1, "llm_worker": 0.001}


def test_scaling() -> None:
    """Each limit is said; Ray's defaults never scale and never refuse."""
    scaling = Scaling(
        min_replicas=2,
        max_replicas=6,
        target_ongoing_requests=24,
        max_ongoing_requests=40,
        max_queued_requests=100,
    )
    options = _llm(model(scaling=scaling))["deployment_config"]

    assert options["autoscaling_config"] == {
        "min_replicas": 2,
        "max_replicas": 6,
        "target_ongoing_requests": 24,
        "look_back_period_s": 30,
        "upscale_delay_s": 0,
        "downscale_delay_s": 600,
        "policy": {
            "policy_function": "scaling_policy:VllmQueuePolicy",
            "policy_kwargs": {"model": "chat", "waiting_per_replica": 5, "kv_cache_target": 0.85},
        },
    }
    assert (options["max_ongoing_requests"], options["max_queued_requests"]) == (40, 100)


def test_a_leaving_replica_finishes() -> None:
    """By the capacity of the pool; Ray's default is 20 s."""
    spot = pool(capacity=(Capacity.SPOT,))

    assert _llm(model())["deployment_config"]["graceful_shutdown_timeout_s"] == 540
    assert _llm(model(), spot)["deployment_config"]["graceful_shutdown_timeout_s"] == 80


def test_health_checks_are_patient() -> None:
    """An engine that compiles answers late."""
    options = _llm(model())["deployment_config"]

    assert (options["health_check_period_s"], options["health_check_timeout_s"]) == (10, 30)


def test_overload_says_when_to_come_back() -> None:
    """503 with retry-after."""
    options = _llm(model())["deployment_config"]

    assert options["backpressure_config"] == {"status_code": 503, "retry_after_s": 5}


def test_surge_is_the_models() -> None:
    """0 needs no spare GPU: the old replica stops first."""
    assert _llm(model())["deployment_config"]["max_surge_percent"] == 0
    assert _llm(model(max_surge_percent=50))["deployment_config"]["max_surge_percent"] == 50


def test_the_older_ray_gets_no_surge() -> None:
    """The image with EFA has Ray 2.58, which would pass over it without a word."""
    options = _llm(model(pipeline_parallel=2), pool(efa=Efa(interfaces=1)))["deployment_config"]

    assert "max_surge_percent" not in options
    assert options["backpressure_config"] == {"status_code": 503, "retry_after_s": 5}


def test_prefix_affinity_has_a_finite_threshold() -> None:
    """Ray's default of infinity sends like prompts to one replica however busy it is."""
    options = _llm(model(routing=Routing.PREFIX_AFFINITY))["deployment_config"]["request_router_config"]

    assert options["request_router_class"] == "ray.serve.llm.request_router.PrefixCacheAffinityRouter"
    assert options["request_router_kwargs"]["imbalanced_threshold"] == 16


def test_default_routing_is_rays() -> None:
    """The less busy of two needs no option."""
    assert "request_router_config" not in _llm(model())["deployment_config"]


def test_metrics_are_on() -> None:
    """Scaling, dashboards and alerts look at them."""
    assert _llm(model())["log_engine_metrics"] is True


def test_adapters_come_from_s3() -> None:
    """Ray loads them on demand."""
    lora = Lora(path="s3://adapters/chat", max_adapters=8)
    config = _llm(model(engine=EngineSettings(max_model_len=8192, lora=lora)))

    assert config["lora_config"] == {
        "dynamic_lora_loading_path": "s3://adapters/chat",
        "max_num_adapters_per_replica": 8,
    }


def test_ingress_holds_what_the_model_may_hold() -> None:
    """Six replicas of eighty, and two hundred that wait."""
    options = _args(model(ingress=Ingress(replicas=3)))["ingress_deployment_config"]

    assert options["max_ongoing_requests"] == 680
    assert options["autoscaling_config"]["min_replicas"] == 3
    assert options["autoscaling_config"]["max_replicas"] == 12
    assert options["graceful_shutdown_timeout_s"] == 540


def test_ingress_stays_when_the_model_is_at_zero() -> None:
    """With every model at zero Ray would take the ingress to zero too (kuberay #4445)."""
    options = _args(model(scaling=Scaling(min_replicas=0)))["ingress_deployment_config"]

    assert options["autoscaling_config"]["min_replicas"] == 2


def test_ingress_runs_on_its_own_pods() -> None:
    """A resource that only the CPU group has keeps it off the GPU nodes."""
    options = _args(model())["ingress_deployment_config"]

    assert options["ray_actor_options"] == {"num_cpus": 1, "resources": {"llm_ingress": 0.001}}


def test_ingress_checks_keys_where_the_endpoint_does() -> None:
    """The file lies where the secret is mounted."""
    given = _args(model(), platform(endpoint=endpoint(keys=True)))["ingress_cls_config"]

    assert given == {
        "ingress_cls": "keyed_ingress:KeyedIngress",
        "ingress_extra_kwargs": {"keys_file": "/etc/llm-platform/keys/keys"},
    }


def test_ingress_without_keys() -> None:
    """The same class, which then only adds retry-after."""
    given = _args(model(), platform(endpoint=endpoint()))["ingress_cls_config"]

    assert given == {"ingress_cls": "keyed_ingress:KeyedIngress", "ingress_extra_kwargs": {}}


def test_direct_mode_has_no_ingress() -> None:
    """Ray refuses both blocks there."""
    assert set(_args(model(serving=ServingMode.DIRECT))) == {"llm_configs"}


def test_own_application() -> None:
    """An application of one's own is named with its pinned source, and gets its own arguments only."""
    own = Application(import_path="app:build", working_dir="s3://code/app-1.2.zip", arguments={"size": 3})
    application = _document(model(serving=ServingMode.APPLICATION, application=own))["applications"][0]

    assert application == {
        "name": "chat",
        "route_prefix": "/",
        "import_path": "app:build",
        "runtime_env": {"working_dir": "s3://code/app-1.2.zip"},
        "args": {"size": 3},
    }


def test_accelerator_of_a_pool() -> None:
    """Ray's name of the GPU, where all types of the pool have the same one."""
    assert accelerator_type(pool(instance_types=("p4d.24xlarge",))) == "A100"
    assert accelerator_type(pool(instance_types=("g5.12xlarge", "g6.12xlarge"))) is None
    assert accelerator_type(pool(instance_types=("g7e.12xlarge",))) is None
    assert accelerator_type(None) is None
