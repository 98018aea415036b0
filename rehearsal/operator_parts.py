"""The operators and AWS services of a rehearsal as processes, one row each.

What an operator is told comes from its release, as the real chart would tell it: Karpenter's environment is made from
the values that our program gives its chart, so a wrong value shows here. The rest of its environment says where the
simulated AWS is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import pins
from components.quantities import quantity
from rehearsal import doorway, namespace
from rehearsal.errors import ControlPlaneError
from rehearsal.kubelet.images import PROCESS_IMAGES, SIMULATED_ANNOTATION, Local
from rehearsal.places import Part, Places
from rehearsal.probes import answers, healthz

STUB_LABEL = "llm-platform.dev/stub-chart"  # on the ConfigMap of a stub chart (charts.py)
STAGES = Path(__file__).with_name("kwok_stages.yaml")
# Simulated pods and nodes: ranges that are kept for documentation and benchmarks, so they lead nowhere.
SIMULATED_PODS = "198.18.0.0/15"
SIMULATED_NODE = "192.0.2.10"

# Karpenter's chart settings and the environment variables that its template makes of them (chart 1.14.1).
KARPENTER_SETTINGS = {
    "clusterName": "CLUSTER_NAME",
    "interruptionQueue": "INTERRUPTION_QUEUE",
    "batchMaxDuration": "BATCH_MAX_DURATION",
    "batchIdleDuration": "BATCH_IDLE_DURATION",
    "preferencePolicy": "PREFERENCE_POLICY",
    "minValuesPolicy": "MIN_VALUES_POLICY",
    "clusterCABundle": "CLUSTER_CA_BUNDLE",
    "clusterEndpoint": "CLUSTER_ENDPOINT",
    "isolatedVPC": "ISOLATED_VPC",
    "eksControlPlane": "EKS_CONTROL_PLANE",
    "vmMemoryOverheadPercent": "VM_MEMORY_OVERHEAD_PERCENT",
    "enableZonalShift": "ENABLE_ZONAL_SHIFT",
    "reservedENIs": "RESERVED_ENIS",
    "ignoreDRARequests": "IGNORE_DRA_REQUESTS",
    "disableClusterStateObservability": "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "disableDryRun": "DISABLE_DRY_RUN",
    "amiRefreshInterval": "AMI_REFRESH_INTERVAL",
    "subnetRefreshInterval": "SUBNET_REFRESH_INTERVAL",
}


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"rehearsal.{name}", *arguments]


def _always(_places: Places) -> bool:
    return True


def _doorway(places: Places) -> list[str]:
    return _module("doorway", f"--state={places.state}", f"--kubeconfig={places.kubeconfig_inside}")


def _moto(places: Places) -> list[str]:
    account, folder = places.facts["account"], str(places.state / "aws")
    return _module("aws.server", places.address, str(places.ports["moto"]), account, folder)


def _prices(places: Places) -> list[str]:
    return _module("prices", places.address, str(places.ports["prices"]), str(places.state))


def _agents(places: Places) -> list[str]:
    return _module(
        "agents",
        f"--kubeconfig={places.kubeconfig_inside}",
        f"--endpoint={places.inside('moto')}",
        f"--account={places.facts['account']}",
        f"--region={places.facts['region']}",
    )


def _kubelet(places: Places) -> list[str]:
    return _module(
        "kubelet",
        f"--kubeconfig={places.kubeconfig_inside}",
        f"--state={places.state / 'kubelet'}",
        f"--bridge={namespace.ADDRESS}",
    )


def _kwok(places: Places) -> list[str]:
    config = places.state / "kwok.yaml"
    # Where no kubelet runs processes, their pods are simulated like all others.
    query = process_pod_query(PROCESS_IMAGES if "kubelet" in places.parts else {})
    config.write_text(STAGES.read_text().replace("PROCESS_POD", json.dumps(query)))
    return [
        str(places.binaries["kwok"]),
        f"--kubeconfig={places.kubeconfig_inside}",
        f"--config={config}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        f"--node-ip={SIMULATED_NODE}",
        f"--cidr={SIMULATED_PODS}",
        f"--server-address={places.address}:{places.ports['kwok']}",
    ]


def process_pod_query(images: Mapping[str, Local]) -> str:
    """Whether a pod runs as processes, as `kubelet.images.runs_here` says it, in the words of jq for kwok."""
    rows = []
    for name, local in images.items():
        pattern = json.dumps(f"(^|/){re.escape(name)}([:@]|$)")
        words = [f"(.spec.containers[0].image | test({pattern}))"]
        for label, value in local.labels.items():
            found = f'(.metadata.labels // {{}})["{label}"]'
            words.append(f"{found} != null" if value is None else f'{found} == "{value}"')
        rows.append(f"({' and '.join(words)})")
    kept = f'(.metadata.annotations // {{}})["{SIMULATED_ANNOTATION}"] != "true"'
    return f"({' or '.join(rows)}) and {kept}" if rows else "false"


def _kuberay(places: Places) -> list[str]:
    return [
        str(places.binaries["kuberay"]),
        # Pods have no names or addresses that this process could reach but through the API server.
        "--use-kubernetes-proxy",
        "--enable-leader-election=false",
        f"--metrics-addr={places.address}:{places.ports['kuberay-metrics']}",
        f"--health-probe-bind-address={places.address}:{places.ports['kuberay']}",
        "--log-stdout-encoder=console",
    ]


def _kubeconfig(places: Places) -> Mapping[str, str]:
    return {"KUBECONFIG": str(places.kubeconfig_inside)}


def _karpenter(places: Places) -> list[str]:
    return [str(places.binaries["karpenter"])]


def _karpenter_environment(places: Places) -> Mapping[str, str]:
    release = places.releases.get(pins.KARPENTER.name)
    if release is None:
        raise ControlPlaneError(
            "Karpenter takes its settings from the release of its chart, and there is none."
        )
    return {
        **_kubeconfig(places),
        **karpenter_settings(release.values),
        "SYSTEM_NAMESPACE": release.namespace,
        "KARPENTER_SERVICE": "karpenter",
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(places.ports["karpenter-metrics"]),
        "HEALTH_PROBE_PORT": str(places.ports["karpenter"]),
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": places.inside("moto"),
        "AWS_ENDPOINT_URL_PRICING": places.inside("prices"),
    }


def karpenter_settings(values: Mapping[str, Any]) -> dict[str, str]:
    """The environment that Karpenter's chart makes of its values. Raises ControlPlaneError for an unknown setting."""
    settings, controller = dict(values.get("settings", {})), values.get("controller", {})
    gates = settings.pop("featureGates", {})
    if unknown := sorted(settings.keys() - KARPENTER_SETTINGS.keys()):
        raise ControlPlaneError(
            f"The release of the chart karpenter sets settings.{unknown[0]}, which the chart does not have."
        )
    result = {KARPENTER_SETTINGS[name]: _text(value) for name, value in settings.items()}
    if gates:
        pairs = (f"{name[0].upper()}{name[1:]}={_text(value)}" for name, value in gates.items())
        result["FEATURE_GATES"] = ",".join(pairs)
    resources = controller.get("resources", {})
    if cpu := resources.get("requests", {}).get("cpu"):
        result["CPU_REQUESTS"] = str(round(quantity(cpu) * 1000))
    if memory := resources.get("limits", {}).get("memory"):
        result["MEMORY_LIMIT"] = str(round(quantity(memory)))
    return result | {row["name"]: _text(row.get("value", "")) for row in controller.get("env", [])}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


PARTS = (
    Part(
        "doorway",
        "",
        _doorway,
        lambda places: doorway.reachable(places.state),
        namespace=True,
    ),
    Part("moto", "", _moto, lambda places: answers(f"{places.inside('moto')}/moto-api/data.json")),
    Part("prices", "", _prices, healthz("prices", "http")),
    Part("kwok", "kwok", _kwok, healthz("kwok", "http")),
    Part("agents", "", _agents, _always),
    Part("kubelet", "", _kubelet, _always, namespace=True),
    Part(
        "kuberay",
        "kuberay",
        _kuberay,
        healthz("kuberay", "http"),
        env=_kubeconfig,
        chart=pins.KUBERAY.name,
        needs=("rayclusters.ray.io", "rayservices.ray.io", "rayjobs.ray.io"),
    ),
    Part(
        "karpenter",
        "karpenter",
        _karpenter,
        healthz("karpenter", "http"),
        env=_karpenter_environment,
        chart=pins.KARPENTER.name,
        needs=("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"),
    ),
)
PORTS = ("moto", "prices", "kwok", "kuberay", "kuberay-metrics", "karpenter", "karpenter-metrics")
