"""One model to serve: where it comes from, what it runs on, how it scales, drains and is upgraded."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from components.settings.base import (
    Arn,
    Cpu,
    Fault,
    Fraction,
    Memory,
    Name,
    Natural,
    Positive,
    PositiveSeconds,
    Seconds,
    Settings,
    Text,
    form,
)
from components.settings.engine import Dtype, EngineSettings, KvCacheDtype, Lora, Quantization, Sampling
from components.settings.sources import HubSource, PathSource, S3Source, Source

ImportPath = Annotated[
    str,
    form(
        r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$", "a module and a name in it like my_app.main:app"
    ),
]
Archive = Annotated[str, form(r"^(s3|https)://.+\.zip$", "an archive like s3://bucket/app-1.2.0.zip")]
RedisAddress = Annotated[
    str,
    form(
        r"^rediss?://[A-Za-z0-9.-]+:[0-9]{1,5}$",
        "an address without a password like rediss://ray-state.example.com:6379",
    ),
]
CacheType = Annotated[
    str, form(r"^cache\.[a-z0-9]+\.[a-z0-9]+$", "a node type of ElastiCache like cache.t4g.small")
]
ApiName = Annotated[
    str,
    form(r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$", "a model name of the OpenAI API like meta-llama/Llama-3.1-8B"),
]


class Loader(StrEnum):
    """How weights reach the engine."""

    MOUNTPOINT = "mountpoint"  # read-only S3 volume
    NVME_CACHE = "nvmeCache"  # copied once a node to the instance's own disks
    STREAMER = "streamer"  # runai_streamer straight from S3; the image must have it
    LOCAL = "local"  # a path that is there already


class ServingMode(StrEnum):
    """Who answers HTTP: Ray's OpenAI ingress, vLLM's own app, or an application of yours."""

    ROUTED = "routed"
    DIRECT = "direct"
    APPLICATION = "application"


class Application(Settings):
    """A Serve application of yours instead of Ray's builder."""

    import_path: ImportPath = Field(description="Module and name of the Serve application.")
    working_dir: Archive | None = Field(
        default=None, description="Pinned archive with the code: name its version."
    )
    arguments: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Arguments of the application's builder."
    )


class Scaling(Settings):
    """Replicas of the model and when they change. Defaults are guide 1's where they make sense with Ray Serve."""

    min_replicas: Natural = Field(
        default=1, description="0: scales to nothing, and the first request waits for a node."
    )
    max_replicas: Positive = Field(default=8, description="The pool's limits may allow fewer.")
    # Ray's own default for LLMs is 1e9, which never scales.
    target_ongoing_requests: Positive = Field(
        default=40,
        description="Requests of a replica at which another starts, when vLLM's metrics are stale.",
    )
    max_ongoing_requests: Positive = Field(
        default=80, description="Requests that a replica takes at once, at most."
    )
    # Beyond it callers get 503 with retry-after instead of waiting for ever.
    max_queued_requests: Positive = Field(default=200, description="Requests that wait at the door, at most.")
    waiting_per_replica: Positive = Field(
        default=5, description="Requests in vLLM's queue that call for one more replica."
    )
    # Above it vLLM soon preempts sequences and computes them again.
    kv_cache_target: Fraction = Field(
        default=0.85, description="Use of the KV cache that calls for one more replica."
    )
    look_back: PositiveSeconds = Field(default=30, description="Seconds over which the metrics are averaged.")
    # A burst is over before a late replica is there.
    upscale_delay: Seconds = Field(default=0, description="Seconds of load before a replica is added.")
    # A new replica costs minutes, so an idle one is kept for ten.
    downscale_delay: Seconds = Field(default=600, description="Seconds of idleness before a replica goes.")

    def faults(self) -> Iterable[Fault]:
        """Least and most are in order, and the target can be reached."""
        if self.max_replicas < self.min_replicas:
            message = f"maxReplicas {self.max_replicas} is below minReplicas {self.min_replicas}; raise one or lower the other"
            yield self.written("max_replicas", "min_replicas"), message
        most, target = self.max_ongoing_requests, self.target_ongoing_requests
        if most < target:
            message = f"maxOngoingRequests {most} is below targetOngoingRequests {target}; a replica could never reach its target"
            yield self.written("max_ongoing_requests", "target_ongoing_requests"), message


