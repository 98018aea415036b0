"""Pods and pools: which nodes a pod can land on, by its selectors and tolerations."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from components.conventions import CAPACITY_TYPE_LABEL, INSTANCE_TYPE_LABEL
from guardrails.hardware import Hardware
from guardrails.objects import Subject
from guardrails.pods import Pod, pods_of
from guardrails.pools import NodeClass, Pool, node_groups, node_pools, selects, stack_pool
from guardrails.requirements import Requirement, restricts_type, types_for
from guardrails.stack import StackFacts
from guardrails.taints import Toleration, tolerates

Place = tuple[Pool, tuple[Hardware, ...]]
Terms = tuple[tuple[Requirement, ...], ...]


@dataclass(eq=False)
class Placement:
    """The checked objects, their pods and their pools."""

    subjects: tuple[Subject, ...]
    stacks: tuple[StackFacts, ...] = ()
    _stack_subjects: dict[int, dict[str, Subject]] = field(default_factory=dict, repr=False)
    _by_terms: dict[Terms, list[Place]] = field(default_factory=dict, repr=False)
    _by_tolerations: dict[tuple[Terms, tuple[Toleration, ...]], list[Place]] = field(
        default_factory=dict, repr=False
    )

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

    # ------------------------------------------------------------------ stack

    def stack_subject(self, stack: StackFacts, name: str, kind: str) -> Subject:
        """What findings on a pool or model of a stack name."""
        names = self._stack_subjects.setdefault(id(stack), {})
        key = f"{kind} {name}"
        if key not in names:
            names[key] = Subject(kind, name, file=stack.file, locate=stack.locate)
        return names[key]

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
