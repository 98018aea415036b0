"""GPU nodes kept warm for one model."""

from dataclasses import dataclass

import pulumi

from components import conventions, pins
from components.chart import install_chart
from components.kubernetes_object import KubernetesObject
from components.manifests import headroom
from components.settings.platform import PlatformSettings


@dataclass(frozen=True, kw_only=True)
class HeadroomArgs:
    """For what headroom is held, and whether KEDA has to be installed for it.

    Attributes:
        settings: the stack's settings.
        install: False where the cluster has KEDA already.
    """

    settings: PlatformSettings
    install: bool = True


class Headroom(pulumi.ComponentResource):
    """GPU nodes kept warm for one model; nothing where the settings hold none.

    Makes:
    * KEDA by its chart
    * a Deployment of pause pods, as large as the model's workers and first to be displaced by them
    * a ScaledObject that holds some of them in office hours, and more when requests wait
    """

    def __init__(self, name: str, args: HeadroomArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Headroom", name, None, opts)
        manifests = headroom.objects(args.settings)
        after: list[pulumi.Resource] = []
        if manifests and args.install:
            values = headroom.chart_values(args.settings.images)
            after.append(
                install_chart(f"{name}-keda", pins.KEDA, values, pulumi.ResourceOptions(parent=self))
            )
        for manifest in manifests:
            # In this order: the Deployment must be there for the ScaledObject to be ready, and on destroy KEDA must be
            # there to take its finalizer from the ScaledObject.
            options = pulumi.ResourceOptions(
                parent=self,
                depends_on=[*after],
                # KEDA's from the first moment on; without this every update would set it back to 0.
                ignore_changes=["spec.replicas"] if manifest["kind"] == "Deployment" else None,
            )
            after.append(KubernetesObject(f"{name}-{manifest['kind'].lower()}", manifest, options))
        self.register_outputs({})
