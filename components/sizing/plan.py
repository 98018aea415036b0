"""What a stack says about a model, and what sizing answers: plain values on both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.facts.models import ModelShape
from components.sizing.cold_start import ColdStart
from components.sizing.deployment import VLLM, Deployment, Engine, Load
from components.sizing.fit import Fit
from components.sizing.fixes import Fix
from components.sizing.price import NO_PRICES, Dollars, PerMillion
from components.sizing.replicas import Objective, Replicas
from components.sizing.speed import Speed


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """What a stack says about one model, in plain values.

    `instance_types` are those of its pool; `loader` is a key of `cold_start.loader_rates` or "local"; `image` one of
    "plain", "soci", "snapshot"; `load` is the traffic of the objective, with a rate; without one a single request is
    looked at. `prices` are the stack's own dollars an hour by instance type.
    """

    name: str
    model: ModelShape
    instance_types: tuple[str, ...]
    tp: int = 1
    pp: int = 1
    dtype: str = "auto"
    quantization: str = "none"
    kv_dtype: str = "auto"
    max_model_len: int = 8_192
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2_048
    gpu_memory_utilization: float = 0.92
    engine: Engine = VLLM
    loader: str = "mountpoint"
    image: str = "soci"
    min_replicas: int = 1
    max_replicas: int = 1
    spot: bool = False
    on_demand: bool = True
    load: Load | None = None
    objective: Objective | None = None
    upscale_delay_s: float = 0.0
    volume_mib_per_s: float = 1_000
    prices: Mapping[str, float] = field(default_factory=lambda: NO_PRICES)


@dataclass(frozen=True, slots=True)
class OnInstance:
    """The verdict on one instance type. Speed and what follows are None where the model does not fit.

    `load` is what one replica gets: the load that the speed is for.
    """

    instance_type: str
    deployment: Deployment
    fit: Fit
    fixes: tuple[Fix, ...]
    speed: Speed | None
    replicas: Replicas | None
    cold_start: ColdStart | None
    usd_per_hour: Dollars | None
    usd_per_million_tokens: PerMillion | None
    load: Load


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a rule may report: kind, the setting it is about (a path inside the model), a sentence."""

    kind: str
    setting: str
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A model on every instance type of its pool. `fits` is the worst of them: Karpenter may pick any."""

    name: str
    fits: str
    on: tuple[OnInstance, ...]
    remarks: tuple[Remark, ...]
