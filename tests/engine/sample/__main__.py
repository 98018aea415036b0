"""A Namespace with one object of each kind that the provider waits for: Deployment, Job, claim, Service, Ingress.

The last two only with `llm-platform:network`: the provider watches a Service for 10 s whatever happens.
"""

from typing import Any

import pulumi

MANAGED = {"app.kubernetes.io/managed-by": "llm-platform"}
SELECTOR = {"app": "web"}
SIZE = {
    "resources": {"requests": {"storage": "1Gi"}},
    "accessModes": ["ReadOnlyMany"],
    "storageClassName": "",
}


def _manifest(api_version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": MANAGED, **({} if kind in CLUSTER_KINDS else {"namespace": "sample"})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _pod(restart: str, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": SELECTOR},
        "spec": {"restartPolicy": restart, "containers": [{"name": "main", "image": "none", **more}]},
    }


CLUSTER_KINDS = ("Namespace", "PersistentVolume")
greeting = pulumi.Config("llm-platform").require("greeting")
namespace_manifest = _manifest("v1", "Namespace", "sample")
manifests = [
    _manifest("v1", "ConfigMap", "settings", data={"greeting": greeting}),
    _manifest(
        "apps/v1",
        "Deployment",
        "web",
        spec={
            "replicas": 2,
            "selector": {"matchLabels": SELECTOR},
            "template": {
                **_pod("Always"),
                "spec": {
                    **_pod("Always")["spec"],
                    "nodeSelector": {"llm-platform.dev/workload": "serving-cpu"},
                },
            },
        },
    ),
    _manifest("batch/v1", "Job", "once", spec={"template": {"spec": _pod("Never")["spec"]}}),
    _manifest(
        "v1",
        "PersistentVolume",
        "weights",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany"],
            "csi": {"driver": "s3.csi.aws.com", "volumeHandle": "weights"},
        },
    ),
    _manifest("v1", "PersistentVolumeClaim", "weights", spec={**SIZE, "volumeName": "weights"}),
]
network_manifests = [
    _manifest("v1", "Service", "web", spec={"selector": SELECTOR, "ports": [{"port": 80}]}),
    _manifest(
        "networking.k8s.io/v1",
        "Ingress",
        "web",
        spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    ),
]
if pulumi.Config("llm-platform").get_bool("network"):
    manifests += network_manifests


class Placed(pulumi.CustomResource):
    """One object from a plain dict, as the platform's own components place theirs."""

    def __init__(self, manifest: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        """Register it under its kind and name."""
        version = manifest["apiVersion"]
        token = f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"
        name = f"{manifest['kind'].lower()}-{manifest['metadata']['name']}"
        options = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version="4.34.2"), opts)
        super().__init__(token, name, manifest, options)


class Provider(pulumi.ProviderResource):
    """The Kubernetes provider for one context of the kubeconfig."""

    def __init__(self, context: str) -> None:
        """Register it."""
        super().__init__(
            "kubernetes", "cluster", {"context": context}, pulumi.ResourceOptions(version="4.34.2")
        )


platform = pulumi.Config("llm-platform").require_object("platform")
provider = Provider(platform["cluster"]["existing"]["context"])
namespace = Placed(namespace_manifest, pulumi.ResourceOptions(provider=provider))
for manifest in manifests:
    Placed(manifest, pulumi.ResourceOptions(provider=provider, depends_on=[namespace]))
pulumi.export("greeting", greeting)
