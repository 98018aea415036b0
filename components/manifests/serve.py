"""The Serve document of a model: what Ray Serve runs, with one LLMConfig through Ray's own OpenAI builder.

Explicit throughout. Ray's defaults for LLM deployments never scale and never refuse (`target_ongoing_requests` and
`max_ongoing_requests` are 1e9), start one ingress replica and drain for 20 s. A change of this document is made in
place, without a new Ray cluster; `http_options` alone take effect only when a cluster starts.
"""

import math
from typing import Any

import yaml

from components import conventions, pins
from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from components.manifests.drain import ON_DEMAND, drain_of
from components.manifests.engine_arguments import engine_arguments
from components.manifests.images import engine_of
from components.manifests.weights import bucket_of, local_path, weights_prefix
from components.quantities import quantity
from components.settings.models import Loader, Model, Routing, ServingMode
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool

Document = dict[str, Any]

BUILDER = "ray.serve.llm:build_openai_app"
DIRECT_BUILDER = "direct_app:build"
POLICY = "scaling_policy:VllmQueuePolicy"
INGRESS = "keyed_ingress:KeyedIngress"
INGRESS_GROWTH = 4
"""How many times its least number the ingress may grow to, replicas and pods alike."""
KEYS_FILE = f"{conventions.KEYS_MOUNT}/{conventions.SECRETS['endpointKeys'][1]}"

# A server must outlast the load balancer's idle time, or the balancer reuses a connection that is being closed (502).
_KEEP_ALIVE_MARGIN = 10
_RETRY_AFTER = 5
# One ingress process moves the chunks of all its streams through one Python interpreter.
_STREAMS_PER_INGRESS = 100
# A tiny share: it places an actor on a group of pods and counts nothing.
_SHARE = 0.001


def serve_document(
    model: Model, pool: GpuPool | None, platform: PlatformSettings, bucket: str | None = None
) -> Document:
    """The document for `serveConfigV2`. `bucket` is the stack's, needed only where weights are streamed from it."""
    return {
        "proxy_location": "EveryNode",  # HeadOnly would leave workers unready for ever, and one proxy for everything
        "http_options": {
            "host": "0.0.0.0",  # noqa: S104 - inside the pod; a NetworkPolicy decides who reaches it
            "port": conventions.SERVE_PORT,
            "request_timeout_s": model.timeouts.request,
            "keep_alive_timeout_s": _idle_timeout(platform) + _KEEP_ALIVE_MARGIN,
        },
        "logging_config": {"encoding": "JSON", "log_level": "INFO", "enable_access_log": False},
        "applications": [_application(model, pool, platform, bucket)],
    }


def serve_text(
    model: Model, pool: GpuPool | None, platform: PlatformSettings, bucket: str | None = None
) -> str:
    """The document as the YAML text that a RayService holds."""
    return yaml.safe_dump(serve_document(model, pool, platform, bucket), sort_keys=False, width=1000)


def accelerator_type(pool: GpuPool | None) -> str | None:
    """Ray's name of the pool's GPU, or None where the pool mixes GPUs or Ray has no name for it."""
    gpus = {INSTANCE_TYPES[name].gpu for name in pool.instance_types} if pool else set()
    gpu = gpus.pop() if len(gpus) == 1 else None
    return GPUS[gpu].ray_accelerator_type if gpu else None


def worker_cpus(model: Model) -> int:
    """Whole CPUs that Ray counts on a CPU worker."""
    return max(1, math.floor(quantity(model.cpu_worker.cpu)))


def streams_from_bucket(model: Model) -> bool:
    """Whether the engine itself reads the weights from S3."""
    return model.loader is Loader.STREAMER and model.source.kind != "path"


def _idle_timeout(platform: PlatformSettings) -> int:
    return platform.endpoint.idle_timeout if platform.endpoint else 60


def _asks_keys(platform: PlatformSettings) -> bool:
    return platform.endpoint is not None and platform.endpoint.keys


def _application(
    model: Model, pool: GpuPool | None, platform: PlatformSettings, bucket: str | None
) -> Document:
    if model.application is not None:
        own = model.application
        return {
            "name": model.name,
            "route_prefix": "/",
            "import_path": own.import_path,
            **({"runtime_env": {"working_dir": own.working_dir}} if own.working_dir else {}),
            "args": dict(own.arguments),
        }
    keys = _asks_keys(platform)
    return {
        "name": model.name,
        "route_prefix": "/",
        "import_path": _builder(model),
        "args": {
            "llm_configs": [_llm_config(model, pool, bucket, keys=keys)],
            **(_ingress(model, pool, keys=keys) if model.serving is ServingMode.ROUTED else {}),
        },
    }


def _builder(model: Model) -> str:
    """Ray's own, but in direct mode without its router where nothing needs one: HAProxy picks the least busy replica.

    That router is a Python server asked once for every request: 0.54 of bare vLLM's requests/s with it, 0.87 without
    (docs/decisions/serving-modes.md).
    """
    plain = model.routing is Routing.POWER_OF_TWO and model.engine.lora is None
    return DIRECT_BUILDER if model.serving is ServingMode.DIRECT and plain else BUILDER


