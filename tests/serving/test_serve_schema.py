"""The Serve document of every model of every stack, judged by Ray's own classes (no vLLM is needed for that)."""

import inspect
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from components import pins
from components.facts.engines import engine_arguments
from components.manifests.images import engine_of
from components.manifests.serve import serve_document, serve_text
from components.settings import stack_file
from components.settings.models import Model
from components.settings.platform import PlatformSettings

pytestmark = pytest.mark.serving

ROOT = Path(__file__).resolve().parents[2]
STACKS = ("prod", "dev", "multinode", "local")
# Options of a deployment that Ray keeps in another class than the rest.
OF_A_REPLICA = {"ray_actor_options", "max_replicas_per_node"}
SETTINGS = {stack: stack_file.settings_of(stack_file.read(ROOT / f"Pulumi.{stack}.yaml")) for stack in STACKS}
MODELS = [
    pytest.param(SETTINGS[stack], model, id=f"{stack}-{model.name}")
    for stack in STACKS
    for model in SETTINGS[stack].models
]


@pytest.fixture(scope="module")
def ray() -> Iterator[SimpleNamespace]:
    """Ray's schema classes, with `in_cluster/` importable as in a Ray pod."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # Ray's own, at import
        patch.syspath_prepend(ROOT / "in_cluster")
        schema = pytest.importorskip(
            "ray.serve.schema", reason="ray[serve] is not installed (make setup-dev)"
        )
        config = import_module("ray.serve.config")
        yield SimpleNamespace(
            LLMConfig=import_module("ray.llm._internal.serve.core.configs.llm_config").LLMConfig,
            DeploymentConfig=import_module("ray.serve._private.config").DeploymentConfig,
            Deployment=import_module("ray.serve.deployment").Deployment,
            AutoscalingConfig=config.AutoscalingConfig,
            AutoscalingContext=config.AutoscalingContext,
            HTTPOptionsSchema=schema.HTTPOptionsSchema,
            ServeApplicationSchema=schema.ServeApplicationSchema,
            ServeDeploySchema=schema.ServeDeploySchema,
        )


def _document(platform: PlatformSettings, model: Model) -> dict[str, Any]:
    """The document as KubeRay reads it: out of text."""
    text = serve_text(model, platform.pool_of(model), platform, bucket="llm-weights")
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def _arguments(platform: PlatformSettings, model: Model) -> dict[str, Any]:
    arguments: dict[str, Any] = _document(platform, model)["applications"][0]["args"]
    return arguments


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_text_and_document_say_the_same(platform: PlatformSettings, model: Model) -> None:
    """The text holds the document, word for word: no value is bent by YAML."""
    document = serve_document(model, platform.pool_of(model), platform, bucket="llm-weights")

    assert _document(platform, model) == document


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_ray_accepts_the_document(ray: SimpleNamespace, platform: PlatformSettings, model: Model) -> None:
    """ServeDeploySchema takes the whole document."""
    accepted = ray.ServeDeploySchema.model_validate(_document(platform, model))

    assert [application.name for application in accepted.applications] == [model.name]


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_no_key_is_lost(ray: SimpleNamespace, platform: PlatformSettings, model: Model) -> None:
    """Ray's schemas pass over keys that they do not know, so each of ours is looked up in them."""
    document = _document(platform, model)

    assert set(document) <= set(ray.ServeDeploySchema.model_fields)
    assert set(document["http_options"]) <= set(ray.HTTPOptionsSchema.model_fields)
    assert set(document["applications"][0]) <= set(ray.ServeApplicationSchema.model_fields)


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_ray_accepts_the_model(ray: SimpleNamespace, platform: PlatformSettings, model: Model) -> None:
    """LLMConfig takes the model, finds the policy's class, and refuses nothing of the deployment's options."""
    accepted = ray.LLMConfig.model_validate(_arguments(platform, model)["llm_configs"][0])

    assert accepted.model_id == model.api_name
    assert accepted.accelerator_config.kind == ("gpu" if model.pool else "cpu")


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_deployment_options_are_known(ray: SimpleNamespace, platform: PlatformSettings, model: Model) -> None:
    """Every option of the model's and of the ingress's deployment is a field of Ray's DeploymentConfig, and valid."""
    arguments = _arguments(platform, model)
    options = [
        arguments["llm_configs"][0]["deployment_config"],
        arguments.get("ingress_deployment_config", {}),
    ]
    for given in options:
        own = {name: value for name, value in given.items() if name not in OF_A_REPLICA}

        assert set(own) <= set(ray.DeploymentConfig.model_fields)
        ray.DeploymentConfig(**own)
        assert (given.keys() & OF_A_REPLICA) <= set(inspect.signature(ray.Deployment.options).parameters)


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_scaling_is_explicit(ray: SimpleNamespace, platform: PlatformSettings, model: Model) -> None:
    """Ray's defaults for LLM deployments are 1e9; each limit is ours, in the object that Ray makes of them."""
    given = _arguments(platform, model)["llm_configs"][0]["deployment_config"]
    made = ray.DeploymentConfig(**{key: given[key] for key in given if key != "ray_actor_options"})

    assert made.max_ongoing_requests == model.scaling.max_ongoing_requests
    assert made.max_queued_requests == model.scaling.max_queued_requests
    assert made.autoscaling_config.target_ongoing_requests == model.scaling.target_ongoing_requests
    assert made.autoscaling_config.max_replicas == model.scaling.max_replicas


@pytest.mark.parametrize(("platform", "model"), MODELS)
def test_vllm_knows_every_argument(platform: PlatformSettings, model: Model) -> None:
    """Engine arguments are of the pinned vLLM's own list; `middleware` belongs to its HTTP front end (direct mode)."""
    given = set(_arguments(platform, model)["llm_configs"][0]["engine_kwargs"]) - {"middleware"}
    engine = engine_of(model, platform.pool_of(model))

    assert given <= engine_arguments(pins.SERVING.vllm)
    if engine is pins.SERVING_EFA:  # its vLLM is older than the list; what came later is left out
        assert "max_num_queued_reqs" not in given


def test_policy_runs_in_rays_own_wrapper(ray: SimpleNamespace) -> None:
    """The policy as Serve calls it: out of the pickled class, with the names that Serve's context has."""
    policy_of = ray.AutoscalingConfig(
        min_replicas=1,
        max_replicas=4,
        target_ongoing_requests=10,
        policy={
            "policy_function": "scaling_policy:VllmQueuePolicy",
            "policy_kwargs": {"model": "m", "waiting_per_replica": 5, "kv_cache_target": 0.85},
        },
    )
    context = ray.AutoscalingContext(
        deployment_id=None,
        deployment_name="m",
        app_name="m",
        current_num_replicas=2,
        target_num_replicas=2,
        running_replicas=[],
        total_num_requests=25.0,
        total_queued_requests=0.0,
        aggregated_metrics=None,
        raw_metrics=None,
        capacity_adjusted_min_replicas=1,
        capacity_adjusted_max_replicas=4,
        policy_state={},
        last_scale_up_time=None,
        last_scale_down_time=None,
        current_time=0.0,
        config=policy_of,
    )
    loaded = policy_of.policy.get_policy()
    policy = loaded(**policy_of.policy.policy_kwargs)

    assert policy(context) == (3, {})
    assert policy.prometheus_results is None  # Ray's own mixin, which was given no address
