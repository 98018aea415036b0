"""An EKS cluster with its system nodes and add-ons."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes

from components import conventions, identity, pins
from components.manifests import eks_values, iam
from components.settings.cluster import CreateCluster, ImageSettings

LOG_DAYS = 90
DATA_VOLUME_GIB = 50  # images and logs of operators; Bottlerocket's own 20 are too few for all of them


@dataclass(frozen=True, kw_only=True)
class ClusterArgs:
    """What a cluster is made of.

    Attributes:
        settings: version, endpoint access, administrators, logs, key and system nodes.
        region: region of the cluster.
        vpc_id: VPC of the subnets.
        private_subnet_ids: subnets of the control plane's interfaces and of the system nodes, in two zones at least.
        node_security_group_id: the one group of all nodes.
        images: where images are pulled from.
        tags: AWS tags of the system nodes and their volumes, for the bill; the provider's default tags do not reach them.
        protect: refuse to delete the cluster until this is turned off.
    """

    settings: CreateCluster
    region: str
    vpc_id: pulumi.Input[str]
    private_subnet_ids: tuple[pulumi.Input[str], ...]
    node_security_group_id: pulumi.Input[str]
    images: ImageSettings = field(default_factory=ImageSettings)
    tags: Mapping[str, str] = field(default_factory=dict)
    protect: bool = True


class Cluster(pulumi.ComponentResource):
    """An EKS cluster with its system nodes and add-ons.

    Makes:
    * the cluster by `pulumi_eks.Cluster`: access entries only, no default nodes, no add-ons of its own, private endpoint;
    * the log group of its control plane, so that logs end some day;
    * the rules between the control plane and the nodes' security group;
    * a managed group of Bottlerocket nodes for operators, with encrypted volumes and no metadata for pods;
    * pinned add-ons: network (prefix delegation, network policies), kube-proxy and Pod Identity before the nodes; DNS, EBS
      and S3 drivers, metrics and node monitoring after them; each that calls AWS has a role of its own;
    * the Kubernetes provider of everything inside.
    """

    name: str
    kubernetes: pulumi_kubernetes.Provider
    kubeconfig: pulumi.Output[str]
    """JSON; asks `aws eks get-token` for credentials, so it holds none."""
    cluster_security_group_id: pulumi.Output[str]
    s3_csi_role: pulumi.Output[str]
    """Name of the S3 CSI driver's role; the storage gives it its permissions."""
    ready: tuple[pulumi.Resource, ...]

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Cluster", name, None, opts)
        self._name, self._args = name, args
        self.name = args.settings.name
        self._cluster = self._make_cluster()
        self.kubeconfig = self._cluster.kubeconfig_json
        self.cluster_security_group_id = self._cluster.cluster_security_group_id
        self.kubernetes = pulumi_kubernetes.Provider(
            f"{name}-kubernetes",
            kubeconfig=self.kubeconfig,
            # With it a changed kubeconfig does not plan to replace every object (pulumi-kubernetes DiffConfig).
            cluster_identifier=self.name,
            enable_server_side_apply=True,
            # An edit by hand is taken back: without it every preview after the edit stops with a conflict.
            enable_patch_force=True,
            # Else a changed ConfigMap is deleted before its new one is made: for a moment pods could not mount a model's
            # code, and each new revision of a model did so.
            enable_config_map_mutable=True,
            opts=self._child(),
        )
        rules = self._make_rules()
        before = self._make_addons_before_nodes()
        nodes = self._make_nodes(*before, *rules)
        after = self._make_addons_after_nodes(nodes)
        self.ready = (nodes, *before, *after)
        self.register_outputs(
            {
                "name": self.name,
                "kubeconfig": self.kubeconfig,
                "clusterSecurityGroupId": self.cluster_security_group_id,
                "s3CsiRole": self.s3_csi_role,
            }
        )

    def _child(self, *depends_on: pulumi.Input[pulumi.Resource]) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))

    def _in_cluster(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        """Options of what is made in the cluster by its plain name.

        The component alone would not do: a delete must wait for the EKS cluster inside of it.
        """
        return self._child(self._cluster, self._cluster.eks_cluster, *depends_on)

    def _make_cluster(self) -> eks.Cluster:
        settings, endpoint = self._args.settings, self._args.settings.endpoint_access
        logs = [
            # EKS would make it by itself at the first line, without an end.
            aws.cloudwatch.LogGroup(
                f"{self._name}-logs",
                name=f"/aws/eks/{settings.name}/cluster",
                retention_in_days=LOG_DAYS,
                opts=self._child(),
            )
            for _ in settings.log_types[:1]
        ]
        return eks.Cluster(
            f"{self._name}-eks",
            name=settings.name,
            version=settings.kubernetes_version,
            vpc_id=self._args.vpc_id,
            private_subnet_ids=list(self._args.private_subnet_ids),
            authentication_mode=eks.AuthenticationMode.API,
            access_entries=_administrators(settings, self._args.region),
            endpoint_private_access=True,
            endpoint_public_access=endpoint.public,
            public_access_cidrs=list(endpoint.cidrs) if endpoint.public else None,
            enabled_cluster_log_types=[log.value for log in settings.log_types],
            encryption_config_key_arn=settings.secrets_key_arn,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(
                support_type="STANDARD"
            ),  # extended costs six times as much
            deletion_protection=settings.deletion_protection,
            skip_default_node_group=True,
            skip_default_security_groups=True,  # two groups with the cluster's tag confuse the load balancer controller
            bootstrap_self_managed_addons=False,
            use_default_vpc_cni=True,  # means: leave it to us
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            create_oidc_provider=False,  # it would open the network even in a preview; pods use Pod Identity
            opts=pulumi.ResourceOptions.merge(
                self._child(*logs), pulumi.ResourceOptions(protect=self._args.protect)
            ),
        )

    def _make_rules(self) -> list[pulumi.Resource]:
        """Between EKS's own security group (control plane only: all nodes have ours) and the nodes' group."""
        plane, nodes = self.cluster_security_group_id, self._args.node_security_group_id

        def rule(
            what: str, group: pulumi.Input[str], peer: pulumi.Input[str], first: int, last: int
        ) -> pulumi.Resource:
            return aws.vpc.SecurityGroupIngressRule(
                f"{self._name}-{what}",
                security_group_id=group,
                referenced_security_group_id=peer,
                description=what.replace("-", " "),
                ip_protocol="tcp",
                from_port=first,
                to_port=last,
                opts=self._child(),
            )

        return [
            rule("nodes-to-api", plane, nodes, 443, 443),
            # Kubelets at 10250; webhooks and aggregated APIs of operators on whatever port their pods listen.
            rule("api-to-nodes", nodes, plane, 1025, 65535),
            rule("api-to-nodes-tls", nodes, plane, 443, 443),
        ]

    def _make_nodes(self, *depends_on: pulumi.Resource) -> aws.eks.NodeGroup:
        settings = self._args.settings
        role = identity.node_role(
            f"{self._name}-system-node", self.name, self._args.region, self._args.images, self._child()
        )
        template = self._make_template()
        return aws.eks.NodeGroup(
            f"{self._name}-system",
            cluster_name=self.name,
            node_role_arn=role.role.arn,
            subnet_ids=list(self._args.private_subnet_ids),
            # EKS picks the image by type and release; an image in the template would have to be looked up, and floats.
            ami_type=eks_values.ami_type(settings.system_nodes.instance_type),
            release_version=pins.BOTTLEROCKET_RELEASE or None,
            version=settings.kubernetes_version,
            instance_types=[settings.system_nodes.instance_type],
            capacity_type="ON_DEMAND",
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=settings.system_nodes.minimum,
                desired_size=settings.system_nodes.minimum,
                max_size=settings.system_nodes.maximum,
            ),
            update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
            node_repair_config=aws.eks.NodeGroupNodeRepairConfigArgs(enabled=True),
            labels={conventions.WORKLOAD_LABEL: conventions.SYSTEM_WORKLOAD},
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=pulumi.Output.format("{0}", template.latest_version)
            ),
            opts=pulumi.ResourceOptions.merge(
                self._in_cluster(*role.permissions, *depends_on),
                pulumi.ResourceOptions(ignore_changes=["scalingConfig.desiredSize"]),  # people scale by hand
            ),
        )

    def _make_template(self) -> aws.ec2.LaunchTemplate:
        """What EKS does not offer for a node group itself: encryption, metadata access and the security group."""
        return aws.ec2.LaunchTemplate(
            f"{self._name}-system-template",
            description=f"System nodes of {self.name}",
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name="/dev/xvdb",  # Bottlerocket's second disk; the first holds the system, read-only
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        volume_size=DATA_VOLUME_GIB,
                        volume_type="gp3",
                        encrypted="true",
                        delete_on_termination="true",
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            vpc_security_group_ids=[self._args.node_security_group_id],
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(
                    resource_type=kind,
                    tags={
                        **self._args.tags,
                        "managed-by": conventions.PROJECT,
                        "cluster": self.name,
                        "Name": f"{self.name}-system",
                    },
                )
                for kind in ("instance", "volume")
            ],
            opts=self._child(),
        )

    def _make_addons_before_nodes(self) -> list[pulumi.Resource]:
        agent = self._addon("eks-pod-identity-agent")
        cni = self._role("cni", conventions.CNI_SERVICE_ACCOUNT, "AmazonEKS_CNI_Policy")
        return [
            agent,
            self._addon("kube-proxy"),
            self._addon("vpc-cni", agent, configuration=eks_values.CNI, role=cni),
        ]

    def _make_addons_after_nodes(self, nodes: pulumi.Resource) -> list[pulumi.Resource]:
        ebs = self._role("ebs-csi", conventions.EBS_CSI_SERVICE_ACCOUNT, eks_values.EBS_CSI_POLICY)
        s3 = self._role("s3-csi", conventions.S3_CSI_SERVICE_ACCOUNT)
        self.s3_csi_role = s3.role.name
        return [
            self._addon("coredns", nodes),
            self._addon("metrics-server", nodes),
            self._addon("eks-node-monitoring-agent", nodes),
            self._addon("aws-ebs-csi-driver", nodes, role=ebs),
            self._addon("aws-mountpoint-s3-csi-driver", nodes, configuration=eks_values.S3_CSI, role=s3),
        ]

    def _addon(
        self,
        addon: str,
        *depends_on: pulumi.Resource,
        configuration: Mapping[str, object] | None = None,
        role: identity.PodRole | None = None,
    ) -> aws.eks.Addon:
        return identity.eks_addon(
            f"{self._name}-addon-{addon}",
            addon,
            pins.addon_version(addon, self._args.settings.kubernetes_version),
            self.name,
            self._in_cluster(*depends_on, *(role.permissions if role else ())),
            configuration=configuration,
            role=role,
        )

    def _role(self, what: str, service_account: str, policy: str | None = None) -> identity.PodRole:
        account = identity.ServiceAccount(
            cluster=self.name, namespace=conventions.SYSTEM_NAMESPACE, name=service_account
        )
        policies = {"policy": self._managed(policy)} if policy else {}
        return identity.pod_role(f"{self._name}-{what}", account, policies, self._child())

    def _managed(self, policy: str) -> str:
        return iam.aws_managed(self._args.region, policy)


def _administrators(settings: CreateCluster, region: str) -> dict[str, eks.AccessEntryArgs]:
    """Access entries with all rights."""
    policy = eks.AccessPolicyAssociationArgs(
        policy_arn=eks_values.administrator_policy(region),
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
    )
    return {
        eks_values.principal_key(arn): eks.AccessEntryArgs(
            principal_arn=arn, type=eks.AccessEntryType.STANDARD, access_policies={"admin": policy}
        )
        for arn in settings.administrators
    }