class Routing(StrEnum):
    """How a replica is chosen for a request."""

    POWER_OF_TWO = "powerOfTwo"
    PREFIX_AFFINITY = "prefixAffinity"


class Timeouts(Settings):
    """How long things may take, in seconds."""

    request: PositiveSeconds = Field(default=600, description="A whole answer, in seconds.")
    engine_ready: PositiveSeconds = 1800  # vLLM's 600 are too few for 70B and above
    # Takes in the weights' way from S3, not the launch of a node.
    engine_start: PositiveSeconds = Field(
        default=3600, description="From the pod's start to the first answer, in seconds."
    )


class Drain(Settings):
    """Grace when a replica leaves, in seconds: graceful < drain < pod. Unset: by the pool's capacity."""

    graceful_shutdown: Positive = Field(
        description="Seconds in which a replica ends its requests (Ray Serve)."
    )
    ray_drain: Positive = Field(
        description="Seconds that Ray lets a node drain; longer than gracefulShutdown."
    )
    pod_termination: Positive = Field(
        description="Seconds until Kubernetes kills the pod; longer than rayDrain."
    )


class Objective(Settings):
    """What users are promised, at a stated load. The preview says whether the plan can keep it."""

    ttft_p99: PositiveSeconds | None = Field(
        default=None, description="Time to first token, 99th percentile, seconds."
    )
    itl_p99: PositiveSeconds | None = Field(
        default=None, description="Inter-token latency, 99th percentile, seconds."
    )
    # The load of guide 2's figures, so that a plan can be compared with them.
    requests_per_second: Annotated[float, Field(gt=0, le=100_000)] = 1.0
    input_tokens: Positive = Field(default=1024, description="Tokens of a typical prompt.")
    output_tokens: Positive = Field(default=256, description="Tokens of a typical answer.")


class Upgrade(StrEnum):
    """What happens when something other than the Serve document changes."""

    NEW_CLUSTER = "NewCluster"  # a second set of GPUs beside the first until it is healthy
    NONE = "None"  # nothing by itself: for scarce GPUs, with planned downtime


class Head(Settings):
    """The Ray head: control only, no replicas."""

    cpu: Cpu = "2"
    memory: Memory = "8Gi"  # measured 3.5 GB with leaks in long runs (kuberay PR 4089)


class Ingress(Settings):
    """CPU group that carries the HTTP proxies and Ray's OpenAI ingress in routed mode."""

    replicas: Annotated[int, Field(ge=1, le=32)] = 2  # one is left while the other moves
    cpu: Cpu = "2"
    memory: Memory = "4Gi"


class Redis(Settings):
    """Where the head keeps its state so that workers outlive it. Without an address the stack makes an ElastiCache."""

    address: RedisAddress | None = Field(default=None, description="A Redis that is there already.")
    node_type: CacheType = "cache.t4g.small"  # the state of one RayCluster is a few MB


class CpuWorker(Settings):
    """Resources of a replica that runs on CPU (no pool)."""

    cpu: Cpu = "2"
    memory: Memory = "8Gi"  # a model of about 1B with its KV cache


