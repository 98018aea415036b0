"""One vLLM engine: what it is told, what it serves, and the GPUs that it may get."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from components.facts.gpus import GPUS
from guardrails.command import Flag
from guardrails.containers import Container
from guardrails.core import Path
from guardrails.hardware import Hardware
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.serve import LlmConfig
from guardrails.shapes import Shape, from_model, precision, shape_of
from guardrails.stack import ModelFacts
from guardrails.values import flag, get, text, whole


@dataclass(frozen=True, slots=True)
class GpuKind:
    """A GPU that an engine may get: usable MiB of memory and compute capability, and the types that have it."""

    name: str
    usable_mib: float
    capability: tuple[int, int] | None
    types: tuple[str, ...] = ()
    per_node: int = 0


@dataclass(eq=False)
class Engine:
    """One engine. `arguments` are keyed by vLLM's Python names."""

    subject: Subject
    name: str
    path: Path
    origin: str  # stack, serve or container
    arguments: Mapping[str, object]
    paths: Mapping[str, Path] = field(default_factory=dict)
    source: str | None = None
    version: str | None = None
    version_certain: bool = True  # the image or the pins say it, not an assumption
    pod: Pod | None = None
    container: Container | None = None
    config: LlmConfig | None = None
    model: ModelFacts | None = None
    typed: bool = False  # the model of a typed stack
    twin: ModelFacts | None = None  # the stack's model that this engine was made from
    flags: Mapping[str, Flag] = field(default_factory=dict)
    hardware: tuple[Hardware, ...] = ()
    named_gpu: str | None = None  # GPU named by Ray's accelerator_type
    min_replicas: float | None = None
    max_replicas: float | None = None

    def path_of(self, argument: str) -> Path:
        """Where an argument stands."""
        return self.paths.get(argument, self.path)

    def whole(self, argument: str, default: int = 1) -> int:
        """An argument as an integer."""
        found = whole(self.arguments.get(argument))
        return default if found is None else found

    def text(self, argument: str) -> str | None:
        """An argument as text."""
        return text(self.arguments.get(argument))

    def is_on(self, argument: str) -> bool:
        """Whether a switch is on."""
        value = self.arguments.get(argument)
        return value is True or flag(value) is True

    @property
    def tp(self) -> int:
        """Tensor parallel size."""
        return max(1, self.whole("tensor_parallel_size"))

    @property
    def pp(self) -> int:
        """Pipeline parallel size."""
        return max(1, self.whole("pipeline_parallel_size"))

    @property
    def dp(self) -> int:
        """Data parallel size."""
        return max(1, self.whole("data_parallel_size"))

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tp * self.pp * self.dp

    @property
    def on_cpu(self) -> bool:
        """Whether it runs without a GPU: as its own config says, else as the stack does."""
        kind = get(self.config.body, "accelerator_config", "kind") if self.config is not None else None
        if kind is not None:
            return bool(kind == "cpu")
        if self.model is not None:
            return self.model.pool is None
        return self.config is None and self.pod is not None and self.pod.gpus == 0

    @cached_property
    def shape(self) -> Shape | None:
        """What is known of the model."""
        given = self.model.shape if self.model else {}
        if given.get("params_b"):
            return _given_shape(self.name, given)
        facts = self.model or self.twin
        if facts and facts.known:
            return from_model(facts.known)
        named = facts.architecture if facts and facts.architecture else self.source
        return shape_of(named) if named else None

    @cached_property
    def precision(self) -> str:
        """Precision of the weights."""
        native = self.shape.native if self.shape else None
        return precision(self.source or "", self.text("quantization"), self.text("dtype"), native)

    @property
    def from_hub(self) -> bool:
        """Whether the weights come from Hugging Face when the pod starts."""
        if self.model is not None:
            return self.model.source_kind == "huggingFace" and self.model.loader != "local"
        source = self.source or ""
        return source.count("/") == 1 and not source.startswith((".", "/", "~", "$")) and ":" not in source

    @cached_property
    def gpu_kinds(self) -> tuple[GpuKind, ...]:
        """The GPUs that it may get, empty where nothing tells."""
        if self.named_gpu:
            named = [
                gpu
                for gpu in GPUS.values()
                if self.named_gpu in (gpu.ray_accelerator_type, *_RAY_NAMES.get(gpu.name, ()))
            ]
            return tuple(GpuKind(gpu.name, gpu.usable_memory_mib, gpu.compute_capability) for gpu in named)
        kinds: dict[str, list[Hardware]] = {}
        for item in self.hardware:
            if item.gpus:
                kinds.setdefault(f"{item.gpu}-{item.gpu_mib}", []).append(item)
        return tuple(_kind(items) for items in kinds.values())


# Names that Ray knows besides the one it finds by itself.
_RAY_NAMES: Mapping[str, tuple[str, ...]] = {
    "A100-40": ("A100-40G",),
    "A100-80": ("A100-80G",),
    "A10G": ("A10",),
}


def _kind(items: list[Hardware]) -> GpuKind:
    first = items[0]
    known = GPUS.get(first.gpu_key or "")
    usable = known.usable_memory_mib if known else first.gpu_mib * 0.985
    return GpuKind(
        known.name if known else str(first.gpu), usable, first.capability, tuple(item.name for item in items),
        max(item.gpus for item in items),
    )  # fmt: skip


def _given_shape(name: str, given: Mapping[str, float]) -> Shape:
    def count(key: str) -> int | None:
        return int(given[key]) if key in given else None

    return Shape(
        name,
        given["params_b"] * 1e9,
        count("layers"),
        count("attention_heads"),
        count("kv_heads"),
        count("head_dim"),
    )
