"""The tiny model in the place of a stack's own: what a rehearsal changes in the RayServices, and nothing else.

    manifest, said = substituted(manifest, weights, time_factor=1)

Everything that differs is a sentence, printed by whoever brings the stack up. It is applied to what the program asks
the engine for, by a resource transform, so that the policies, the API server and KubeRay all see the same object.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from rehearsal.kubelet.images import SIMULATED_ANNOTATION
from tools.serving.on_cpu import substitute, with_gpus

Manifest = dict[str, Any]

VARIABLE = "LLMP_SUBSTITUTE"  # of the engine's process: a `Substitution` as JSON
RAY_SERVICE = "kubernetes:ray.io/v1:RayService"
INGRESS = "kubernetes:networking.k8s.io/v1:Ingress"
NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
RESERVATIONS = "capacityReservationSelectorTerms"
WAIT_FOR_WEIGHTS = "wait-for-weights"  # the init container of components/manifests/ray_pods.py
WAITS = ("pulumi.com/waitFor", "pulumi.com/timeoutSeconds")
GPUS = "Ray asks for the GPUs of a replica in one bundle with one CPU"
# Sixty-four full contexts of the tiny model, at 512 bytes a token. vLLM's variable for the CPU would win over this, and
# says 1 GiB at least; four engines run beside each other while a model moves to new pods.
KV_BYTES = 64 << 20
# What a scenario may shorten by one factor: times that only make people wait. Shorter ones than this stay.
TIME_FACTOR = 0.2
LONG_SECONDS = 60
_DRAIN = "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"

# What was changed in the program that this process runs, in words; the engine's runner hands it on.
SAID: list[str] = []


@dataclass(frozen=True)
class Substitution:
    """Which models answer for real, from which folder, and by which factor long times are shortened.

    A model that is not among them stays as it is: KubeRay makes its pods, which are simulated, so no Serve ever
    answers, and the engine is told not to wait for that.
    """

    models: tuple[str, ...] = ()
    weights: str = ""
    time_factor: float = 1.0

    def environment(self) -> dict[str, str]:
        """The variable that carries it into the engine's process."""
        return {VARIABLE: json.dumps(asdict(self))}


def substituted(
    manifest: Mapping[str, Any], weights: Path, time_factor: float = 1.0
) -> tuple[Manifest, list[str]]:
    """The RayService that the tiny model can serve on a CPU, and what differs from the one given."""
    result, said = _with_cluster(manifest, time_factor)
    text, more = _with_document(result["spec"]["serveConfigV2"], weights, time_factor)
    result["spec"]["serveConfigV2"] = text
    return result, [*more, *said]


def _with_document(text: str, weights: Path, factor: float) -> tuple[str, list[str]]:
    document = yaml.safe_load(text)
    said = [words for config in _configs(document) for words in _on_cpu(config, weights)]
    said += _shortened(list(_times_of_document(document)), factor)
    return yaml.safe_dump(document, sort_keys=False, width=1000), said


def _on_cpu(config: Manifest, weights: Path) -> list[str]:
    on_gpu = config.get("accelerator_config", {}).get("kind") != "cpu"
    said = substitute(config, weights, with_gpus, GPUS)
    if not on_gpu:
        return said
    config["engine_kwargs"]["kv_cache_memory_bytes"] = KV_BYTES
    return [*said, f"the KV cache takes {KV_BYTES >> 20} MiB: there is no GPU memory to take a share of"]


def _with_cluster(manifest: Mapping[str, Any], factor: float) -> tuple[Manifest, list[str]]:
    result: Manifest = _copied(manifest)
    cluster = result["spec"]["rayClusterConfig"]
    said = [*_without_redis(cluster), *_without_waiting(cluster)]
    return result, [*said, *_shortened(list(_times_of_service(result)), factor)]


