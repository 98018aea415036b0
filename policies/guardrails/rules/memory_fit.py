"""Weights, KV cache and number types against the memory and the generation of the GPUs."""

import re
from collections.abc import Iterator

from guardrails.core import Hit, Rule, Severity, Table
from guardrails.engines import Engine, GpuKind
from guardrails.memory import Memory, memory_of
from guardrails.values import listed
from guardrails.world import World

BF16_FROM = (8, 0)
FP8_FROM = (8, 9)
# Families that vLLM refuses in float16 (vllm/config/model.py _FLOAT16_NOT_SUPPORTED_MODELS).
NO_FLOAT16 = re.compile(r"gemma-?[23]|glm-?4")
LOW_PRECISION = ("float16", "half")

TOO_BIG = Rule(
    id="model-too-big",
    severity=Severity.ERROR,
    sentence="A model's weights fit into the part of its GPUs' memory that the engine may use.",
    why="The engine dies while it loads the weights.",
    remedy="use more or larger GPUs, or a quantized checkpoint",
    source="vllm#5711; components/sizing/fit.py",
)

KV_TOO_SMALL = Rule(
    id="kv-cache-too-small",
    severity=Severity.ERROR,
    sentence="The memory left after the weights holds the KV cache of one request of full context.",
    why="vLLM refuses to start: the model's max seq len is larger than the KV cache can hold.",
    remedy="lower max_model_len, use more GPUs, or quantize",
    source="vllm#2418, vllm#10517; components/sizing/fit.py",
)

DTYPE = Rule(
    id="dtype-unsupported",
    severity=Severity.ERROR,
    sentence="The number type is one that the GPU computes in and that the model's family allows.",
    why="vLLM refuses bfloat16 below compute capability 8.0, and float16 for families that it makes unstable.",
    remedy="choose Ampere or newer (g5, g6, p4d) for bfloat16",
    source="vLLM: vllm/platforms/cuda.py, vllm/config/model.py; vllm#1157, vllm#9990",
)

FP8_KV = Rule(
    id="fp8-kv-cache-unsupported",
    severity=Severity.ERROR,
    sentence="An FP8 KV cache runs on GPUs of compute capability 8.9 or newer.",
    why="vLLM's attention kernels refuse it below, which g5 (8.6) and p4d (8.0) are.",
    remedy="leave the KV cache type at auto, or use Ada, Hopper or newer GPUs (g6, p5)",
    source="vLLM 0.29 attention backends (Triton below SM89 raises)",
)


Fitted = list[tuple[GpuKind, Memory]]


def _all(world: World) -> dict[Engine, Fitted]:
    """The memory of every engine on each kind of GPU that it may get; one on a CPU fills none."""
    return {engine: [] if engine.on_cpu else _fitted(engine) for engine in world.engines}


def _fitted(engine: Engine) -> Fitted:
    return [(kind, found) for kind in engine.gpu_kinds if (found := memory_of(engine, kind)) is not None]


def _on_each(world: World, engine: Engine) -> Fitted:
    return world.once("memory", _all)[engine]


def _is_sure(engine: Engine) -> bool:
    """Whether name and settings tell the precision: a folder may hold quantized weights that its name does not say."""
    named = engine.model is not None or engine.from_hub
    return named or (engine.text("dtype") or "auto") != "auto" or bool(engine.text("quantization"))


def _severity(engine: Engine, bad: int, all_kinds: int) -> Severity | None:
    """The rule's own where it holds nowhere; a warning where some type of the pool is enough, or little is known.

    In a typed stack every type of a pool must do: Karpenter may start any of them.
    """
    if not engine.typed and bad < all_kinds:
        return Severity.WARN
    return None if _is_sure(engine) else Severity.WARN


def too_big(world: World) -> Iterator[Hit]:
    """Models whose weights alone do not fit."""
    for engine in world.engines:
        found = _on_each(world, engine)
        bad = [(kind, memory) for kind, memory in found if memory.too_big]
        if bad:
            kind, memory = bad[0]
            message = (
                f"{engine.name}: {_weights(engine)} are {memory.weights_gib:.0f} GiB; {engine.tp * engine.pp} x {kind.name} "
                f"give the engine {memory.budget_gib:.0f} GiB ({memory.utilization:.0%} of {kind.usable_mib / 1024:.1f} GiB each)"
            )
            yield Hit(
                engine.subject, engine.path_of("model"), message, _severity(engine, len(bad), len(found))
            )


