"""Agents that must run on GPU nodes: device plugins, the S3 CSI driver, exporters. They must tolerate the pool's taints."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from guardrails.contract import version_of
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.pods import Pod
from guardrails.pools import Pool
from guardrails.releases import Release
from guardrails.taints import Taint, tolerates, tolerations_of
from guardrails.values import flag, get, is_hidden, listed
from guardrails.world import World

DEVICE_PLUGIN = Rule(
    id="device-plugin-untolerated",
    severity=Severity.ERROR,
    sentence="The NVIDIA device plugin tolerates every taint of the GPU pools.",
    why="Without it the node has no nvidia.com/gpu: pods wait, and Karpenter replaces the node in a loop.",
    remedy="give the plugin a toleration for each taint, or operator Exists without a key",
    source="nebari#3074, eksctl#8550, k8s-device-plugin#1934",
)
CSI = Rule(
    id="s3-csi-untolerated",
    severity=Severity.ERROR,
    sentence="The S3 CSI driver's node pods tolerate the taints of the GPU pools.",
    why="Volumes cannot be mounted there: driver name s3.csi.aws.com not found.",
    remedy="set node.tolerateAllTaints: true (the default of chart 2.x), or tolerations for the pool's taints",
    source="mountpoint-s3-csi-driver#107, #109, #168",
)
EFA_PLUGIN = Rule(
    id="efa-plugin-untolerated",
    severity=Severity.ERROR,
    sentence="The EFA device plugin tolerates the taints of the GPU pools.",
    why="Nodes never get vpc.amazonaws.com/efa, and Karpenter waits for it. The chart tolerates CriticalAddonsOnly only.",
    remedy="add a toleration for nvidia.com/gpu",
    source="eks-charts aws-efa-k8s-device-plugin 0.5.30",
)
EXPORTER = Rule(
    id="gpu-exporter-untolerated",
    severity=Severity.WARN,
    sentence="The DCGM exporter tolerates the taints of the GPU pools.",
    why="GPU metrics are missing where they matter. The chart tolerates the control plane's taint only.",
    remedy="add a toleration for nvidia.com/gpu",
    source="dcgm-exporter chart 4.8.2",
)
UVERBS = Rule(
    id="device-plugin-takes-efa",
    severity=Severity.WARN,
    sentence="The NVIDIA device plugin leaves the EFA devices alone.",
    why="From 0.19.0 to 0.19.2 it mounts every uverbs device by default, and the EFA plugin fails.",
    remedy="use 0.19.3 or newer, or set mofedEnabled: false",
    source="k8s-device-plugin#1692",
)

_GPU_ONLY = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
_CRITICAL = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
_EXECUTE = [*_CRITICAL, {"operator": "Exists", "effect": "NoExecute"}]
_EVERY = [{"operator": "Exists"}]


@dataclass(frozen=True, slots=True)
class Agent:
    """A chart whose pods must run on GPU nodes: where its tolerations stand, and what it tolerates by itself."""

    path: tuple[str, ...]
    default: list[dict[str, str]]
    on_bottlerocket: bool = True


DEVICE_PLUGINS: Mapping[str, Agent] = {
    # Bottlerocket's NVIDIA variants bring the plugin themselves.
    "nvidia-device-plugin": Agent(("tolerations",), [*_CRITICAL, *_GPU_ONLY], on_bottlerocket=False),
    "gpu-operator": Agent(("daemonsets", "tolerations"), _GPU_ONLY, on_bottlerocket=False),
}
EFA_PLUGINS: Mapping[str, Agent] = {"aws-efa-k8s-device-plugin": Agent(("tolerations",), _CRITICAL)}
EXPORTERS: Mapping[str, Agent] = {"dcgm-exporter": Agent(("tolerations",), [])}
CSI_DRIVER = "aws-mountpoint-s3-csi-driver"


def _gpu_pools(world: World, agent: Agent | None = None) -> list[Pool]:
    """Tainted GPU pools that run an agent's pods."""
    pools = [
        pool
        for pool in world.pools
        if (pool.is_gpu or (pool.gpu_types and pool.restricted)) and pool.blocking_taints
    ]
    if agent is None or agent.on_bottlerocket:
        return pools
    return [pool for pool in pools if not pool.auto_mode and not _is_bottlerocket(pool)]


def _is_bottlerocket(pool: Pool) -> bool:
    alias = pool.ami_alias or ""
    return alias.startswith("bottlerocket") or bool(
        pool.node_class and pool.node_class.family == "bottlerocket"
    )


def _untolerated(tolerations: object, pools: list[Pool]) -> tuple[Pool, list[Taint]] | None:
    """The first pool with taints that a list of tolerations leaves out."""
    given = tolerations_of(tolerations)
    for pool in pools:
        missing = [taint for taint in pool.blocking_taints if not tolerates(given, taint)]
        if missing:
            return pool, missing
    return None