def _copied(value: Any) -> Any:
    """A copy of mappings and lists; their leaves may be the engine's outputs, which have no copy."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def not_awaited(manifest: Mapping[str, Any]) -> Manifest:
    """The same object, for which the engine does not wait."""
    result: Manifest = _copied(manifest)
    annotations = result["metadata"].get("annotations") or {}
    kept = {name: value for name, value in annotations.items() if name not in WAITS}
    result["metadata"]["annotations"] = {**kept, "pulumi.com/skipAwait": "true"}
    return result


def simulated(manifest: Mapping[str, Any]) -> Manifest:
    """The same RayService with simulated pods, for which the engine does not wait: nothing answers in those."""
    result = not_awaited(manifest)
    for group in _groups(result["spec"]["rayClusterConfig"]):
        metadata = group["template"].setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), SIMULATED_ANNOTATION: "true"}
    return result


def without_reservations(manifest: Mapping[str, Any]) -> Manifest | None:
    """A node class without its capacity reservations, which moto knows nothing of; None for one that has none."""
    if RESERVATIONS not in manifest["spec"]:
        return None
    result: Manifest = _copied(manifest)
    del result["spec"][RESERVATIONS]
    return result


def _configs(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for application in document["applications"]:
        yield from application.get("args", {}).get("llm_configs", ())


def _without_redis(cluster: Manifest) -> list[str]:
    if cluster.pop("gcsFaultToleranceOptions", None) is None:
        return []
    return ["the head keeps its state itself: the stand-in for ElastiCache has no Redis behind it"]


def _without_waiting(cluster: Manifest) -> list[str]:
    """Without the init container that waits until the stack's own weights lie on the node's disk."""
    waiting = False
    for group in _groups(cluster):
        spec = group["template"]["spec"]
        kept = [row for row in spec.get("initContainers") or () if row["name"] != WAIT_FOR_WEIGHTS]
        if len(kept) != len(spec.get("initContainers") or ()):
            waiting = True
            spec["initContainers"] = kept
            if not kept:
                del spec["initContainers"]
    return ["no pod waits for the stack's own weights on its node's disk"] if waiting else []


def _containers(cluster: Manifest) -> Iterator[Manifest]:
    for group in _groups(cluster):
        yield group["template"]["spec"]["containers"][0]


def _groups(cluster: Manifest) -> list[Manifest]:
    return [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])]


def _times_of_service(service: Manifest) -> Iterator[tuple[Manifest, str]]:
    spec = service["spec"]
    cluster = spec["rayClusterConfig"]
    yield spec, "rayClusterDeletionDelaySeconds"
    # Not the autoscaler's idle time: a pod whose replica starts anew must outlive the start, which is slow here.
    yield service["metadata"].get("annotations") or {}, WAITS[1]
    for group in _groups(cluster):
        yield group["template"]["spec"], "terminationGracePeriodSeconds"
    for container in _containers(cluster):
        for variable in container.get("env", ()):
            if variable["name"] == _DRAIN:
                yield variable, "value"


def _times_of_document(document: Manifest) -> Iterator[tuple[Manifest, str]]:
    for application in document["applications"]:
        arguments = application.get("args", {})
        configs = [config.get("deployment_config", {}) for config in arguments.get("llm_configs", ())]
        for deployment in (*configs, arguments.get("ingress_deployment_config", {})):
            yield deployment, "graceful_shutdown_timeout_s"
            yield deployment.get("autoscaling_config", {}), "downscale_delay_s"


def _shortened(places: list[tuple[Manifest, str]], factor: float) -> list[str]:
    """Graces and delays by one factor, all of them, so that their order stays."""
    if factor == 1:
        return []
    cut = {name if name != "value" else _DRAIN for place, name in places if _cut(place, name, factor)}
    return [f"shortened to {factor} of their time: {', '.join(sorted(cut))}"] if cut else []


def _cut(place: Manifest, name: str, factor: float) -> bool:
    value = place.get(name)
    if value is None or float(value) <= LONG_SECONDS:
        return False
    short = max(1, round(float(value) * factor))
    place[name] = str(short) if isinstance(value, str) else short
    return True


def register() -> None:
    """Change the RayServices of the running program as the environment says; nothing without the variable.

    Called by the engine's runner in the program's process, before the program itself.
    """
    text = os.environ.get(VARIABLE)
    if text:
        chosen = Substitution(**json.loads(text))
        pulumi.runtime.register_resource_transform(lambda args: _transformed(args, chosen))


def _transformed(
    args: pulumi.ResourceTransformArgs, chosen: Substitution
) -> pulumi.ResourceTransformResult | None:
    if args.type_ not in (RAY_SERVICE, INGRESS, NODE_CLASS):
        return None
    manifest: Manifest = dict(args.props)
    name = str(manifest["metadata"]["name"])
    if args.type_ == NODE_CLASS:
        changed = without_reservations(manifest)
        if changed:
            _tell(name, ["its capacity reservations are left out: moto has none that Karpenter could find"])
        return pulumi.ResourceTransformResult(changed, args.opts) if changed else None
    if args.type_ == INGRESS:
        # Its Service comes with the first answer. The Ingress of a model has the model's name.
        result = None if name in chosen.models else not_awaited(manifest)
        return pulumi.ResourceTransformResult(result, args.opts) if result else None
    if name not in chosen.models:
        _tell(name, ["its pods are simulated, so nothing answers and the engine does not wait for that"])
        return pulumi.ResourceTransformResult(simulated(manifest), args.opts)
    weights, factor = Path(chosen.weights), chosen.time_factor
    served, said = _with_cluster(manifest, factor)

    def with_document(known: str) -> str:
        result, more = _with_document(known, weights, factor)
        _tell(name, [*more, *said])
        return result

    text = served["spec"]["serveConfigV2"]
    # Where weights are streamed from a bucket yet to be made, the document is known only after that.
    served["spec"]["serveConfigV2"] = (
        text.apply(with_document) if isinstance(text, pulumi.Output) else with_document(text)
    )
    return pulumi.ResourceTransformResult(served, args.opts)


def _tell(name: str, said: Iterable[str]) -> None:
    SAID.extend(f"{name}: {sentence}" for sentence in said)
