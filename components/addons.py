"""What nodes of GPU models need besides the cluster's own add-ons."""

from dataclasses import dataclass

import pulumi

from components import conventions, identity, pins
from components.chart import install_chart
from components.cluster import ClusterHandle
from components.kubernetes_object import KubernetesObject
from components.manifests import eks_values, operator_values
from components.settings import PlatformSettings
from components.settings.cluster import Operator


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """What is installed is read from the settings.

    Attributes:
        settings: pools (GPUs, EFA) and, for a cluster that was there before, what is present in it.
        cluster: where it is installed.
    """

    settings: PlatformSettings
    cluster: ClusterHandle


class Addons(pulumi.ComponentResource):
    """Node software for GPU models. Bottlerocket brings the NVIDIA driver and device plugin itself.

    Makes, as far as the cluster has it not:
    * on a cluster made here, the default storage class (gp3, encrypted);
    * the GPU metrics exporter (DCGM), when there are GPU pools;
    * the EFA device plugin, when a pool has EFA, on that pool's instance types;
    * on a cluster that was there before, the Mountpoint S3 CSI driver and its role (a cluster made here has it already).

    All of it tolerates the taint of GPU nodes.
    """

    s3_csi_role: pulumi.Input[str] | None
    """Name of the S3 CSI driver's role, for `ModelStorage`; None when the driver was there before."""

    def __init__(self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Addons", name, None, opts)
        self._name, self._cluster = name, args.cluster
        made_here = args.settings.cluster.create is not None
        operators, pools = args.settings.operators, args.settings.gpu_pools
        self.s3_csi_role = args.cluster.s3_csi_role
        if made_here:
            KubernetesObject(f"{name}-storage-class", operator_values.default_storage_class(), self._child())
        if pools and operators.gpu_addons is Operator.INSTALL:
            install_chart(
                f"{name}-dcgm",
                pins.DCGM_EXPORTER,
                operator_values.dcgm_exporter(args.settings.images),
                self._child(),
            )
        if any(pool.efa for pool in pools) and operators.gpu_addons is Operator.INSTALL:
            install_chart(f"{name}-efa", pins.EFA_PLUGIN, operator_values.efa_plugin(pools), self._child())
        if not made_here and operators.s3_csi is Operator.INSTALL:
            self.s3_csi_role = self._install_s3_csi()
        self.register_outputs({"s3CsiRole": self.s3_csi_role})

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(self._cluster.ready))

    def _install_s3_csi(self) -> pulumi.Output[str]:
        """The driver's add-on with a role; EKS wants its Pod Identity agent to be there."""
        scope = self._cluster.scope("installing the S3 CSI driver")
        account = identity.ServiceAccount(
            cluster=scope.cluster,
            namespace=conventions.SYSTEM_NAMESPACE,
            name=conventions.S3_CSI_SERVICE_ACCOUNT,
        )
        driver = "aws-mountpoint-s3-csi-driver"
        role = identity.pod_role(f"{self._name}-s3-csi", account, {}, self._child())
        identity.eks_addon(
            f"{self._name}-addon-{driver}",
            driver,
            pins.ADDONS[driver].version,
            scope.cluster,
            self._child(),
            configuration=eks_values.S3_CSI,
            role=role,
        )
        return role.role.name