_PRECISION_WORDS = {"int4": "4 bits", "int8": "8 bits", "16": "16 bits", "32": "32 bits"}


def _weights(engine: Engine) -> str:
    billions = engine.shape.parameters / 1e9 if engine.shape else 0
    return f"{billions:.3g} billion parameters at {_PRECISION_WORDS[engine.precision]}"


def kv_too_small(world: World) -> Iterator[Hit]:
    """Models whose context needs more cache than is left."""
    for engine in world.engines:
        found = [(kind, memory) for kind, memory in _on_each(world, engine) if not memory.too_big]
        bad = [(kind, memory) for kind, memory in found if memory.too_short]
        if bad:
            yield _kv_hit(engine, *bad[0], _severity(engine, len(bad), len(found)))
        elif world.house and engine.model is not None:
            tight = [(kind, memory) for kind, memory in found if memory.borderline]
            if tight:
                yield _kv_hit(engine, *tight[0], Severity.WARN)


def _kv_hit(engine: Engine, kind: GpuKind, memory: Memory, severity: Severity | None) -> Hit:
    need = f"{memory.kv_need_gib:.1f} GiB of KV cache a GPU" if memory.kv_need_gib else "more KV cache"
    low, high = memory.kv_tokens or (0, 0)
    tokens = (
        f"{high:,} tokens at most"
        if severity is not Severity.WARN or low == high
        else f"{low:,} to {high:,} tokens"
    )
    message = (
        f"{engine.name}: one request of {memory.context:,} tokens needs {need}; on {engine.tp * engine.pp} x {kind.name} "
        f"the weights leave {memory.kv_room_gib or 0:.1f} GiB, room for {tokens}"
    )
    return Hit(engine.subject, engine.path_of("max_model_len"), message, severity)


def dtype(world: World) -> Iterator[Hit]:
    """bfloat16 on GPUs older than Ampere; float16 for families that forbid it."""
    for engine in world.engines:
        asked = engine.text("dtype")
        if asked in LOW_PRECISION and NO_FLOAT16.search((engine.source or "").lower()):
            message = f"{engine.name}: vLLM refuses {asked} for this family (numerical instability)"
            yield Hit(
                engine.subject,
                engine.path_of("dtype"),
                message,
                remedy="use bfloat16 on Ampere or newer GPUs",
            )
        old = [kind for kind in engine.gpu_kinds if kind.capability and kind.capability < BF16_FROM]
        if (
            asked in (None, "auto")
            and old
            and len(old) == len(engine.gpu_kinds)
            and NO_FLOAT16.search((engine.source or "").lower())
        ):
            message = f"{engine.name}: the family cannot run in float16, and bfloat16 needs compute capability 8.0; {_capabilities(old)}"
            yield Hit(engine.subject, engine.path_of("model"), message)
        if asked == "bfloat16" and old:
            message = f"{engine.name}: bfloat16 needs compute capability 8.0; {_capabilities(old)}"
            if NO_FLOAT16.search((engine.source or "").lower()):
                message += ", and the family cannot run in float16"
            severity = Severity.WARN if not engine.typed and len(old) < len(engine.gpu_kinds) else None
            yield Hit(engine.subject, engine.path_of("dtype"), message, severity)


def _capabilities(kinds: list[GpuKind]) -> str:
    return listed([f"{kind.name} ({', '.join(kind.types[:3])}) has {_version(kind)}" for kind in kinds])


def _version(kind: GpuKind) -> str:
    return ".".join(str(part) for part in kind.capability or ())


def fp8_kv(world: World) -> Iterator[Hit]:
    """FP8 KV caches on Ampere and older."""
    for engine in world.engines:
        asked = engine.text("kv_cache_dtype") or ""
        old = [kind for kind in engine.gpu_kinds if kind.capability and kind.capability < FP8_FROM]
        if asked.startswith("fp8") and old:
            # Old engines had kernels for fp8_e5m2 on Ampere; only the pinned ones are known to refuse.
            severity = None if engine.model is not None else Severity.WARN
            message = (
                f"{engine.name}: KV cache type {asked} needs compute capability 8.9; {_capabilities(old)}"
            )
            yield Hit(engine.subject, engine.path_of("kv_cache_dtype"), message, severity)


RULES: Table = ((TOO_BIG, too_big), (KV_TOO_SMALL, kv_too_small), (DTYPE, dtype), (FP8_KV, fp8_kv))
