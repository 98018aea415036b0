"""Every vLLM engine among what is checked: in a Serve document, in a container's command, or in a stack's models."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from components.facts.gpus import GPUS
from guardrails.command import Flag
from guardrails.core import Path
from guardrails.hardware import Hardware, hardware_of
from guardrails.imageref import ImageRef
from guardrails.objects import Subject
from guardrails.pods import Container, Pod
from guardrails.serve import LlmConfig, ServeDocument
from guardrails.shapes import Shape, from_model, precision, shape_of
from guardrails.stack import ModelFacts, StackFacts, engine_of
from guardrails.values import flag, get, mapping, number, text, whole

# Spellings of one argument in older releases and in other builders.
_ALIASES: Mapping[str, str] = {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size"}


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
        """Whether it runs without a GPU."""
        if self.model is not None:
            return self.model.pool is None
        if self.config is not None:
            return get(self.config.body, "accelerator_config", "kind") == "cpu"
        return self.pod is not None and self.pod.gpus == 0

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


def container_engines(
    pods: Iterable[Pod], hardware: Mapping[Pod, tuple[Hardware, ...]], default: str | None
) -> Iterator[Engine]:
    """Engines that containers start by themselves."""
    for pod in pods:
        for container in pod.containers:
            command = container.engine
            if command is None:
                continue
            version = container.image.vllm_version if container.image else None
            arguments = {name: item.value for name, item in command.flags.items()}
            yield Engine(
                subject=pod.owner,
                name=f"container {container.name}",
                path=container.path,
                origin="container",
                arguments=_without_negations(arguments),
                paths={
                    **{name: item.path for name, item in command.flags.items()},
                    "model": command.model_path,
                },
                source=command.model,
                version=version or default,
                version_certain=version is not None,
                pod=pod,
                container=container,
                flags=command.flags,
                hardware=hardware.get(pod, ()),
                max_replicas=pod.max_replicas,
            )


def _without_negations(arguments: Mapping[str, object]) -> dict[str, object]:
    """`--no-enable-prefix-caching` as `enable_prefix_caching: False`."""
    return {
        name.removeprefix("no_") if name.startswith("no_") and value is True else name:
        False if name.startswith("no_") and value is True else value
        for name, value in arguments.items()
    }  # fmt: skip


def serve_engines(
    documents: Iterable[ServeDocument],
    pods: Mapping[Subject, list[Pod]],
    hardware: Mapping[Pod, tuple[Hardware, ...]],
    default: str | None,
) -> Iterator[Engine]:
    """Engines that Serve documents start."""
    for document in documents:
        workers = [pod for pod in pods.get(document.subject, []) if pod.role == "worker" and pod.gpus]
        image = _ray_image(pods.get(document.subject, []))
        for item in document.llm_configs:
            yield _llm_engine(item, workers, hardware, image, default)
        yield from _own_applications(document, workers, hardware, image, default)


def _ray_image(pods: list[Pod]) -> ImageRef | None:
    images = [pod.main.image for pod in pods if pod.role == "worker" and pod.main and pod.main.image]
    return images[0] if images else None


def _version(image: ImageRef | None, default: str | None) -> tuple[str | None, bool]:
    found = image.vllm_version if image else None
    return (found, True) if found else (default, False)


def _types(workers: list[Pod], hardware: Mapping[Pod, tuple[Hardware, ...]]) -> tuple[Hardware, ...]:
    return tuple(dict.fromkeys(item for pod in workers for item in hardware.get(pod, ())))


def _llm_engine(
    item: LlmConfig,
    workers: list[Pod],
    hardware: Mapping[Pod, tuple[Hardware, ...]],
    image: ImageRef | None,
    default: str | None,
) -> Engine:
    version, certain = _version(image, default)
    low, high = replica_range(item.deployment)
    base = (*item.path, "engine_kwargs")
    return Engine(
        subject=item.document.subject,
        name=f"model {item.name}",
        path=item.path,
        origin="serve",
        arguments={_ALIASES.get(name, name): value for name, value in item.engine_kwargs.items()},
        paths={
            **{_ALIASES.get(name, name): (*base, name) for name in item.engine_kwargs},
            "model": (*item.path, "model_loading_config"),
        },
        source=item.source,
        version=version,
        version_certain=certain,
        config=item,
        hardware=_types(workers, hardware),
        named_gpu=text(item.body.get("accelerator_type")),
        min_replicas=low,
        max_replicas=high,
    )


def replica_range(options: Mapping[str, object]) -> tuple[float | None, float | None]:
    """Least and most replicas of a set of deployment options; Serve's own defaults are 1 and 1."""
    scaling = mapping(options.get("autoscaling_config"))
    if options.get("num_replicas") == "auto":
        low, high = number(scaling.get("min_replicas")), number(scaling.get("max_replicas"))
        return (1.0 if low is None else low), (100.0 if high is None else high)
    if scaling:
        low, high = number(scaling.get("min_replicas")), number(scaling.get("max_replicas"))
        return (1.0 if low is None else low), (max(low or 1.0, 1.0) if high is None else high)
    fixed = number(options.get("num_replicas"))
    return (1.0, 1.0) if fixed is None else (fixed, fixed)


def _own_applications(
    document: ServeDocument,
    workers: list[Pod],
    hardware: Mapping[Pod, tuple[Hardware, ...]],
    image: ImageRef | None,
    default: str | None,
) -> Iterator[Engine]:
    """Applications of people's own that pass the model as arguments or, as KubeRay's samples do, as variables."""
    version, certain = _version(image, default)
    for path, application in document.applications:
        given = mapping(application.get("args"))
        variables = {
            key: text(value) for key, value in mapping(get(application, "runtime_env", "env_vars")).items()
        }
        arguments: dict[str, object] = {
            str(name).replace("-", "_"): value
            for name, value in given.items()
            if not isinstance(value, (dict, list))
        }
        paths = {name: (*path, "args", written) for name, written in zip(arguments, given, strict=False)}
        source = text(arguments.get("model")) or variables.get("MODEL_ID")
        for name, variable in _VARIABLES.items():
            if variables.get(variable):
                arguments[name] = variables[variable]
                paths[name] = (*path, "runtime_env", "env_vars", variable)
        if source and "llm_configs" not in given:
            yield Engine(
                subject=document.subject, name=f"application {text(application.get('name')) or ''}".strip(), path=path,
                origin="application", arguments=arguments, paths=paths, source=source, version=version,
                version_certain=certain, hardware=_types(workers, hardware),
            )  # fmt: skip


_VARIABLES: Mapping[str, str] = {
    "tensor_parallel_size": "TENSOR_PARALLELISM",
    "pipeline_parallel_size": "PIPELINE_PARALLELISM",
}


def stack_engines(
    stack: StackFacts, subjects: Mapping[str, Subject], default: str | None
) -> Iterator[Engine]:
    """Engines of a stack's models."""
    for model in stack.models:
        pool = stack.pool(model.pool)
        version = engine_of(stack, model).vllm if stack.house else default
        arguments: dict[str, object] = {
            **model.arguments,
            "tensor_parallel_size": model.tensor_parallel,
            "pipeline_parallel_size": model.pipeline_parallel,
        }
        yield Engine(
            subject=subjects[model.name],
            name=f"model {model.name}",
            path=model.path,
            origin="stack",
            arguments=arguments,
            paths={**model.argument_paths, "model": (*model.path, "source")},
            source=model.source,
            version=version,
            version_certain=stack.house and not stack.own_image,
            model=model,
            hardware=hardware_of(pool.instance_types) if pool else (),
            min_replicas=model.min_replicas,
            max_replicas=model.max_replicas,
        )
