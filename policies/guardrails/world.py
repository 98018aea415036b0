"""Everything that is checked, put in relation once: pods with the nodes they can land on, Services with their pods.

Rules read this and nothing else. It is built from plain objects in milliseconds and never raises on odd input.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import TypeVar

from components.conventions import CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL
from guardrails.core import Profile
from guardrails.engines import Engine, container_engines, serve_engines, stack_engines
from guardrails.hardware import Hardware
from guardrails.objects import Subject, labels_match
from guardrails.pods import RAY_CLUSTERS, Pod, pods_of
from guardrails.pools import NodeClass, Pool, node_groups, node_pools, selects, stack_pool
from guardrails.releases import Release, releases_of
from guardrails.requirements import Requirement, restricts_type, types_for
from guardrails.serve import ServeDocument, serve_documents
from guardrails.stack import StackFacts
from guardrails.taints import Toleration, tolerates
from guardrails.values import get, mapping, text

T = TypeVar("T")
Place = tuple[Pool, tuple[Hardware, ...]]
Terms = tuple[tuple[Requirement, ...], ...]


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """Versions to assume where no image tells one."""

    vllm: str | None = None
    ray: str | None = None


@dataclass(eq=False)
class World:
    """The checked objects and what follows from them."""

    subjects: tuple[Subject, ...]
    stacks: tuple[StackFacts, ...] = ()
    env: str = "prod"
    today: date = field(default_factory=date.today)
    profile: Profile = Profile.GENERAL
    defaults: EngineDefaults = EngineDefaults()
    preview: bool = False
    _stack_subjects: dict[int, dict[str, Subject]] = field(default_factory=dict)
    _made: dict[str, object] = field(default_factory=dict)
    _by_terms: dict[Terms, list[Place]] = field(default_factory=dict)
    _by_tolerations: dict[tuple[Terms, tuple[Toleration, ...]], list[Place]] = field(default_factory=dict)

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

    # ------------------------------------------------------------------ objects

    @cached_property
    def by_kind(self) -> Mapping[str, list[Subject]]:
        """Kubernetes objects and resources by kind."""
        found: dict[str, list[Subject]] = defaultdict(list)
        for subject in self.subjects:
            found[subject.kind].append(subject)
        return found

    def kind(self, *kinds: str, group: str | None = None) -> list[Subject]:
        """Objects of some kinds, of one API group where it is given."""
        return [
            subject
            for kind in kinds
            for subject in self.by_kind.get(kind, [])
            if group is None or subject.group == group
        ]

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

    # ------------------------------------------------------------------ stack

    def stack_subject(self, stack: StackFacts, name: str, kind: str) -> Subject:
        """What findings on a pool or model of a stack name."""
        names = self._stack_subjects.setdefault(id(stack), {})
        key = f"{kind} {name}"
        if key not in names:
            names[key] = Subject(kind, name, file=stack.file, locate=stack.locate)
        return names[key]

    @property
    def stack(self) -> StackFacts | None:
        """The one stack, where exactly one is checked."""
        return self.stacks[0] if len(self.stacks) == 1 else None

    # ------------------------------------------------------------------ pods and pools

    @cached_property
    def pods(self) -> list[Pod]:
        """Every pod template."""
        return [pod for subject in self.subjects for pod in pods_of(subject)]

    @cached_property
    def pods_by_owner(self) -> Mapping[Subject, list[Pod]]:
        """Pods by what makes them."""
        found: dict[Subject, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            found[pod.owner].append(pod)
        return found

    @cached_property
    def ray_clusters(self) -> list[tuple[Subject, tuple[str, ...], dict[str, object]]]:
        """Ray clusters: the object, the path of the cluster's specification, and that specification."""
        return [
            (subject, tuple(str(step) for step in path), mapping(subject.get(*path)))
            for subject in self.subjects
            if subject.group == "ray.io" and (path := RAY_CLUSTERS.get(subject.kind))
        ]

    @cached_property
    def node_classes(self) -> Mapping[str, NodeClass]:
        """Node classes by name."""
        return {subject.name: NodeClass(subject) for subject in self.kind("EC2NodeClass", "NodeClass")}

    @cached_property
    def pools(self) -> list[Pool]:
        """Every pool. A NodePool made from a stack's settings stands for both."""
        made = [*node_pools(self.subjects, self.node_classes), *node_groups(self.subjects)]
        names = {pool.name for pool in made}
        return [
            *made,
            *(
                stack_pool(facts, self.stack_subject(stack, facts.name, "pool"))
                for stack in self.stacks
                for facts in (*stack.pools, *((stack.cpu_pool,) if stack.cpu_pool else ()))
                if facts.name not in names
            ),
        ]

    @cached_property
    def _object_pools(self) -> list[Pool]:
        return [pool for pool in self.pools if pool.kind != "stack"]

    def candidates(self, pod: Pod) -> list[Place]:
        """Pools whose nodes a pod's selectors allow, with the types it may get; taints are not looked at."""
        found = self._by_terms.get(pod.terms)
        if found is None:
            found = [
                (pool, types)
                for pool in self._object_pools
                if (types := selects(pod.terms, pool)) is not None
            ]
            self._by_terms[pod.terms] = found
        return found

    def reachable(self, pod: Pod) -> list[Place]:
        """Candidates whose taints the pod tolerates."""
        key = (pod.terms, pod.tolerations)
        found = self._by_tolerations.get(key)
        if found is None:
            found = [
                (pool, types)
                for pool, types in self.candidates(pod)
                if all(tolerates(pod.tolerations, taint) for taint in pool.blocking_taints)
            ]
            self._by_tolerations[key] = found
        return found

    def pods_on(self, pool: Pool) -> list[Pod]:
        """Pods that may run on a pool."""
        return self._pods_on.get(pool, [])

    def daemons_on(self, pool: Pool) -> list[Pod]:
        """Pods of DaemonSets that run on every node of a pool."""
        return self._daemons_on.get(pool, [])

    @cached_property
    def _daemons_on(self) -> Mapping[Pool, list[Pod]]:
        found: dict[Pool, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            for pool, _ in self.reachable(pod) if pod.owner.kind == "DaemonSet" else ():
                found[pool].append(pod)
        return found

    @cached_property
    def _pods_on(self) -> Mapping[Pool, list[Pod]]:
        found: dict[Pool, list[Pod]] = defaultdict(list)
        for pod in self.pods:
            for pool, _ in self.reachable(pod):
                found[pool].append(pod)
        return found

    @cached_property
    def hardware(self) -> Mapping[Pod, tuple[Hardware, ...]]:
        """Types that a pod may land on: of its pools, or by its own selectors where no pool is among the objects."""
        known: dict[tuple[object, ...], tuple[Hardware, ...]] = {}
        found = {}
        for pod in self.pods:
            key = (pod.terms, pod.tolerations, pod.gpus)
            if key not in known:
                known[key] = self._hardware_of(pod)
            found[pod] = known[key]
        return found

    def _hardware_of(self, pod: Pod) -> tuple[Hardware, ...]:
        reachable = [
            (pool, types) for pool, types in self.reachable(pod) or self.candidates(pod) if pool.restricted
        ]
        if pod.gpus:
            reachable = [(pool, types) for pool, types in reachable if any(item.gpus for item in types)]
        if reachable:
            found = tuple(dict.fromkeys(item for _, types in reachable for item in types))
        else:
            terms = [term for term in pod.terms if restricts_type(term)]
            found = tuple(dict.fromkeys(item for term in terms for item in types_for(term)))
        return tuple(item for item in found if item.gpus >= pod.gpus) if pod.gpus and found else found

    def capacity_of(self, pod: Pod) -> tuple[str, ...]:
        """Kinds of capacity that a pod may run on: what it asks for itself, else what its pools have."""
        for term in pod.terms:
            for item in term:
                if (
                    item.key in (CAPACITY_TYPE_LABEL, "eks.amazonaws.com/capacityType")
                    and item.operator == "In"
                ):
                    return tuple(value.lower().replace("_", "-") for value in item.values)
        reachable = self.reachable(pod)
        if any(not pool.capacity for pool, _ in reachable):
            return ()
        return tuple(dict.fromkeys(kind for pool, _ in reachable for kind in pool.capacity))

    def named_types(self, pod: Pod) -> tuple[str, ...]:
        """Instance types that a pod names itself."""
        return tuple(
            value
            for term in pod.terms
            for item in term
            if item.key == INSTANCE_TYPE_LABEL and item.operator == "In"
            for value in item.values
        )

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

    def target(
        self, reference: Mapping[str, object], namespace: str, default_kind: str = "Deployment"
    ) -> Subject | None:
        """The object that a scaleTargetRef or an ownerRef names."""
        kind, name = text(reference.get("kind")) or default_kind, text(reference.get("name"))
        return next(
            (
                item
                for item in self.by_kind.get(kind, [])
                if item.name == name and item.namespace in ("", namespace)
            ),
            None,
        )

    def replicas_of(self, subject: Subject) -> float:
        """Replicas that a workload asks for."""
        pods = self.pods_by_owner.get(subject, [])
        return max((pod.replicas for pod in pods), default=1.0)

    def service_ports(self, service: Subject) -> list[tuple[int, dict[str, object]]]:
        """Ports of a Service with their index."""
        listed = get(service.body, "spec", "ports")
        return [
            (index, port)
            for index, port in enumerate(listed if isinstance(listed, list) else [])
            if isinstance(port, dict)
        ]
