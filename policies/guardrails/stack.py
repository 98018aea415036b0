"""A stack's pools and models as rules see them: plain facts, whatever they were written in.

`from_settings` reads the typed config, `intent.from_intent` the neutral form of the real-world cases. Each fact keeps
the path of its setting, so that a finding can show the line of `Pulumi.prod.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from components import pins
from components.facts.instance_types import INSTANCE_TYPES
from components.facts.models import ModelShape
from components.manifests.weights import bucket_of
from components.manifests.worker_size import worker_resources
from components.quantities import quantity_or_none, seconds_or_none
from components.sizing.stack import StackSize, shape_of, size_stack
from guardrails.core import Path
from guardrails.objects import Locate
from guardrails.taints import Taint

if TYPE_CHECKING:  # only their types: checking plain YAML needs no pydantic
    from components.settings import PlatformSettings
    from components.settings.extras import EndpointSettings
    from components.settings.models import Drain, Model
    from components.settings.pools import CpuPool, GpuPool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """Nodes of like types. None means: not said, so no rule on it applies."""

    name: str
    path: Path
    instance_types: tuple[str, ...] = ()
    capacity: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] | None = None
    has_limits: bool = True
    gpus: float | None = None
    cpu: float | None = None
    memory: float | None = None
    consolidation: str | None = None
    consolidate_after: float | None = None
    ami_alias: str | None = None
    termination_grace: float | None = None
    efa: int | None = None
    placement_group: bool | None = None
    reservations: tuple[str, ...] | None = None
    local_nvme: bool | None = None
    disk: float | None = None
    for_gpus: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainFacts:
    """Seconds that a replica, Ray and the pod are given when a node leaves."""

    graceful: float
    ray: float
    pod: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """One model of a stack. `arguments` are engine arguments by vLLM's Python names."""

    name: str
    path: Path
    source: str = ""
    source_kind: str = ""  # s3, huggingFace, path, or "" where it is not said
    architecture: str = ""
    shape: Mapping[str, float] = field(
        default_factory=dict
    )  # params_b, layers, kv_heads … where they are given
    known: ModelShape | None = None  # of a config.json beside the stack file
    shape_problem: str = ""  # why that file tells nothing
    shm: float | None = None  # bytes of /dev/shm
    memory: float | None = (
        None  # bytes of a worker, on the smallest type of its pool; None where one is not known
    )
    pool: str | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    min_replicas: int = 1
    max_replicas: int = 1
    arguments: Mapping[str, object] = field(default_factory=dict)
    argument_paths: Mapping[str, Path] = field(default_factory=dict)
    further: tuple[str, ...] = ()  # arguments that the stack names by vLLM's own names
    loader: str = ""
    serving: str = ""
    drain: DrainFacts | None = None
    upgrade: str = ""
    redis: bool | None = None
    ray_token: bool | None = None
    debug: bool = False
    objective: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of one replica; 0 where the model runs on CPU."""
        return self.tensor_parallel * self.pipeline_parallel if self.pool else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """Where callers come in."""

    path: Path
    internet_facing: bool
    tls: bool
    cidrs: tuple[str, ...]
    keys: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StackFacts:
    """A whole stack."""

    name: str = ""
    env: str = "prod"
    region: str = ""
    zones: tuple[str, ...] = ()
    kubernetes: str | None = None
    kubernetes_path: Path = ("cluster", "create", "kubernetesVersion")
    pools: tuple[PoolFacts, ...] = ()
    cpu_pool: PoolFacts | None = None
    models: tuple[ModelFacts, ...] = ()
    endpoint: EndpointFacts | None = None
    headroom_model: str | None = None
    headroom_replicas: int = 0
    has_runai: bool = True
    own_image: bool = False
    aws_needs: tuple[tuple[Path, str], ...] = ()  # settings that make something in AWS, and what asks for it
    plain: Mapping[str, object] = field(
        default_factory=dict
    )  # the settings as written, for rules about any text
    size: StackSize | None = None  # verdicts, cost and quotas; None where the stack is no typed one
    budget: float | None = None  # dollars a month
    house: bool = True  # written in the typed config, so that the house rules apply
    file: str | None = None
    locate: Locate | None = None

    def pool(self, name: str | None) -> PoolFacts | None:
        """A pool by its name."""
        return next((pool for pool in self.pools if pool.name == name), None)


def engine_of(stack: StackFacts, model: ModelFacts) -> pins.Engine:
    """The pinned engine that serves a model."""
    pool = stack.pool(model.pool)
    return pins.engine(stages=model.pipeline_parallel, efa=bool(pool and pool.efa))


def from_settings(
    settings: PlatformSettings,
    *,
    file: str | None = None,
    locate: Locate | None = None,
    folder: FilePath | None = None,
) -> StackFacts:
    """The facts of a typed stack; `file` and `locate` let findings show the line of a setting.

    `folder` is where the stack file lies (the working directory by default): a model's config.json is beside it.
    """
    create, endpoint, headroom = settings.cluster.create, settings.endpoint, settings.headroom
    cpu, pools = settings.cpu_pool, {pool.name: pool for pool in settings.gpu_pools}
    return StackFacts(
        env=settings.policy.environment,
        region=settings.region,
        zones=settings.zones,
        kubernetes=create.kubernetes_version if create else None,
        pools=tuple(_gpu_pool(pool, index) for index, pool in enumerate(settings.gpu_pools)),
        cpu_pool=_cpu_pool(cpu) if cpu else None,
        models=tuple(
            _model(model, index, folder or FilePath(), pools.get(model.pool or "")) for index, model in enumerate(settings.models)
        ),
        endpoint=_endpoint(endpoint) if endpoint else None,
        headroom_model=headroom.model if headroom else None,
        headroom_replicas=headroom.max_replicas if headroom else 0,
        has_runai=settings.images.has_runai,
        own_image=settings.images.serving is not None,
        aws_needs=tuple(_aws_needs(settings)),
        plain=settings.model_dump(mode="json", by_alias=True),
        size=size_stack(settings, folder),
        budget=settings.budget.usd_per_month if settings.budget else None,
        file=file,
        locate=locate,
    )  # fmt: skip


def _cpu_pool(pool: CpuPool) -> PoolFacts:
    return PoolFacts(
        name="cpu",
        path=("cpuPool",),
        instance_types=pool.instance_types,
        zones=pool.zones,
        capacity=("on-demand",),
        for_gpus=False,
        ami_alias=pool.ami_alias,
        cpu=quantity_or_none(pool.limits.cpu),
        memory=quantity_or_none(pool.limits.memory),
    )


def _endpoint(endpoint: EndpointSettings) -> EndpointFacts:
    return EndpointFacts(
        path=("endpoint",),
        internet_facing=endpoint.scheme.value == "internetFacing",
        tls=endpoint.certificate_arn is not None,
        cidrs=endpoint.cidrs,
        keys=endpoint.keys,
    )


def _drain(drain: Drain) -> DrainFacts:
    return DrainFacts(graceful=drain.graceful_shutdown, ray=drain.ray_drain, pod=drain.pod_termination)


def _gpu_pool(pool: GpuPool, index: int) -> PoolFacts:
    return PoolFacts(
        name=pool.name,
        path=("gpuPools", index),
        instance_types=pool.instance_types,
        capacity=tuple(kind.value for kind in pool.capacity),
        zones=pool.zones,
        gpus=pool.limits.gpus,
        cpu=quantity_or_none(pool.limits.cpu),
        memory=quantity_or_none(pool.limits.memory),
        consolidation="WhenEmpty",
        consolidate_after=seconds_or_none(pool.disruption.consolidate_after),
        ami_alias=pool.ami_alias,
        termination_grace=seconds_or_none(pool.termination_grace_period),
        efa=pool.efa.interfaces if pool.efa else 0,
        placement_group=pool.placement_group,
        reservations=pool.reservation_ids,
        local_nvme=pool.local_nvme,
        disk=quantity_or_none(pool.data_volume.size),
    )


# Settings that are engine arguments under a name of their own.
_ENGINE_SETTINGS = {
    "dtype": "dtype", "quantization": "quantization", "kv_cache_dtype": "kvCacheDtype", "max_model_len": "maxModelLen",
    "max_num_seqs": "maxNumSeqs", "max_num_batched_tokens": "maxNumBatchedTokens",
    "gpu_memory_utilization": "gpuMemoryUtilization", "trust_remote_code": "trustRemoteCode",
    "enforce_eager": "enforceEager",
}  # fmt: skip


def _model(model: Model, index: int, folder: FilePath, pool: GpuPool | None) -> ModelFacts:
    path: Path = ("models", index)
    engine = model.engine
    known, problem = _config(model.architecture, folder)
    arguments: dict[str, object] = {
        name: getattr(engine, name)
        for name in _ENGINE_SETTINGS
        if str(getattr(engine, name)) not in ("auto", "none")
    }
    arguments["enable_prefix_caching"] = engine.prefix_caching
    arguments["enable_chunked_prefill"] = engine.chunked_prefill
    return ModelFacts(
        name=model.name,
        path=path,
        source=_source(model),
        source_kind=model.source.kind,
        architecture=model.architecture,
        known=known,
        shape_problem=problem,
        shm=quantity_or_none(model.shm),
        memory=_worker_memory(model, pool),
        pool=model.pool,
        tensor_parallel=model.tensor_parallel,
        pipeline_parallel=model.pipeline_parallel,
        min_replicas=model.scaling.min_replicas,
        max_replicas=model.scaling.max_replicas,
        arguments={**arguments, **engine.arguments},
        argument_paths={
            "tensor_parallel_size": (*path, "tensorParallel"),
            "pipeline_parallel_size": (*path, "pipelineParallel"),
            "enable_prefix_caching": (*path, "engine", "prefixCaching"),
            "enable_chunked_prefill": (*path, "engine", "chunkedPrefill"),
            **{name: (*path, "engine", setting) for name, setting in _ENGINE_SETTINGS.items()},
            **{name: (*path, "engine", "arguments", name) for name in engine.arguments},
        },
        further=tuple(engine.arguments),
        loader=model.loader.value,
        serving=model.serving.value,
        drain=_drain(model.drain) if model.drain else None,
        upgrade=model.upgrade.value,
        redis=model.redis is not None,
        ray_token=model.ray_token,
        debug=model.debug,
        objective=model.objective is not None,
    )  # fmt: skip


def _worker_memory(model: Model, pool: GpuPool | None) -> float | None:
    if model.pool is not None and (pool is None or not all(map(INSTANCE_TYPES.get, pool.instance_types))):
        return None  # other rules say so
    return quantity_or_none(worker_resources(model, pool)["limits"]["memory"])


def _aws_needs(settings: PlatformSettings) -> Iterator[tuple[Path, str]]:
    """What a stack on an existing cluster makes in AWS; one that makes its cluster names its account anyway."""
    if settings.cluster.existing is None:
        return
    operators, installs = ("cluster", "existing", "operators"), settings.operators.installs
    if installs("karpenter"):
        yield (*operators, "karpenter"), "installing Karpenter"
    if installs("s3_csi"):
        yield (*operators, "s3Csi"), "installing the S3 CSI driver"
    if installs("load_balancer_controller") and settings.endpoint:
        yield (*operators, "loadBalancerController"), "installing the load balancer controller"
    for index, model in enumerate(settings.models):
        if model.source.kind != "path" and bucket_of(model, None) is None and not settings.storage.existing:
            yield ("models", index, "source"), f"the bucket of model {model.name}"
        if model.identity_role_arn is not None:
            yield ("models", index, "identityRoleArn"), f"the identity of model {model.name}"


def _config(architecture: str, folder: FilePath) -> tuple[ModelShape | None, str]:
    """The shape in a config.json, or what is wrong with the file."""
    if not architecture.endswith(".json"):
        return None, ""
    try:
        return shape_of(architecture, folder), ""
    except ValueError as error:
        return None, str(error)


def _source(model: Model) -> str:
    source = model.source
    if source.kind == "s3":
        return f"s3://{source.bucket or ''}/{source.prefix}"
    return source.repository if source.kind == "huggingFace" else source.path