class Model(Settings):
    """One model: one RayService with a host name of its own."""

    name: Name = Field(description="Name of the RayService and first part of the host name.")
    source: Source = Field(description="Where the weights are.")
    architecture: Text = Field(
        description="A known name (llama-3.1-70b) or the path of a config.json beside the stack file."
    )
    served_name: ApiName | None = Field(
        default=None, description="Name in the API; the model's name if unset."
    )
    pool: Name | None = Field(default=None, description="GPU pool. Unset: the model runs on CPU.")
    cpu_worker: CpuWorker = CpuWorker()
    tensor_parallel: Positive = Field(default=1, description="GPUs of one node that share each layer.")
    pipeline_parallel: Positive = Field(
        default=1, description="Nodes that share the layers of one replica, one stage each."
    )
    # NCCL and vLLM's ring buffers; Kubernetes' own default is 64Mi.
    shm: Memory = Field(default="16Gi", description="Shared memory of a worker, inside its memory limit.")
    engine: EngineSettings = Field(description="What vLLM is told, at least the context length maxModelLen.")
    loader: Loader = Field(default=Loader.MOUNTPOINT, description="How the weights reach the engine.")
    # What each mode costs and gives up, measured: docs/decisions/serving-modes.md.
    serving: ServingMode = Field(default=ServingMode.DIRECT, description="Who answers HTTP.")
    application: Application | None = Field(default=None, description="Only with serving: application.")
    scaling: Scaling = Scaling()
    # Prefix affinity pays only where prompts begin alike, and queues up on one replica otherwise.
    routing: Routing = Field(
        default=Routing.POWER_OF_TWO, description="How a replica is chosen for a request."
    )
    timeouts: Timeouts = Timeouts()
    drain: Drain | None = Field(
        default=None, description="Grace when a replica leaves; unset: by the pool's capacity."
    )
    objective: Objective | None = Field(
        default=None, description="What users are promised; unset: nothing to hold the plan to."
    )
    upgrade: Upgrade = Upgrade.NEW_CLUSTER
    max_surge_percent: Annotated[
        int, Field(ge=0, le=100, description="Share of spare GPUs that an upgrade in place may take.")
    ] = 0
    head: Head = Head()
    ingress: Ingress = Ingress()
    redis: Redis | None = Field(
        default=None, description="Keeps the head's state, so that workers outlive it; {}: made here."
    )
    ray_token: bool = Field(
        default=True, description="Ray's own ports ask for the secret llm-platform:rayAuthToken."
    )
    debug: bool = Field(default=False, description="Adds SYS_PTRACE for debuggers; never in production.")
    identity_role_arn: Arn | None = Field(
        default=None, description="Own role of the pods, instead of a made one."
    )

    def faults(self) -> Iterable[Fault]:
        """The application goes with its mode, and the loader can read the source."""
        if (self.serving is ServingMode.APPLICATION) != (self.application is not None):
            message = "the mode application and the block application go together; give both or neither"
            yield self.written("application", "serving"), message
        if self.serving is ServingMode.DIRECT and self.scaling.min_replicas == 0:
            message = "minReplicas: 0 needs serving: routed; in direct mode no pod is left that could take the first call"
            yield self.written("scaling"), message
        wanted = (
            (Loader.LOCAL,)
            if self.source.kind == "path"
            else tuple(x for x in Loader if x is not Loader.LOCAL)
        )
        if self.source.kind != "huggingFace" and self.loader not in wanted:
            message = f"loader {self.loader.value} cannot read a source of kind {self.source.kind}; use {' or '.join(x.value for x in wanted)}"
            yield self.written("loader"), message

    @field_validator("architecture")
    @classmethod
    def _known_or_file(cls, value: str) -> str:
        # Imported when a model is read: only then are the tables needed, and not by whoever wants a type.
        from components.facts.models import MODELS  # noqa: PLC0415

        if value not in MODELS and not value.endswith(".json"):
            message = f'"{value}" is not known; write the path of the model\'s config.json, or one of {", ".join(MODELS)}'
            raise ValueError(message)
        return value

    @field_validator("shm")
    @classmethod
    def _shm_whole(cls, value: str) -> str:
        if not value.endswith(("Gi", "Mi")):
            message = f'"{value}" has no unit of Mi or Gi; write for example 16Gi'
            raise ValueError(message)
        return value

    @property
    def gpus(self) -> int:
        """GPUs of one replica (0 on CPU)."""
        return self.tensor_parallel * self.pipeline_parallel if self.pool else 0

    @property
    def nodes(self) -> int:
        """Pods, each on a node of its own, that one replica spans: one for each pipeline stage."""
        return self.pipeline_parallel

    @property
    def has_ingress_group(self) -> bool:
        """Whether CPU pods carry HTTP; in direct mode the proxies stand beside the engine."""
        return self.serving is not ServingMode.DIRECT

    @property
    def api_name(self) -> str:
        """Name of the model in the OpenAI API."""
        return self.served_name or self.name


__all__ = [
    "Application", "CpuWorker", "Drain", "Dtype", "EngineSettings", "Head", "HubSource", "Ingress", "KvCacheDtype",
    "Loader", "Lora", "Model", "Objective", "PathSource", "Quantization", "Redis", "Routing", "S3Source", "Sampling",
    "Scaling", "ServingMode", "Source", "Timeouts", "Upgrade",
]  # fmt: skip
