"""What the manifests of this program's own stacks always have. Other people's may do without."""

from collections.abc import Iterator

from components.conventions import DO_NOT_DISRUPT
from guardrails.core import Hit, Path, Profile, Rule, Severity, Table
from guardrails.pods import Pod
from guardrails.taints import Taint, tolerates
from guardrails.values import get, listed, mapping, number, text
from guardrails.world import World

_DECISIONS = "docs/decisions"
GPU_TAINT = Taint("nvidia.com/gpu", "true", "NoSchedule")
DRAIN_VARIABLE = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"

WORKER = Rule(
    id="house-gpu-worker",
    severity=Severity.ERROR,
    sentence="A GPU worker tolerates nvidia.com/gpu, selects its nodes by label, and asks for all it uses.",
    why="Otherwise it waits, lands on other nodes, or Ray cannot start the group from zero.",
    remedy="see components/manifests",
    source=_DECISIONS,
    profile=Profile.HOUSE,
    reads=("pod:tolerations", "pod:nodeSelector", "pod:containers.*.resources"),
)
HEAD = Rule(
    id="house-ray-head",
    severity=Severity.ERROR,
    sentence="The head runs no replicas, has no GPU and limits, and is kept from voluntary disruption.",
    why="It is the single point of failure of its model.",
    remedy="see components/manifests",
    source=_DECISIONS,
    profile=Profile.HOUSE,
    reads=(
        "RayService:spec.rayClusterConfig.headGroupSpec.rayStartParams",
        "RayService:spec.rayClusterConfig.headGroupSpec.template.metadata",
    ),
)
SCALING = Rule(
    id="house-explicit-scaling",
    severity=Severity.ERROR,
    sentence="A model says its target, its most ongoing and its most queued requests.",
    why="Ray's defaults for LLMs are 1e9 ongoing requests and an endless queue.",
    remedy="set target_ongoing_requests, max_ongoing_requests and max_queued_requests",
    source="ray PR 54696",
    profile=Profile.HOUSE,
)
OFFLINE = Rule(
    id="house-hub-offline",
    severity=Severity.ERROR,
    sentence="In production serving pods have HF_HUB_OFFLINE=1.",
    why="A missing file would otherwise be fetched from the internet in silence.",
    remedy="set it on every container that serves",
    source=_DECISIONS,
    profile=Profile.HOUSE,
)
AUTH = Rule(
    id="house-ray-token",
    severity=Severity.WARN,
    sentence="Ray asks for a token.",
    why="The dashboard and the jobs API run any code for whoever reaches them.",
    remedy="set authOptions.mode: token",
    source="Ray token authentication; CVE-2023-48022",
    profile=Profile.HOUSE,
)
DRAIN = Rule(
    id="house-drain-order",
    severity=Severity.ERROR,
    sentence="graceful shutdown < Ray's drain < the pod's grace <= the node's.",
    why="Otherwise the outer one kills the inner one while requests are still being answered.",
    remedy="set drain of the model",
    source="Ray 2.60 drain on SIGTERM; Karpenter terminationGracePeriod",
    profile=Profile.HOUSE,
    reads=("pod:terminationGracePeriodSeconds",),
)
BUDGET = Rule(
    id="house-pdb-integer",
    severity=Severity.ERROR,
    sentence="A PodDisruptionBudget has an integer minAvailable.",
    why="Ray pods cannot be counted by anything else.",
    remedy="set minAvailable to the replicas less one",
    source="Kubernetes disruption controller",
    profile=Profile.HOUSE,
)


def _workers(world: World) -> Iterator[Pod]:
    for pod in world.pods:
        if pod.role == "worker" and pod.gpus and pod.owner.kind == "RayService":
            yield pod


def worker(world: World) -> Iterator[Hit]:
    """GPU workers that are not placed."""
    for pod in _workers(world):
        missing = []
        if not tolerates(pod.tolerations, GPU_TAINT):
            missing.append("a toleration of nvidia.com/gpu")
        if not pod.node_selector:
            missing.append("a nodeSelector")
        main = pod.main
        if main is not None and (main.limit("memory") is None or main.request("cpu") is None):
            missing.append("a memory limit and a CPU request")
        if missing:
            yield Hit(pod.owner, pod.spec_path, f"{pod.label} lacks {listed(missing)}")