def _llm_config(model: Model, pool: GpuPool | None, bucket: str | None, *, keys: bool) -> Document:
    accelerator, lora = accelerator_type(pool), model.engine.lora
    return {
        "model_loading_config": {"model_id": model.api_name, "model_source": _source(model, bucket)},
        "accelerator_config": {"kind": "gpu" if pool else "cpu"},
        **({"accelerator_type": accelerator} if accelerator else {}),
        "placement_group_config": _placement(model, pool),
        "engine_kwargs": engine_arguments(model, pool, keys=keys),
        "deployment_config": _deployment(model, pool),
        "log_engine_metrics": True,  # what scaling, dashboards and alerts look at
        **(
            {
                "lora_config": {
                    "dynamic_lora_loading_path": lora.path,
                    "max_num_adapters_per_replica": lora.max_adapters,
                }
            }
            if lora
            else {}
        ),
    }


def _source(model: Model, bucket: str | None) -> str:
    """Where the engine reads the weights.

    Raises:
        ValueError: they are streamed from the stack's bucket and its name was not given.
    """
    if path := local_path(model):
        return path
    if model.source.kind == "huggingFace" and model.loader is Loader.LOCAL:
        return model.source.repository
    name = bucket_of(model, bucket)
    if not name:
        raise ValueError(f"{model.name}: streaming needs the name of the bucket")
    return f"s3://{name}/{weights_prefix(model).rstrip('/')}"


def _placement(model: Model, pool: GpuPool | None) -> Document:
    """One bundle for each engine worker. A replica on one node is held there: PACK alone may split it silently."""
    if pool is None:
        bundle: Document = {"CPU": worker_cpus(model) - 1, conventions.RAY_WORKER_RESOURCE: _SHARE}
    else:
        bundle = {"GPU": 1}
    return {"bundle_per_worker": bundle, "strategy": "PACK" if model.nodes > 1 else "STRICT_PACK"}


def _deployment(model: Model, pool: GpuPool | None) -> Document:
    engine, scaling = engine_of(model, pool), model.scaling
    return {
        "autoscaling_config": {
            "min_replicas": scaling.min_replicas,
            "max_replicas": scaling.max_replicas,
            "target_ongoing_requests": scaling.target_ongoing_requests,
            "look_back_period_s": scaling.look_back,
            "upscale_delay_s": scaling.upscale_delay,
            "downscale_delay_s": scaling.downscale_delay,
            "policy": {
                "policy_function": POLICY,
                "policy_kwargs": {
                    "model": model.api_name,
                    "waiting_per_replica": scaling.waiting_per_replica,
                    "kv_cache_target": scaling.kv_cache_target,
                },
            },
        },
        "max_ongoing_requests": scaling.max_ongoing_requests,
        "max_queued_requests": scaling.max_queued_requests,
        "graceful_shutdown_timeout_s": drain_of(model, pool).graceful_shutdown,
        **_health(),
        "ray_actor_options": {"num_cpus": 1},
        **_newer_options(model, engine),
        **_router(model),
    }


def _health() -> Document:
    """A period and a patience: an engine that compiles or loads an adapter answers late, and is well."""
    return {"graceful_shutdown_wait_loop_s": 2, "health_check_period_s": 10, "health_check_timeout_s": 30}


def _newer_options(model: Model, engine: pins.Engine) -> Document:
    """What not every pinned Ray knows: both accept unknown keys without a word, so none is given in vain."""
    return {
        **({"max_surge_percent": model.max_surge_percent} if ray_version(engine) >= (2, 60) else {}),
        **_backpressure(engine),
    }


def _backpressure(engine: pins.Engine) -> Document:
    if ray_version(engine) < (2, 58):
        return {}
    return {"backpressure_config": {"status_code": 503, "retry_after_s": _RETRY_AFTER}}


def ray_version(engine: pins.Engine) -> tuple[int, int]:
    """(2, 60) of "2.60.0"."""
    major, minor, *_ = engine.ray.split(".")
    return int(major), int(minor)


def _router(model: Model) -> Document:
    """Ray's default router takes the less busy of two replicas; the other one keeps like prompts together."""
    if model.routing is not Routing.PREFIX_AFFINITY:
        return {}
    return {
        "request_router_config": {
            "request_router_class": "ray.serve.llm.request_router.PrefixCacheAffinityRouter",
            "request_router_kwargs": {
                # Ray's default is infinity: like prompts then go to one replica however busy it is.
                "imbalanced_threshold": max(1, model.engine.max_num_seqs // 4),
                "match_rate_threshold": 0.1,
                "do_eviction": True,
            },
        }
    }


def _ingress(model: Model, pool: GpuPool | None, *, keys: bool) -> Document:
    """Ray's OpenAI ingress on the CPU group. It must hold every request that the model may hold and queue."""
    scaling, group = model.scaling, model.ingress
    capacity = scaling.max_replicas * scaling.max_ongoing_requests + scaling.max_queued_requests
    return {
        "ingress_cls_config": {
            "ingress_cls": INGRESS,
            "ingress_extra_kwargs": {"keys_file": KEYS_FILE} if keys else {},
        },
        "ingress_deployment_config": {
            "autoscaling_config": {
                "min_replicas": group.replicas,
                "max_replicas": group.replicas * INGRESS_GROWTH,
                "target_ongoing_requests": _STREAMS_PER_INGRESS,
                "upscale_delay_s": 10,
                "downscale_delay_s": 600,
            },
            # Serve packs: two replicas would share one pod, and the other pod would never be ready (seen in a rehearsal).
            "max_replicas_per_node": 1,
            "max_ongoing_requests": capacity,
            "max_queued_requests": scaling.max_queued_requests,
            "graceful_shutdown_timeout_s": ON_DEMAND.graceful_shutdown,
            **_health(),
            "ray_actor_options": {"num_cpus": 1, "resources": {conventions.RAY_INGRESS_RESOURCE: _SHARE}},
            **_backpressure(engine_of(model, pool)),
        },
    }
