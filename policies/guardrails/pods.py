"""Every pod that the checked objects make, whatever kind of workload makes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from guardrails.containers import Container
from guardrails.core import Path
from guardrails.objects import Subject
from guardrails.requirements import Requirement, pod_terms
from guardrails.taints import Toleration, tolerations_of
from guardrails.values import UNKNOWN, get, items, mapping, mappings, number, text, whole

_TEMPLATE: Path = ("spec", "template")

# Where a workload keeps its pod templates. "*" stands for every element of a list.
TEMPLATES: Mapping[str, tuple[Path, ...]] = {
    "Deployment": (_TEMPLATE,),
    "StatefulSet": (_TEMPLATE,),
    "ReplicaSet": (_TEMPLATE,),
    "DaemonSet": (_TEMPLATE,),
    "ReplicationController": (_TEMPLATE,),
    "Rollout": (_TEMPLATE,),
    "Job": (_TEMPLATE,),
    "CronJob": (("spec", "jobTemplate", "spec", "template"),),
    "PodTemplate": (("template",),),
    "LeaderWorkerSet": (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    "JobSet": (("spec", "replicatedJobs", "*", "template", "spec", "template"),),
    "PyTorchJob": (("spec", "pytorchReplicaSpecs", "Master", "template"), ("spec", "pytorchReplicaSpecs", "Worker", "template")),
    "MPIJob": (("spec", "mpiReplicaSpecs", "Launcher", "template"), ("spec", "mpiReplicaSpecs", "Worker", "template")),
}  # fmt: skip

# Where a Ray kind keeps the cluster's specification.
RAY_CLUSTERS: Mapping[str, Path] = {
    "RayCluster": ("spec",),
    "RayService": ("spec", "rayClusterConfig"),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayCronJob": ("spec", "jobTemplate", "rayClusterSpec"),
}

NO_LIMIT = 2147483647  # CRD default of a worker group's maxReplicas


@dataclass(eq=False)
class Pod:
    """A pod template with where it stands and how many pods it makes."""

    owner: Subject
    path: Path  # of the template (whose `spec` and `metadata` are the pod's)
    template: dict[str, object]
    role: str = "pod"  # pod, head, worker, submitter
    group: str = ""
    group_index: int | None = None
    replicas: float = 1
    max_replicas: float = 1
    hosts: int = 1
    implied_labels: Mapping[str, str] = field(default_factory=dict)
    spec_step: str = "spec"  # KServe's predictor holds the fields of a pod spec itself

    @cached_property
    def spec(self) -> dict[str, object]:
        """The pod's spec."""
        return mapping(self.template.get(self.spec_step))

    @property
    def spec_path(self) -> Path:
        """Path of the pod's spec in its owner."""
        return (*self.path, self.spec_step)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Labels, with those that the controller adds."""
        own = mapping(get(self.template, "metadata", "labels"))
        return {**self.implied_labels, **{key: text(value) or "" for key, value in own.items()}}

    @cached_property
    def annotations(self) -> dict[str, str]:
        """Annotations as text."""
        own = mapping(get(self.template, "metadata", "annotations"))
        return {key: text(value) or "" for key, value in own.items()}

    @cached_property
    def containers(self) -> list[Container]:
        """Containers in order; sidecars (init containers that restart) count here."""
        main = self._read("containers", is_init=False)
        sidecars = [
            item
            for item in self._read("initContainers", is_init=True)
            if item.body.get("restartPolicy") == "Always"
        ]
        return [*main, *sidecars]

    @cached_property
    def all_containers(self) -> list[Container]:
        """Containers and init containers."""
        return [*self._read("containers", is_init=False), *self._read("initContainers", is_init=True)]

    def _read(self, key: str, *, is_init: bool) -> list[Container]:
        return [
            Container(body, (*self.spec_path, key, index), is_init)
            for index, body in mappings(self.spec.get(key))
        ]

    @cached_property
    def main(self) -> Container | None:
        """The container that matters: the one with GPUs, in a Ray pod the first, else the engine's or the first."""
        if not self.containers:
            return None
        if self.is_ray:
            return self.containers[0]
        wanted = [item for item in self.containers if item.gpus] or [
            item for item in self.containers if item.engine
        ]
        return (wanted or self.containers)[0]

    @property
    def is_ray(self) -> bool:
        """Whether KubeRay runs it."""
        return self.role in ("head", "worker")

    @property
    def label(self) -> str:
        """Name in messages: "RayService llm/chat, worker group gpu"."""
        if self.role == "head":
            return f"{self.owner.label}, head group"
        if self.role == "worker":
            return f"{self.owner.label}, worker group {self.group}"
        return self.owner.label

    @cached_property
    def gpus(self) -> int:
        """GPUs of one pod."""
        return sum(container.gpus for container in self.containers)

    @cached_property
    def efa(self) -> int:
        """EFA interfaces of one pod."""
        return sum(container.efa for container in self.containers)

    def requested(self, resource: str) -> float:
        """What one pod asks of a node, as the scheduler adds it up."""
        together = sum(container.request(resource) or 0.0 for container in self.containers)
        init = max(
            (item.request(resource) or 0.0 for item in self.all_containers if item.is_init), default=0.0
        )
        return max(together, init)

    @cached_property
    def asks(self) -> tuple[float, float]:
        """CPU and bytes of memory that it asks of a node."""
        return self.requested("cpu"), self.requested("memory")

    @cached_property
    def terms(self) -> tuple[tuple[Requirement, ...], ...]:
        """What it asks of its node: alternatives, in each of which every requirement must hold."""
        return pod_terms(self.spec)

    @cached_property
    def tolerations(self) -> tuple[Toleration, ...]:
        """Its tolerations."""
        return tolerations_of(self.spec.get("tolerations"))

    @cached_property
    def node_selector(self) -> dict[str, object]:
        """Its nodeSelector."""
        return mapping(self.spec.get("nodeSelector"))

    @cached_property
    def volumes(self) -> dict[str, tuple[int, dict[str, object]]]:
        """Volumes by name, each with its index."""
        return {
            text(volume.get("name")) or "": (index, volume)
            for index, volume in mappings(self.spec.get("volumes"))
        }

    @cached_property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL; Kubernetes' own default is 30."""
        found = number(self.spec.get("terminationGracePeriodSeconds"))
        return 30.0 if found is None else found


