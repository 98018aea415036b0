"""Where engines are found: in containers, in Serve documents, and in the models of a stack."""

from collections.abc import Iterable, Iterator, Mapping

from guardrails.engines import Engine
from guardrails.hardware import Hardware, hardware_of
from guardrails.imageref import ImageRef
from guardrails.objects import Subject
from guardrails.pods import Pod
from guardrails.serve import LlmConfig, ServeDocument
from guardrails.stack import StackFacts, engine_of
from guardrails.values import get, mapping, number, text

# Spellings of one argument in older releases and in other builders.
_ALIASES: Mapping[str, str] = {"tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size"}


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
            typed=stack.house,
            hardware=hardware_of(pool.instance_types) if pool else (),
            min_replicas=model.min_replicas,
            max_replicas=model.max_replicas,
        )
