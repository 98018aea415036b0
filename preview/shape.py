"""What the reports share: counts, the tree of components, and one row per model."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.manifests.images import engine_of, serving_image
from components.settings import PlatformSettings
from components.settings.extras import Scheme
from components.settings.models import Model
from preview.build import Preview, is_kubernetes_object
from preview.monitor import Registration

COMPONENT_PREFIX = "llm:platform:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model as the report shows it."""

    name: str
    api_name: str
    pool: str | None
    instance_types: tuple[str, ...]
    capacity: tuple[str, ...]
    tensor_parallel: int
    pipeline_parallel: int
    gpus: int
    replicas: tuple[int, int]
    serving: str
    loader: str
    context: int
    image: str
    ray: str
    vllm: str
    endpoint: str


def model_rows(settings: PlatformSettings) -> list[ModelRow]:
    """The models of a stack, in the order of the stack file."""
    return [_model_row(settings, model) for model in settings.models]


def _model_row(settings: PlatformSettings, model: Model) -> ModelRow:
    # A model may name a pool that is not there: a rule says so, and the report still shows the rest.
    pool = next((pool for pool in settings.gpu_pools if pool.name == model.pool), None)
    engine = engine_of(model, pool)
    return ModelRow(
        name=model.name,
        api_name=model.api_name,
        pool=model.pool,
        instance_types=pool.instance_types if pool else (),
        capacity=tuple(kind.value for kind in pool.capacity) if pool else (),
        tensor_parallel=model.tensor_parallel,
        pipeline_parallel=model.pipeline_parallel,
        gpus=model.gpus,
        replicas=(model.scaling.min_replicas, model.scaling.max_replicas),
        serving=model.serving.value,
        loader=model.loader.value,
        context=model.engine.max_model_len,
        image=serving_image(model, pool, settings.images),
        ray=engine.ray,
        vllm=engine.vllm,
        endpoint=endpoint_of(settings, model),
    )


def endpoint_of(settings: PlatformSettings, model: Model) -> str:
    """The OpenAI base address of a model, from outside when the stack has an endpoint."""
    host = settings.host_of(model)
    if host is None or settings.endpoint is None:
        return f"http://{model.name}-serve-svc.{settings.namespace}.svc:8000/v1 (inside the cluster only)"
    secure = settings.endpoint.certificate_arn is not None
    where = "" if settings.endpoint.scheme is Scheme.INTERNET_FACING else " (internal)"
    return f"http{'s' if secure else ''}://{host}/v1{where}"


def verdict_of(preview: Preview) -> str:
    """Whether the stack can go up, as the end of a sentence about it."""
    return "stops `pulumi up`" if preview.refused else "can be deployed"


def cluster_line(settings: PlatformSettings) -> str:
    """The cluster in one line: made here or existing, and its version."""
    if settings.cluster.create:
        return f"cluster {settings.cluster_name}, made here, Kubernetes {settings.cluster.create.kubernetes_version}"
    return f"cluster {settings.cluster_name}, existing"


def count_by_package(registrations: Iterable[Registration]) -> dict[str, int]:
    """How many resources of each provider, most first; components count as `components`."""
    counts = Counter(package_of(r) for r in registrations)
    return dict(counts.most_common())


def package_of(registration: Registration) -> str:
    """Provider that makes a resource."""
    package = registration.type.partition(":")[0]
    if registration.type.startswith(COMPONENT_PREFIX):
        return "components"
    return "providers" if package == "pulumi" else package


def children(registrations: Sequence[Registration]) -> dict[str | None, list[Registration]]:
    """Registrations by the URN of their parent (None: the stack itself)."""
    tree: dict[str | None, list[Registration]] = {}
    for registration in registrations:
        tree.setdefault(registration.parent, []).append(registration)
    return tree


def short_type(registration: Registration) -> str:
    """`aws:ec2/vpc:Vpc` -> `aws.ec2.Vpc`, `kubernetes:apps/v1:Deployment` -> `apps/v1 Deployment`."""
    package, _, rest = registration.type.partition(":")
    module, _, kind = rest.rpartition(":")
    if registration.type.startswith(COMPONENT_PREFIX):
        return kind
    if is_kubernetes_object(registration):
        return f"{module.removeprefix('core/')} {kind}"
    return f"{package}.{module.partition('/')[0]}.{kind}" if module != "index" else f"{package}.{kind}"