def pods_of(owner: Subject) -> Iterator[Pod]:
    """The pods that an object makes."""
    if owner.kind in RAY_CLUSTERS and owner.group == "ray.io":
        yield from _ray_pods(owner)
    elif owner.kind == "Pod" and owner.group == "":
        yield Pod(owner, (), owner.body)
    elif owner.kind == "InferenceService":
        yield from _kserve_pods(owner)
    else:
        yield from _workload_pods(owner)


def _workload_pods(owner: Subject) -> Iterator[Pod]:
    known = TEMPLATES.get(owner.kind)
    for pattern in known or (_TEMPLATE,):
        for path, template in _expand(owner.body, pattern):
            if known is None and not items(get(template, "spec", "containers")):
                continue  # another kind with a `spec.template` of its own
            size = whole(owner.get("spec", "leaderWorkerTemplate", "size")) or 1
            count = owner.get("spec", "replicas")
            replicas = 1.0 if count is None else number(count)
            replicas = 1.0 if replicas is None else replicas
            yield Pod(owner, path, template, replicas=replicas, max_replicas=replicas, hosts=max(1, size))


def _expand(body: object, pattern: Path, path: Path = ()) -> Iterator[tuple[Path, dict[str, object]]]:
    if not pattern:
        if isinstance(body, dict):
            yield path, body
        return
    step, rest = pattern[0], pattern[1:]
    if step == "*":
        for index, item in enumerate(items(body)):
            yield from _expand(item, rest, (*path, index))
    elif isinstance(body, dict) and step in body:
        yield from _expand(body[str(step)], rest, (*path, step))


def _kserve_pods(owner: Subject) -> Iterator[Pod]:
    """KServe: the predictor is a pod spec, with the model's container beside `containers`."""
    for part in ("predictor", "transformer", "explainer"):
        body = mapping(owner.get("spec", part))
        if items(body.get("containers")):
            yield Pod(owner, ("spec",), mapping(owner.get("spec")), group=part, spec_step=part)


def _ray_pods(owner: Subject) -> Iterator[Pod]:
    prefix = RAY_CLUSTERS[owner.kind]
    cluster = mapping(owner.get(*prefix))
    labels = {"ray.io/is-ray-node": "yes", "ray.io/cluster": owner.name}
    head = mapping(cluster.get("headGroupSpec"))
    if isinstance(head.get("template"), dict):
        yield Pod(
            owner, (*prefix, "headGroupSpec", "template"), mapping(head["template"]), role="head", group="headgroup",
            implied_labels={**labels, "ray.io/node-type": "head", "ray.io/group": "headgroup"},
        )  # fmt: skip
    for index, group in mappings(cluster.get("workerGroupSpecs")):
        if isinstance(group.get("template"), dict):
            yield _worker(owner, (*prefix, "workerGroupSpecs", index), group, labels, index)
    if owner.kind == "RayJob" and isinstance(owner.get("spec", "submitterPodTemplate"), dict):
        template = mapping(owner.get("spec", "submitterPodTemplate"))
        yield Pod(owner, ("spec", "submitterPodTemplate"), template, role="submitter")


def _worker(owner: Subject, path: Path, group: dict[str, object], labels: dict[str, str], index: int) -> Pod:
    name = text(group.get("groupName")) or str(index)
    hosts = whole(group.get("numOfHosts")) or 1
    replicas = number(group.get("replicas"))
    least = number(group.get("minReplicas"))
    most = NO_LIMIT if group.get("maxReplicas") in (None, UNKNOWN) else number(group.get("maxReplicas"))
    return Pod(
        owner, (*path, "template"), mapping(group["template"]), role="worker", group=name, group_index=index,
        replicas=replicas if replicas is not None else least if least is not None else 0.0,
        max_replicas=NO_LIMIT if most is None else most,
        hosts=hosts,
        implied_labels={**labels, "ray.io/node-type": "worker", "ray.io/group": name, "ray.io/serve": "true"},
    )  # fmt: skip
