"""Probes, graces and budgets: pods that get the time to load, to finish, and that may still be moved."""

import re
from collections.abc import Iterator

from components.quantities import format_seconds
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.engines import Engine
from guardrails.pods import Pod
from guardrails.shapes import weight_bytes
from guardrails.values import get, is_hidden, mapping, number, text, texts, whole
from guardrails.world import World

NO_STARTUP = Rule(
    id="probe-without-startup",
    severity=Severity.ERROR,
    sentence="A liveness probe gives an engine the time to load, or waits for a startup probe.",
    why="The kubelet kills the pod while it loads, again and again.",
    remedy="add a startupProbe with failureThreshold x periodSeconds of ten minutes",
    source="aibrix#772, kserve#5062",
)
SHORT_STARTUP = Rule(
    id="startup-budget-short",
    severity=Severity.ERROR,
    sentence="A startup probe gives an engine the time to load.",
    why="The kubelet kills the pod while it loads, again and again.",
    remedy="raise failureThreshold",
    source="aibrix#772",
)
NO_READINESS = Rule(
    id="engine-without-readiness",
    severity=Severity.WARN,
    sentence="An engine has a readiness probe.",
    why="Its Service sends requests to it while it loads: they fail for minutes.",
    remedy="add readinessProbe: {httpGet: {path: /health, port: 8000}}",
    source="vLLM docs, Kubernetes; Kubernetes docs, readiness",
)
GRACE = Rule(
    id="grace-below-pre-stop",
    severity=Severity.ERROR,
    sentence="A pod's grace is longer than its preStop hook.",
    why="The hook takes the whole of it, and the process is killed without a SIGTERM.",
    remedy="raise terminationGracePeriodSeconds, or shorten the hook",
    source="Kubernetes docs, container lifecycle hooks",
)
PDB = Rule(
    id="pdb-blocks-drain",
    severity=Severity.ERROR,
    sentence="A PodDisruptionBudget allows an eviction while all pods are well.",
    why="No node can ever be drained: upgrades and consolidation hang until they are forced.",
    remedy="use an integer minAvailable below the replicas, and none for a single pod",
    source="Kubernetes docs, PDB; disruption controller (Ray pods have no scale subresource)",
    framework="AWS EKS best practices, reliability",
)
SERVICE_NAME = Rule(
    id="service-named-vllm",
    severity=Severity.ERROR,
    sentence="No Service named vllm is beside an engine that takes service links.",
    why="Kubernetes sets VLLM_PORT to tcp://…, and vLLM refuses to start.",
    remedy="rename the Service, or set enableServiceLinks: false",
    source="vllm#34199, vllm PR 18209; vllm/envs.py get_vllm_port",
)

# What a load takes at least: start of the process and CUDA graphs, then weights at two thirds of a gigabyte a second.
BASE_SECONDS = 90.0
SECONDS_PER_GB = 1.5
UNKNOWN_SECONDS = 120.0
# Workloads that stand behind a Service; Jobs and single Pods answer nobody.
_SERVING = frozenset(
    {"Deployment", "StatefulSet", "ReplicaSet", "Rollout", "LeaderWorkerSet", "InferenceService"}
)


def load_seconds(engine: Engine) -> float:
    """A low estimate of the time from start to ready."""
    weights = weight_bytes(engine.shape, engine.precision) if engine.shape else None
    return UNKNOWN_SECONDS if weights is None else BASE_SECONDS + SECONDS_PER_GB * weights / 1e9


def _probe(body: dict[str, object]) -> tuple[float, float]:
    """Seconds until a probe kills, and its period."""
    delay = number(body.get("initialDelaySeconds")) or 0.0
    period = number(body.get("periodSeconds"))
    failures = number(body.get("failureThreshold"))
    period, failures = 10.0 if period is None else period, 3.0 if failures is None else failures
    return delay + period * failures, period


def _engines(world: World) -> Iterator[tuple[Pod, Engine, dict[str, object], Path]]:
    """Engines in pods of their own; Ray's pods have KubeRay's probes."""
    for pod, engine in world.engine_pods.items():
        if not pod.is_ray and engine.container is not None and not engine.container.is_init:
            yield pod, engine, engine.container.body, engine.container.path


def no_startup(world: World) -> Iterator[Hit]:
    """Liveness that does not wait."""
    for pod, engine, body, path in _engines(world):
        liveness = body.get("livenessProbe")
        if not isinstance(liveness, dict) or body.get("startupProbe") is not None:
            continue
        budget, _ = _probe(liveness)
        needed = load_seconds(engine)
        if budget < needed:
            message = (
                f"{engine.name}: liveness kills after {format_seconds(budget)} and there is no startupProbe; "
                f"loading takes about {format_seconds(round(needed))} or more"
            )
            yield Hit(pod.owner, (*path, "livenessProbe"), message)


def short_startup(world: World) -> Iterator[Hit]:
    """Startup that is not long enough."""
    for pod, engine, body, path in _engines(world):
        startup = body.get("startupProbe")
        if isinstance(startup, dict) and not is_hidden(startup.get("failureThreshold")):
            budget, _ = _probe(startup)
            needed = load_seconds(engine)
            if budget < needed:
                message = (
                    f"{engine.name}: the startup probe allows {format_seconds(budget)}; "
                    f"loading takes about {format_seconds(round(needed))} or more"
                )
                yield Hit(pod.owner, (*path, "startupProbe"), message)


def no_readiness(world: World) -> Iterator[Hit]:
    """Engines that are ready before they are."""
    for pod, engine, body, path in _engines(world):
        if pod.owner.kind in _SERVING and body.get("readinessProbe") is None:
            yield Hit(pod.owner, (*path, "readinessProbe"), f"{engine.name} has no readinessProbe")


