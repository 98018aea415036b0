"""Karpenter, which launches nodes for pods that have none."""

import json
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components import conventions, identity, pins
from components.chart import install_chart
from components.cluster import ClusterHandle
from components.manifests import iam, operator_values
from components.manifests.iam import karpenter as permissions
from components.settings import PlatformSettings
from components.settings.cluster import ImageSettings

QUEUE_RETENTION = (
    300  # seconds; a spot warning is worth nothing after two minutes (Karpenter's CloudFormation)
)


@dataclass(frozen=True, kw_only=True)
class KarpenterArgs:
    """What Karpenter needs.

    Attributes:
        cluster: where it runs.
        install: False when the cluster has it already; then nothing is made.
        existing_node_role: name of a role that nodes take, with its access entry; made here when not given.
        images: where images are pulled from.
    """

    cluster: ClusterHandle
    install: bool = True
    existing_node_role: str | None = None
    images: ImageSettings = field(default_factory=ImageSettings)

    @classmethod
    def of(cls, settings: PlatformSettings, cluster: ClusterHandle) -> "KarpenterArgs":
        """Karpenter as a stack's settings ask for it."""
        existing = settings.cluster.existing
        return cls(
            cluster=cluster,
            install=settings.operators.installs("karpenter"),
            existing_node_role=existing.node_role if existing else None,
            images=settings.images,
        )


class Karpenter(pulumi.ComponentResource):
    """Karpenter and what it needs of AWS.

    Makes:
    * the controller's role with six policies, handed to its service account by Pod Identity;
    * the role of the nodes, and its access entry, without which no node joins;
    * a queue, and five EventBridge rules that tell it of spot interruptions and everything else that takes a node away;
    * the chart of the CRDs, then that of the controller.

    On destroy the controller goes before its permissions, its queue and the nodes' access, so that it can still end nodes.
    """

    node_role_name: str
    """Name of the nodes' role, known at preview; empty when Karpenter was there and no role was named."""

    def __init__(self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Karpenter", name, None, opts)
        self._name, self._args, self._cluster = name, args, args.cluster
        self.node_role_name = args.existing_node_role or ""
        if args.install:
            self._install()
        self.register_outputs({"nodeRoleName": self.node_role_name})

    def _install(self) -> None:
        scope = self._cluster.scope("installing Karpenter")
        needed: list[pulumi.Resource] = []
        if not self._args.existing_node_role:
            self.node_role_name = iam.role_name(scope.cluster, "node", scope.region)
            needed += self._make_node_role(self.node_role_name)
        queue_name = f"{scope.cluster}-interruption"
        needed += self._make_queue(queue_name, scope)
        needed += self._make_controller_role(scope, queue_name)
        crds = install_chart(f"{self._name}-crds", pins.KARPENTER_CRDS, {}, self._child(*self._cluster.ready))
        install_chart(
            f"{self._name}-chart",
            pins.KARPENTER,
            operator_values.karpenter(scope.cluster, scope.region, queue_name, self._args.images),
            self._child(crds, *needed),
            skip_crds=True,
        )

    def _child(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))

    def _make_node_role(self, role_name: str) -> list[pulumi.Resource]:
        role = identity.node_role(
            f"{self._name}-node",
            self._cluster.name,
            self._cluster.region,
            self._args.images,
            self._child(),
            role_name=role_name,  # EC2NodeClass names it, and rules read that at preview
        )
        access = aws.eks.AccessEntry(
            f"{self._name}-node-access",
            cluster_name=self._cluster.name,
            principal_arn=role.role.arn,
            type="EC2_LINUX",
            opts=self._child(*self._cluster.ready),
        )
        return [*role.permissions, access]

    def _make_queue(self, queue_name: str, scope: iam.Scope) -> list[pulumi.Resource]:
        queue = aws.sqs.Queue(
            f"{self._name}-interruption",
            name=queue_name,
            message_retention_seconds=QUEUE_RETENTION,
            sqs_managed_sse_enabled=True,
            opts=self._child(),
        )
        policy = aws.sqs.QueuePolicy(
            f"{self._name}-interruption-policy",
            queue_url=queue.url,
            policy=json.dumps(permissions.queue_policy(scope.arn("sqs", queue_name))),
            opts=self._child(),
        )
        targets = [self._make_event(what, queue, policy) for what in permissions.EVENTS]
        return [queue, policy, *targets]

    def _make_event(self, what: str, queue: aws.sqs.Queue, policy: pulumi.Resource) -> pulumi.Resource:
        source, detail = permissions.EVENTS[what]
        rule = aws.cloudwatch.EventRule(
            f"{self._name}-event-{what}",
            description=f"{detail} for Karpenter of {self._cluster.name}",
            event_pattern=json.dumps({"source": [source], "detail-type": [detail]}),
            opts=self._child(),
        )
        return aws.cloudwatch.EventTarget(
            f"{self._name}-target-{what}",
            rule=rule.name,
            target_id="karpenter-interruption-queue",
            arn=queue.arn,
            opts=self._child(policy),
        )

    def _make_controller_role(self, scope: iam.Scope, queue_name: str) -> list[pulumi.Resource]:
        documents = permissions.policies(scope, self.node_role_name, queue_name)
        policies = {
            what: aws.iam.Policy(
                f"{self._name}-policy-{what}",
                description=f"Karpenter of {scope.cluster}: {what}",
                policy=json.dumps(document),
                opts=self._child(),
            )
            for what, document in documents.items()
        }
        account = identity.ServiceAccount(
            cluster=scope.cluster,
            namespace=pins.KARPENTER.namespace,
            name=conventions.KARPENTER_SERVICE_ACCOUNT,
        )
        role = identity.pod_role(
            f"{self._name}-controller",
            account,
            {what: policy.arn for what, policy in policies.items()},
            self._child(),
        )
        association = identity.associate(f"{self._name}-identity", role, self._child(*self._cluster.ready))
        return [*role.permissions, association]
