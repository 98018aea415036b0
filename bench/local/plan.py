"""What a stack's RayService comes to on this machine: its own Serve document and environment, with few differences.

The document, the code in the ConfigMap and the variables are the emitted ones. What has to differ is changed here, in
one place, and each difference is kept as a sentence for the person who runs it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.serving.on_cpu import KV_CACHE, cpus_only, substitute

Document = dict[str, Any]

LOOPBACK = "127.0.0.1"
_GPUS = "each GPU of a replica is one CPU to Ray"


class PlanError(Exception):
    """The stack has nothing that can be served here. The message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One model of a stack, ready to start on this machine."""

    model: str
    mode: str
    document: Document
    environment: Mapping[str, str]
    code: Mapping[str, str]  # file name -> text, of the model's ConfigMap
    resources: Mapping[str, float]
    keys: bool
    differences: Sequence[str] = field(default=())

    @property
    def port(self) -> int:
        """Where it answers."""
        return int(self.document["http_options"]["port"])


def plan_for(
    objects: Iterable[Mapping[str, Any]], *, weights: Path, port: int, model: str | None = None, folder: Path
) -> Plan:
    """The plan of one model of a stack's objects: the named one, or the only one.

    `weights` is the folder of the model that is served in place of the stack's; `folder` takes code and keys.

    Raises:
        PlanError: there is no such model, or more than one and none is named.
    """
    objects = list(objects)
    service = _service(objects, model)
    cluster = service["spec"]["rayClusterConfig"]
    document = yaml.safe_load(service["spec"]["serveConfigV2"])
    changes = _Changes(copy.deepcopy(document), weights, port, folder)
    environment = changes.environment(_environment(cluster))
    return Plan(
        model=service["metadata"]["name"],
        mode="direct" if environment.get("RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING") == "1" else "routed",
        document=changes.document(),
        environment=environment,
        code=_code(objects, cluster),
        resources=_resources(cluster, document),
        keys=_takes_keys(cluster),
        differences=tuple(changes.said),
    )


def _service(objects: Sequence[Mapping[str, Any]], model: str | None) -> Mapping[str, Any]:
    services = {o["metadata"]["name"]: o for o in objects if o.get("kind") == "RayService"}
    if not services:
        raise PlanError("This stack has no model, so there is nothing to serve.")
    if model is None and len(services) > 1:
        raise PlanError(
            f"This stack has several models; name one with --model: {', '.join(sorted(services))}."
        )
    name = model or next(iter(services))
    if name not in services:
        raise PlanError(f"This stack has no model named {name}; it has {', '.join(sorted(services))}.")
    return services[name]


def _containers(cluster: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The Ray container of the head and of each group."""
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    return [group["template"]["spec"]["containers"][0] for group in groups]


def _environment(cluster: Mapping[str, Any]) -> dict[str, str]:
    """Variables of all groups together, since all of them are one node here. References have no value here."""
    variables = [v for container in _containers(cluster) for v in container.get("env", ())]
    return {variable["name"]: variable["value"] for variable in variables if "value" in variable}


def _code(objects: Sequence[Mapping[str, Any]], cluster: Mapping[str, Any]) -> dict[str, str]:
    volumes = cluster["headGroupSpec"]["template"]["spec"].get("volumes", ())
    names = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    maps = [o for o in objects if o.get("kind") == "ConfigMap" and o["metadata"]["name"] in names]
    return {file: text for o in maps for file, text in o["data"].items() if file.endswith(".py")}


def _takes_keys(cluster: Mapping[str, Any]) -> bool:
    return any(
        m["name"] == "keys" for container in _containers(cluster) for m in container.get("volumeMounts", ())
    )


def _resources(cluster: Mapping[str, Any], document: Document) -> dict[str, float]:
    """What Ray counts on all pods that the document may ask for, on one node. GPUs become CPUs."""
    replicas = _most_replicas(document)
    total: dict[str, float] = {"CPU": 1}
    for group in cluster["workerGroupSpecs"]:
        pods = max(int(group.get("replicas", 1)), replicas)
        for name, amount in group.get("resources", {}).items():
            counted = "CPU" if name == "GPU" else name
            if not name.startswith("accelerator_type:"):
                total[counted] = total.get(counted, 0) + float(amount) * pods
    return total


def _most_replicas(document: Document) -> int:
    arguments = document["applications"][0].get("args", {})
    configs = arguments.get("llm_configs", [])
    scaling = configs[0]["deployment_config"].get("autoscaling_config", {}) if configs else {}
    return int(scaling.get("max_replicas", 1))


class _Changes:
    """The differences, each applied and said once."""

    def __init__(self, document: Document, weights: Path, port: int, folder: Path) -> None:
        self._document = document
        self._weights = weights
        self._port = port
        self._folder = folder
        self.said: list[str] = []

    def environment(self, emitted: dict[str, str]) -> dict[str, str]:
        """The emitted variables; those that name a place in a pod or another service name one here."""
        keys = str(self._folder / "keys")
        here = {
            "PYTHONPATH": str(self._folder / "code"),
            "LLM_PLATFORM_KEYS_FILE": keys,
            "HF_HUB_OFFLINE": "1",
        }
        result = {**emitted, **here, **dict([KV_CACHE])}
        if result.pop("RAY_AUTH_MODE", None):
            self.said.append("Ray's own API asks for a token: who reaches it runs code as you")
        if result.pop("RAY_PROMETHEUS_HOST", None):
            self.said.append(
                "RAY_PROMETHEUS_HOST is not set: no Prometheus runs here, so scaling counts requests"
            )
        return result

    def document(self) -> Document:
        document = self._document
        document["http_options"] |= {"host": LOOPBACK, "port": self._port}
        self.said.append(f"HTTP is served on {LOOPBACK}:{self._port} only")
        for application in document["applications"]:
            for config in application.get("args", {}).get("llm_configs", ()):
                self.said += substitute(config, self._weights, cpus_only, _GPUS)
            self._ingress(application.get("args", {}))
        return document

    def _ingress(self, arguments: Document) -> None:
        extra = arguments.get("ingress_cls_config", {}).get("ingress_extra_kwargs", {})
        if "keys_file" in extra:
            extra["keys_file"] = str(self._folder / "keys")
        deployment = arguments.get("ingress_deployment_config", {})
        if deployment.pop("max_replicas_per_node", None) and self._ingresses(deployment) > 1:
            self.said.append(
                "all ingress replicas share one Ray node; in the cluster each has a pod of its own"
            )

    @staticmethod
    def _ingresses(deployment: Document) -> int:
        return int(deployment.get("autoscaling_config", {}).get("min_replicas", 1))