def head(world: World) -> Iterator[Hit]:
    """Heads that are not protected."""
    for subject, path, cluster in world.ray_clusters:
        pod = next((item for item in world.pods_by_owner[subject] if item.role == "head"), None)
        if pod is None or subject.kind != "RayService":
            continue
        where: Path = (*path, "headGroupSpec")
        params = mapping(get(cluster, "headGroupSpec", "rayStartParams"))
        if number(params.get("num-cpus")) != 0:
            yield Hit(
                subject,
                (*where, "rayStartParams"),
                'the head has no num-cpus: "0", so replicas may run on it',
            )
        if pod.gpus:
            yield Hit(subject, (*where, "template"), "the head asks for GPUs")
        if pod.annotations.get(DO_NOT_DISRUPT) != "true":
            yield Hit(
                subject, (*where, "template", "metadata"), f"the head lacks the annotation {DO_NOT_DISRUPT}"
            )


def scaling(world: World) -> Iterator[Hit]:
    """Models that leave scaling to Ray's defaults."""
    for engine in world.engines:
        if engine.config is None:
            continue
        options = engine.config.deployment
        missing = [key for key in ("max_ongoing_requests", "max_queued_requests") if options.get(key) is None]
        automatic = mapping(options.get("autoscaling_config"))
        if automatic and automatic.get("target_ongoing_requests") is None:
            missing.insert(0, "target_ongoing_requests")
        if missing:
            yield Hit(
                engine.subject,
                (*engine.path, "deployment_config"),
                f"{engine.name} does not set {listed(missing)}",
            )


def offline(world: World) -> Iterator[Hit]:
    """Serving pods that may go to the hub."""
    if not world.prod:
        return
    for document in world.serve_documents:
        in_document = document.env_vars.get("HF_HUB_OFFLINE") == "1"
        for pod in world.pods_by_owner[document.subject]:
            container = pod.main
            serves = pod.role == "worker" and container is not None
            if (
                serves
                and container is not None
                and not in_document
                and not container.is_hidden("HF_HUB_OFFLINE")
                and container.env_values.get("HF_HUB_OFFLINE") != "1"
            ):
                yield Hit(pod.owner, (*container.path, "env"), f"{pod.label}: HF_HUB_OFFLINE is not 1")


def auth(world: World) -> Iterator[Hit]:
    """Ray without a token."""
    for subject, path, cluster in world.ray_clusters:
        if subject.kind == "RayService" and text(get(cluster, "authOptions", "mode")) != "token":
            severity = None if world.prod else Severity.ADVICE
            yield Hit(subject, (*path, "authOptions"), "authOptions.mode is not token", severity)


def drain(world: World) -> Iterator[Hit]:
    """Graces in the wrong order in the manifests themselves."""
    for pod in _workers(world):
        container = pod.main
        if container is None:
            continue
        ray = number(container.env_values.get(DRAIN_VARIABLE))
        graceful = max(
            (number(engine.config.deployment.get("graceful_shutdown_timeout_s")) or 0.0
             for engine in world.engines if engine.config and engine.subject is pod.owner), default=0.0,
        )  # fmt: skip
        path: Path = (*pod.spec_path, "terminationGracePeriodSeconds")
        if ray is None:
            if not container.is_hidden(DRAIN_VARIABLE):
                yield Hit(pod.owner, (*container.path, "env"), f"{pod.label}: {DRAIN_VARIABLE} is not set")
            continue
        if graceful >= ray:
            yield Hit(
                pod.owner,
                path,
                f"{pod.label}: graceful_shutdown_timeout_s {graceful:g} is not below {DRAIN_VARIABLE} {ray:g}",
            )
        if ray >= pod.grace:
            yield Hit(
                pod.owner,
                path,
                f"{pod.label}: {DRAIN_VARIABLE} {ray:g} is not below terminationGracePeriodSeconds {pod.grace:g}",
            )
        for pool, _ in world.reachable(pod):
            if pool.gpu_types and pool.termination_grace is not None and pod.grace > pool.termination_grace:
                message = f"{pod.label}: terminationGracePeriodSeconds {pod.grace:g} is longer than NodePool {pool.name}'s {pool.termination_grace:g} s"
                yield Hit(pod.owner, path, message)


def budget(world: World) -> Iterator[Hit]:
    """Budgets by anything but an integer."""
    for item in world.kind("PodDisruptionBudget"):
        least = item.get("spec", "minAvailable")
        if not isinstance(least, (int, float)) or isinstance(least, bool):
            yield Hit(item, ("spec", "minAvailable"), f"{item.label} has no integer minAvailable")


RULES: Table = (
    (WORKER, worker), (HEAD, head), (SCALING, scaling), (OFFLINE, offline), (AUTH, auth), (DRAIN, drain), (BUDGET, budget),
)  # fmt: skip
