"""Does an engine's model fit on its GPUs: `components.sizing.fit` where the shape is known, plain arithmetic elsewhere.

The arithmetic is lenient: it counts the least that an engine keeps for itself, so what it refuses cannot start.
"""

from dataclasses import dataclass
from functools import lru_cache

from components.facts.gpus import GPUS
from components.facts.models import MODELS, ModelShape
from components.sizing.deployment import Deployment, default_batch
from components.sizing.deployment import Engine as SizedEngine
from components.sizing.fit import DOES_NOT_FIT, fit
from components.sizing.weights import QUANTIZATIONS
from guardrails.engines import Engine, GpuKind
from guardrails.shapes import BYTES, GIB, Shape, weight_bytes

# Of vLLM 0.29 and newer; 0.9 before. The larger one is taken where nothing is said: it refuses less.
DEFAULT_UTILIZATION = 0.92
LEAST_OVERHEAD_GIB = 0.8  # CUDA context, smallest activations and graphs of one GPU (components.sizing.fit)

_SIZED_QUANTIZATION = {"int4": "int4", "int8": "fp8", "16": "none", "32": "none"}
_SIZED_DTYPES = {"half": "float16", "float": "float32"}


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one engine on one kind of GPU. GiB over all GPUs of a replica, tokens of one replica."""

    weights_gib: float
    budget_gib: float
    utilization: float
    context: int | None
    kv_need_gib: float | None = None
    kv_room_gib: float | None = None
    kv_tokens: tuple[int, int] | None = None
    borderline: bool = False
    too_short: bool = False

    @property
    def too_big(self) -> bool:
        """Whether not even the weights fit."""
        return self.weights_gib >= self.budget_gib


def memory_of(engine: Engine, kind: GpuKind) -> Memory | None:
    """The memory of an engine on a kind of GPU; None where too little is known."""
    shape, precision = engine.shape, engine.precision
    if shape is None or precision not in BYTES:
        return None
    given = engine.arguments.get("gpu_memory_utilization")
    utilization = _number(given) or DEFAULT_UTILIZATION
    context = engine.whole("max_model_len", 0) or shape.max_positions
    if context is not None and context < 1:  # -1 and "auto": the engine takes what fits
        context = None
    sized = _sized(engine, kind, shape, precision, utilization, context)
    return sized or _plain(engine, kind, shape, precision, utilization, context)


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    except ValueError:
        return None


def _sized(
    engine: Engine, kind: GpuKind, shape: Shape, precision: str, utilization: float, context: int | None
) -> Memory | None:
    """By the platform's own sizing."""
    model, gpu = _model_shape(engine, shape), GPUS.get(kind.name)
    if model is None or gpu is None or context is None:
        return None
    batch, sequences = default_batch(gpu)
    quantization = engine.text("quantization") or _SIZED_QUANTIZATION[precision]
    dtype = engine.text("dtype") or "auto"
    kv_dtype = engine.text("kv_cache_dtype") or "auto"
    deployment = Deployment(
        model=model,
        gpu=gpu,
        tp=engine.tp,
        pp=engine.pp,
        dtype=_SIZED_DTYPES.get(dtype, dtype),
        quantization=quantization if quantization in QUANTIZATIONS else _SIZED_QUANTIZATION[precision],
        kv_dtype=kv_dtype,
        max_model_len=context,
        max_num_seqs=engine.whole("max_num_seqs", sequences),
        max_num_batched_tokens=engine.whole("max_num_batched_tokens", batch),
        gpu_memory_utilization=utilization,
        engine=SizedEngine(version=engine.version or "0.29.0", eager=engine.is_on("enforce_eager")),
    )
    try:
        found = fit(deployment)
    except ValueError:
        return None
    gpus = engine.tp * engine.pp
    need = shape.kv_bytes(engine.tp, engine.pp, _element(kv_dtype))
    return Memory(
        weights_gib=found.weights_gib_per_gpu * gpus,
        budget_gib=found.budget_gib_per_gpu * gpus,
        utilization=utilization,
        context=context,
        kv_need_gib=need * context / GIB if need else None,
        kv_room_gib=max(
            0.0, found.budget_gib_per_gpu - found.weights_gib_per_gpu - found.overhead_gib_per_gpu[0]
        ),
        kv_tokens=found.kv_tokens,
        borderline=found.kv_tokens[0] < context <= found.kv_tokens[1],
        too_short=found.verdict == DOES_NOT_FIT and found.kv_tokens[1] < context,
    )


def _model_shape(engine: Engine, shape: Shape) -> ModelShape | None:
    facts = engine.model or engine.twin
    if facts and facts.known:
        return facts.known
    return MODELS.get(facts.architecture if facts else "") or _known_shape(shape)


@lru_cache(maxsize=256)
def _known_shape(shape: Shape) -> ModelShape | None:
    """The platform's shape of equal size."""
    return next(
        (
            item for item in MODELS.values()
            if shape.certain and item.parameters == shape.parameters and item.layers == shape.layers
        ),
        None,
    )  # fmt: skip


def _element(kv_dtype: str) -> float:
    return 1.0 if kv_dtype.startswith(("fp8", "int8")) else 2.0


def _plain(
    engine: Engine, kind: GpuKind, shape: Shape, precision: str, utilization: float, context: int | None
) -> Memory | None:
    weights = weight_bytes(shape, precision)
    if weights is None:
        return None
    gpus = engine.tp * engine.pp
    budget = kind.usable_mib / 1024 * utilization
    room = budget - weights / GIB / gpus - LEAST_OVERHEAD_GIB
    token = shape.kv_bytes(engine.tp, engine.pp, _element(engine.text("kv_cache_dtype") or "auto"))
    need = token * context / GIB if token and context else None
    tokens = int(max(0.0, room) * GIB / token) if token else None
    return Memory(
        weights_gib=weights / GIB,
        budget_gib=budget * gpus,
        utilization=utilization,
        context=context,
        kv_need_gib=need,
        kv_room_gib=max(0.0, room),
        kv_tokens=(tokens, tokens) if tokens is not None else None,
        too_short=need is not None and need > room,
    )
