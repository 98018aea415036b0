"""Everything that is checked, put in relation once: pods with the nodes they can land on, Services with their pods.

Rules read this and nothing else. It is built from plain objects in milliseconds and never raises on odd input.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TypeVar

from guardrails.core import Profile
from guardrails.engine_sources import container_engines, serve_engines, stack_engines
from guardrails.engines import Engine
from guardrails.objects import Subject, labels_match
from guardrails.placement import Placement
from guardrails.pods import RAY_CLUSTERS, Pod
from guardrails.releases import Release, releases_of
from guardrails.serve import ServeDocument, serve_documents
from guardrails.values import get, mapping, text

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """Versions to assume where no image tells one."""

    vllm: str | None = None
    ray: str | None = None


@dataclass(eq=False)
class World(Placement):
    """The checked objects and what follows from them."""

    env: str = "prod"
    today: date = field(default_factory=date.today)
    profile: Profile = Profile.GENERAL
    defaults: EngineDefaults = EngineDefaults()
    _made: dict[str, object] = field(default_factory=dict)

    def once(self, name: str, make: "Callable[[World], T]") -> T:
        """What a theme works out once for several of its rules."""
        if name not in self._made:
            self._made[name] = make(self)
        return self._made[name]  # type: ignore[return-value]

    @property
    def house(self) -> bool:
        """Whether the rules of this program's own stacks apply."""
        return self.profile is Profile.HOUSE

    @property
    def prod(self) -> bool:
        """Whether this is production."""
        return self.env == "prod"

    # ------------------------------------------------------------------ resources and stacks

    @cached_property
    def resources(self) -> list[Subject]:
        """Pulumi resources that are no Kubernetes objects."""
        return [subject for subject in self.subjects if subject.api.count(":") == 2]  # noqa: PLR2004 - a type token

    def typed(self, *tokens: str) -> list[Subject]:
        """Resources of some type tokens."""
        return [subject for subject in self.resources if subject.api in tokens]

    @cached_property
    def releases(self) -> list[Release]:
        """Helm releases, by whatever tool they are made."""
        return [found for subject in self.subjects if (found := releases_of(subject)) is not None]

    @cached_property
    def ray_clusters(self) -> list[tuple[Subject, tuple[str, ...], dict[str, object]]]:
        """Ray clusters: the object, the path of the cluster's specification, and that specification."""
        return [
            (subject, tuple(str(step) for step in path), mapping(subject.get(*path)))
            for subject in self.subjects
            if subject.group == "ray.io" and (path := RAY_CLUSTERS.get(subject.kind))
        ]

    # ------------------------------------------------------------------ engines and Serve

    @cached_property
    def serve_documents(self) -> list[ServeDocument]:
        """Serve documents of RayServices."""
        return serve_documents(self.subjects)

    @cached_property
    def engines(self) -> list[Engine]:
        """Every vLLM engine."""
        named = {
            (id(stack), model.name): self.stack_subject(stack, model.name, "model")
            for stack in self.stacks
            for model in stack.models
        }
        twins = {model.name: model for stack in self.stacks for model in stack.models}
        served = list(
            serve_engines(self.serve_documents, self.pods_by_owner, self.hardware, self.defaults.vllm)
        )
        for engine in served:
            engine.twin = twins.get(engine.subject.name)
        return [
            *container_engines(self.pods, self.hardware, self.defaults.vllm),
            *served,
            *(
                engine
                for stack in self.stacks
                for engine in stack_engines(
                    stack,
                    {model.name: named[id(stack), model.name] for model in stack.models},
                    self.defaults.vllm,
                )
            ),
        ]

    @cached_property
    def engine_versions(self) -> tuple[str, ...]:
        """VLLM versions of the engines among the objects, and the assumed one where no engine tells."""
        found = tuple(dict.fromkeys(engine.version for engine in self.engines if engine.version))
        return found or ((self.defaults.vllm,) if self.defaults.vllm else ())

    @cached_property
    def engine_pods(self) -> dict[Pod, Engine]:
        """Pods that run an engine in a container of their own."""
        return {engine.pod: engine for engine in self.engines if engine.pod is not None}

    # ------------------------------------------------------------------ Services

    @cached_property
    def services(self) -> list[Subject]:
        """Kubernetes Services."""
        return [subject for subject in self.by_kind.get("Service", []) if subject.api == "v1"]

    def pods_of_service(self, service: Subject) -> list[Pod]:
        """Pods that a Service selects."""
        selector = mapping(service.get("spec", "selector"))
        wanted = {key: value for key, item in selector.items() if (value := text(item)) is not None}
        if not wanted:
            return []
        return [
            pod
            for pod in self.pods
            if pod.owner.namespace == service.namespace
            and all(pod.labels.get(key) == wanted[key] for key in wanted)
        ]

    def selected_pods(self, selector: object, namespaces: Iterable[str]) -> list[Pod]:
        """Pods that a label selector selects in some namespaces (none given: in all)."""
        wanted = tuple(namespaces)
        return [
            pod
            for pod in self.pods
            if (not wanted or pod.owner.namespace in wanted) and labels_match(mapping(selector), pod.labels)
        ]

    @cached_property
    def _named(self) -> Mapping[tuple[str, str, str], Subject]:
        """Objects by kind, namespace and name."""
        return {
            (subject.kind, subject.namespace, subject.name): subject for subject in reversed(self.subjects)
        }

    def target(self, reference: Mapping[str, object], namespace: str) -> Subject | None:
        """The object that a scaleTargetRef names; KEDA's default kind is Deployment."""
        kind, name = text(reference.get("kind")) or "Deployment", text(reference.get("name")) or ""
        return self._named.get((kind, namespace, name)) or self._named.get((kind, "", name))

    def scalers_of(self, subject: Subject) -> list[Subject]:
        """Autoscalers that aim at an object."""
        return self._scalers.get(subject, [])

    @cached_property
    def _scalers(self) -> Mapping[Subject, list[Subject]]:
        found: dict[Subject, list[Subject]] = defaultdict(list)
        for scaler in self.kind("HorizontalPodAutoscaler", "ScaledObject"):
            aim = self.target(mapping(scaler.get("spec", "scaleTargetRef")), scaler.namespace)
            if aim is not None:
                found[aim].append(scaler)
        return found

    def service_ports(self, service: Subject) -> list[tuple[int, dict[str, object]]]:
        """Ports of a Service with their index."""
        listed = get(service.body, "spec", "ports")
        return [
            (index, port)
            for index, port in enumerate(listed if isinstance(listed, list) else [])
            if isinstance(port, dict)
        ]