_SLEEP = re.compile(r"\bsleep\s+(\d+(?:\.\d+)?)(s|m)?\b")


def grace(world: World) -> Iterator[Hit]:
    """Graces that the hook eats up."""
    for pod in world.pods:
        if is_hidden(pod.spec.get("terminationGracePeriodSeconds")):
            continue
        for container in pod.containers:
            hook = mapping(get(container.body, "lifecycle", "preStop"))
            seconds = _hook_seconds(hook)
            if seconds and pod.grace <= seconds:
                by_default = " (the default)" if pod.spec.get("terminationGracePeriodSeconds") is None else ""
                message = f"container {container.name}: preStop takes {seconds:g} s, terminationGracePeriodSeconds is {pod.grace:g}{by_default}"
                yield Hit(pod.owner, (*pod.spec_path, "terminationGracePeriodSeconds"), message)


def _hook_seconds(hook: dict[str, object]) -> float:
    direct = number(get(hook, "sleep", "seconds"))
    words = " ".join(texts(get(hook, "exec", "command")))
    slept = sum(float(value) * (60 if unit == "m" else 1) for value, unit in _SLEEP.findall(words))
    return max(direct or 0.0, slept)


# ---------------------------------------------------------------------- budgets


def pdb(world: World) -> Iterator[Hit]:
    """Budgets that never allow an eviction."""
    for budget in world.kind("PodDisruptionBudget"):
        least, most = budget.get("spec", "minAvailable"), budget.get("spec", "maxUnavailable")
        pods = world.selected_pods(budget.get("spec", "selector"), (budget.namespace,))
        found = _blocks_always(least, most) or _blocks_ray(pods, least, most)
        if found:
            yield Hit(budget, ("spec", found[0]), found[1])
            continue
        wanted = whole(least)
        if wanted is None or not pods or (isinstance(least, str) and least.endswith("%")):
            continue
        count, may_grow = _replicas(world, pods)
        if count is not None and wanted >= count > 0:
            names = pods[0].owner.label if len(pods) == 1 else f"{len(pods)} workloads"
            message = f"minAvailable {wanted} of {count:g} pods ({names}): none may ever be evicted"
            yield Hit(budget, ("spec", "minAvailable"), message, Severity.WARN if may_grow else None)


def _blocks_always(least: object, most: object) -> tuple[str, str] | None:
    if text(most) in ("0", "0%"):
        return "maxUnavailable", f"maxUnavailable {text(most)} allows no eviction"
    if text(least) == "100%":
        return "minAvailable", "minAvailable 100% allows no eviction"
    return None


def _blocks_ray(pods: list[Pod], least: object, most: object) -> tuple[str, str] | None:
    """Budgets that must count Ray pods, which have no scale subresource to count by."""
    if not any(pod.is_ray for pod in pods):
        return None
    why = "Ray pods have no scale subresource to count by, so it allows no eviction"
    if most is not None and not is_hidden(most):
        return "maxUnavailable", f"maxUnavailable {text(most)} on Ray pods: {why}"
    if isinstance(least, str) and least.endswith("%"):
        return "minAvailable", f"minAvailable {least} on Ray pods: {why}"
    return None


def _replicas(world: World, pods: list[Pod]) -> tuple[float | None, bool]:
    """Pods that a budget covers when scaled to the least, and whether there may be more."""
    total, grows = 0.0, False
    for pod in pods:
        if pod.owner.kind in ("DaemonSet", "Job", "CronJob"):
            return None, False
        least, most = _scaled(world, pod)
        if pod.role == "worker":
            least, most = pod.replicas, pod.max_replicas
        total += least * pod.hosts
        grows = grows or most > least
    return total, grows


def _scaled(world: World, pod: Pod) -> tuple[float, float]:
    """Least and most pods of a workload."""
    for scaler in world.scalers_of(pod.owner):
        is_hpa = scaler.kind == "HorizontalPodAutoscaler"
        low = number(scaler.get("spec", "minReplicas" if is_hpa else "minReplicaCount"))
        high = number(scaler.get("spec", "maxReplicas" if is_hpa else "maxReplicaCount"))
        return (1.0 if low is None else low), (100.0 if high is None else high)
    return pod.replicas, pod.replicas


def service_name(world: World) -> Iterator[Hit]:
    """Services whose links break the engine."""
    for service in world.services:
        if service.name != "vllm":
            continue
        broken = [
            pod for pod in _engine_pods(world)
            if pod.owner.namespace == service.namespace and pod.spec.get("enableServiceLinks") is not False
            and not any("VLLM_PORT" in container.env for container in pod.containers)
        ]  # fmt: skip
        if broken:
            message = f"{service.label} sets VLLM_PORT=tcp://… in the pods of {broken[0].owner.label}, and vLLM refuses it"
            yield Hit(service, ("metadata", "name"), message)


def _engine_pods(world: World) -> list[Pod]:
    """Pods with an engine: by their own command, or as GPU workers of a Serve document."""
    served = {
        engine.subject
        for engine in world.engines
        if engine.config is not None or engine.origin == "application"
    }
    return [pod for pod in world.pods if pod in world.engine_pods or (pod.gpus and pod.owner in served)]


RULES: Table = (
    (NO_STARTUP, no_startup), (SHORT_STARTUP, short_startup), (NO_READINESS, no_readiness), (GRACE, grace), (PDB, pdb),
    (SERVICE_NAME, service_name),
)  # fmt: skip
