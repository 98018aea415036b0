"""The controller that makes the stack's load balancer out of the models' ingresses."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components import conventions, identity, pins
from components.chart import install_chart
from components.cluster import ClusterHandle
from components.manifests import operator_values
from components.manifests.iam import load_balancer
from components.settings import PlatformSettings
from components.settings.cluster import ImageSettings, Operator


@dataclass(frozen=True, kw_only=True)
class GatewayArgs:
    """What is installed is read from the settings.

    Attributes:
        settings: whether the stack has an endpoint, and whether its cluster has the controller.
        cluster: where the controller runs.
    """

    settings: PlatformSettings
    cluster: ClusterHandle


class Gateway(pulumi.ComponentResource):
    """The AWS load balancer controller, when the stack has an endpoint and the cluster has it not.

    Makes:
    * its policy and its role, handed to its service account by Pod Identity;
    * its chart, which brings the ingress class `alb`.

    The load balancer itself is made by the controller: one for the stack, because the ingress of every model names the
    same group. Whatever has an ingress depends on this component, so that on destroy the controller still takes the load
    balancer away before it goes.
    """

    installed: bool

    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Gateway", name, None, opts)
        operator = args.settings.operators.load_balancer_controller
        self.installed = args.settings.endpoint is not None and operator is Operator.INSTALL
        if self.installed:
            self._install(name, args.cluster, args.settings.images)
        self.register_outputs({"installed": self.installed})

    def _install(self, name: str, cluster: ClusterHandle, images: ImageSettings) -> None:
        scope = cluster.scope("installing the load balancer controller")
        child = pulumi.ResourceOptions(parent=self)
        after_cluster = pulumi.ResourceOptions(parent=self, depends_on=list(cluster.ready))
        policy = aws.iam.Policy(
            f"{name}-policy",
            description=f"Load balancer controller of {scope.cluster}",
            policy=json.dumps(load_balancer.policy(scope.region)),
            opts=child,
        )
        account = identity.ServiceAccount(
            cluster=scope.cluster,
            namespace=pins.LOAD_BALANCER_CONTROLLER.namespace,
            name=conventions.LOAD_BALANCER_SERVICE_ACCOUNT,
        )
        role = identity.pod_role(f"{name}-controller", account, {"policy": policy.arn}, child)
        association = identity.associate(f"{name}-identity", role, after_cluster)
        install_chart(
            f"{name}-chart",
            pins.LOAD_BALANCER_CONTROLLER,
            operator_values.load_balancer_controller(scope.cluster, scope.region, cluster.vpc_id, images),
            pulumi.ResourceOptions(parent=self, depends_on=[*cluster.ready, association, *role.permissions]),
        )