def _charts(world: World, agents: Mapping[str, Agent]) -> Iterator[Hit]:
    for release in world.releases:
        agent = agents.get(release.chart)
        if agent is None:
            continue
        given = get(release.values, *agent.path)
        if is_hidden(given):
            continue
        found = _untolerated(agent.default if given is None else given, _gpu_pools(world, agent))
        if found:
            yield _hit(release, (*release.values_path, *agent.path), *found)


def _hit(release: Release, path: Path, pool: Pool, taints: list[Taint]) -> Hit:
    message = (
        f"{release.label} does not tolerate {listed([str(taint) for taint in taints])} of pool {pool.name}"
    )
    return Hit(release.subject, path, message)


def _daemons(world: World, *words: str) -> Iterator[Pod]:
    """DaemonSets whose image has one of these names."""
    for pod in world.pods:
        if pod.owner.kind == "DaemonSet" and any(
            container.image and container.image.name in words for container in pod.containers
        ):
            yield pod


def _daemon_hits(world: World, agent: Agent, *words: str) -> Iterator[Hit]:
    for pod in _daemons(world, *words):
        pools = [pool for pool in _gpu_pools(world, agent) if _may_land(world, pod, pool)]
        found = _untolerated(pod.spec.get("tolerations"), pools)
        if found:
            pool, taints = found
            message = f"{pod.label} does not tolerate {listed([str(taint) for taint in taints])} of pool {pool.name}"
            yield Hit(pod.owner, (*pod.spec_path, "tolerations"), message)


def _may_land(world: World, pod: Pod, pool: Pool) -> bool:
    return pool.kind == "stack" or any(candidate is pool for candidate, _ in world.candidates(pod))


def device_plugin(world: World) -> Iterator[Hit]:
    """Device plugins that miss tainted GPU nodes."""
    yield from _charts(world, DEVICE_PLUGINS)
    yield from _daemon_hits(world, DEVICE_PLUGINS["nvidia-device-plugin"], "k8s-device-plugin")


def efa_plugin(world: World) -> Iterator[Hit]:
    """EFA plugins that miss tainted GPU nodes."""
    yield from _charts(world, EFA_PLUGINS)
    yield from _daemon_hits(world, EFA_PLUGINS["aws-efa-k8s-device-plugin"], "aws-efa-k8s-device-plugin")


def exporter(world: World) -> Iterator[Hit]:
    """Exporters that miss tainted GPU nodes."""
    yield from _charts(world, EXPORTERS)
    yield from _daemon_hits(world, EXPORTERS["dcgm-exporter"], "dcgm-exporter")


def csi(world: World) -> Iterator[Hit]:
    """S3 CSI drivers that miss tainted GPU nodes."""
    for release in world.releases:
        if release.chart != CSI_DRIVER:
            continue
        tolerations = _csi_tolerations(release)
        found = None if tolerations is None else _untolerated(tolerations, _gpu_pools(world))
        if found:
            yield _hit(release, (*release.values_path, "node", "tolerateAllTaints"), *found)
    yield from _daemon_hits(world, Agent((), []), "aws-mountpoint-s3-csi-driver")


def _csi_tolerations(release: Release) -> list[object] | None:
    """What the driver's node pods tolerate, by the chart's own rules; None where it is not known."""
    node = get(release.values, "node")
    everything, default = get(node, "tolerateAllTaints"), get(node, "defaultTolerations")
    if is_hidden(node) or is_hidden(everything):
        return None
    major = (version_of(release.version) or (2, 0))[0]
    if flag(everything) is True or (everything is None and major >= 2):  # noqa: PLR2004 - the chart's second major
        return list(_EVERY)
    given = get(node, "tolerations")
    base = [] if flag(default) is False else list(_EXECUTE)
    return [*base, *(given if isinstance(given, list) else [])]


def uverbs(world: World) -> Iterator[Hit]:
    """Plugin versions that take the EFA devices."""
    uses_efa = any(pod.efa for pod in world.pods) or any(
        release.chart in EFA_PLUGINS for release in world.releases
    )
    for release in world.releases:
        version = version_of(release.version)
        if release.chart != "nvidia-device-plugin" or not uses_efa or version is None:
            continue
        if (0, 19, 0) <= version <= (0, 19, 2) and flag(get(release.values, "mofedEnabled")) is not False:
            message = (
                f"{release.label} {release.version} mounts every uverbs device, which the EFA plugin needs"
            )
            yield Hit(release.subject, release.version_path, message)


RULES: Table = (
    (DEVICE_PLUGIN, device_plugin), (CSI, csi), (EFA_PLUGIN, efa_plugin), (EXPORTER, exporter), (UVERBS, uverbs),
)  # fmt: skip
