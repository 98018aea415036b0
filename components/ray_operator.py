"""KubeRay, which turns a RayService into Ray clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components import conventions, pins
from components.chart import install_chart
from components.manifests.images import reference
from components.manifests.placement import SYSTEM_NODES_PREFERRED
from components.settings.cluster import ImageSettings

_IMAGE = pins.Image("quay.io/kuberay/operator", f"v{pins.KUBERAY.version}")


@dataclass(frozen=True, kw_only=True)
class RayOperatorArgs:
    """How KubeRay is installed.

    Attributes:
        install: False where the cluster has KubeRay already; the component then makes nothing.
        images: where its image is pulled from.
    """

    install: bool = True
    images: ImageSettings = field(default_factory=ImageSettings)


class RayOperator(pulumi.ComponentResource):
    """KubeRay, which turns a RayService into Ray clusters.

    Makes:
    * the KubeRay operator's chart, with its CRDs, two replicas of which one leads

    Helm creates the chart's CRDs before all else (a create has not the size limit of client-side apply, 262 kB for
    CRDs of 1 MB) and never upgrades them: docs/decisions/kuberay-crds.md says how a new version's are applied first.
    """

    def __init__(self, name: str, args: RayOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:RayOperator", name, None, opts)
        if args.install:
            install_chart(
                f"{name}-operator", pins.KUBERAY, _values(args.images), pulumi.ResourceOptions(parent=self)
            )
        self.register_outputs({})


def _values(images: ImageSettings) -> Mapping[str, Any]:
    repository, _, tag = reference(_IMAGE, images).rpartition(":")
    return {
        "image": {"repository": repository, "tag": tag},
        "replicas": 2,
        "leaderElectionEnabled": True,
        # The chart's own limit of 0.1 CPU makes it fall behind when several clusters start.
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "affinity": SYSTEM_NODES_PREFERRED,
        "podSecurityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "labels": conventions.labels("kuberay", "operator"),
    }
