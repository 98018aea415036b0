"""The cluster that a stack makes, and one that was there."""

import json
import re
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components import pins
from components.cluster import ClusterHandle, cluster_for
from preview.monitor import program_file, run
from tests.components.infra import EXISTING, Graph, once, registered, settings, unknown

ROOT = Path(__file__).resolve().parent.parent.parent


@once
def cluster(**changes: Any) -> Graph:
    """What a made cluster registers, with some of its own settings changed."""
    return registered(lambda: cluster_for(settings(cluster={"create": {"name": "demo", **changes}})))


def handle_of(stack: Any) -> ClusterHandle:
    """The handle of a stack's cluster."""
    made: list[ClusterHandle] = []
    registered(lambda: made.append(cluster_for(stack)))
    return made[0]


def test_cluster_is_private_and_by_access_entries() -> None:
    """What the EKS cluster is asked for, known at preview."""
    inputs = cluster().inputs("cluster-eks")

    assert {key: value for key, value in inputs.items() if key not in ("privateSubnetIds", "vpcId")} == {
        "name": "demo",
        "version": "1.36",
        "authenticationMode": "API",
        "accessEntries": {},
        "endpointPrivateAccess": True,
        "endpointPublicAccess": False,
        "enabledClusterLogTypes": ["audit", "authenticator"],
        "upgradePolicy": {"supportType": "STANDARD"},
        "deletionProtection": False,
        "skipDefaultNodeGroup": True,
        "skipDefaultSecurityGroups": True,
        "bootstrapSelfManagedAddons": False,
        "useDefaultVpcCni": True,
        "corednsAddonOptions": {
            "enabled": False, "resolveConflictsOnCreate": "OVERWRITE", "resolveConflictsOnUpdate": "OVERWRITE",
        },
        "kubeProxyAddonOptions": {
            "enabled": False, "resolveConflictsOnCreate": "OVERWRITE", "resolveConflictsOnUpdate": "OVERWRITE",
        },
        "createOidcProvider": False,
    }  # fmt: skip


def test_administrators_have_access_entries() -> None:
    """Each administrator has an entry with the administrator policy for the whole cluster."""
    administrator = "arn:aws:iam::111122223333:role/platform-admin"
    inputs = cluster(administrators=[administrator]).inputs("cluster-eks")

    assert inputs["accessEntries"] == {
        "111122223333-role-platform-admin": {
            "principalArn": administrator,
            "type": "STANDARD",
            "accessPolicies": {
                "admin": {
                    "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                    "accessScope": {"type": "cluster"},
                }
            },
        }
    }


def test_public_endpoint_is_limited() -> None:
    """A public endpoint answers the named networks only, and the private one stays."""
    inputs = cluster(endpointAccess={"public": True, "cidrs": ["198.51.100.0/24"]}).inputs("cluster-eks")

    assert (inputs["endpointPublicAccess"], inputs["endpointPrivateAccess"], inputs["publicAccessCidrs"]) == (
        True, True, ["198.51.100.0/24"],
    )  # fmt: skip


def test_key_and_deletion_protection() -> None:
    """An own key and EKS's deletion protection are passed on."""
    key = "arn:aws:kms:us-west-2:111122223333:key/1"
    inputs = cluster(secretsKeyArn=key, deletionProtection=True).inputs("cluster-eks")

    assert (inputs["encryptionConfigKeyArn"], inputs["deletionProtection"]) == (key, True)


def test_logs_end() -> None:
    """The control plane's log group is made before EKS would make one that keeps everything for ever."""
    graph = cluster()

    assert graph.inputs("cluster-logs") == {"name": "/aws/eks/demo/cluster", "retentionInDays": 90}
    assert "cluster-logs" in graph.dependencies("cluster-eks")
    assert "cluster-logs" not in cluster(logTypes=[])


@pytest.mark.parametrize("version", ["1.36", "1.35"])
def test_addons_are_pinned(version: str) -> None:
    """Every add-on has its pinned version, and kube-proxy the one of the cluster's Kubernetes."""
    graph = cluster(kubernetesVersion=version)
    got = {
        graph.inputs(name)["addonName"]: graph.inputs(name)["addonVersion"] for name in graph.names(":Addon")
    }

    assert sorted(got) == [
        "aws-ebs-csi-driver", "aws-mountpoint-s3-csi-driver", "coredns", "eks-node-monitoring-agent",
        "eks-pod-identity-agent", "kube-proxy", "metrics-server", "vpc-cni",
    ]  # fmt: skip
    assert got["kube-proxy"].startswith(f"v{version}.")
    assert got["vpc-cni"] == pins.ADDONS["vpc-cni"].version
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", text) for text in got.values())


def test_network_addon_comes_before_nodes() -> None:
    """Nodes join with prefix delegation and network policies on, and the CNI's identity needs the agent."""
    graph = cluster()

    assert json.loads(graph.inputs("cluster-addon-vpc-cni")["configurationValues"]) == {
        "env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"},
        "enableNetworkPolicy": "true",
    }
    assert {"cluster-addon-vpc-cni", "cluster-addon-kube-proxy", "cluster-addon-eks-pod-identity-agent"} <= (
        graph.dependencies("cluster-system")
    )
    assert {"cluster-addon-eks-pod-identity-agent", "cluster-cni-policy"} <= graph.dependencies(
        "cluster-addon-vpc-cni"
    )


@pytest.mark.parametrize(
    "addon",
    [
        "coredns",
        "metrics-server",
        "aws-ebs-csi-driver",
        "aws-mountpoint-s3-csi-driver",
        "eks-node-monitoring-agent",
    ],
)
def test_other_addons_come_after_nodes(addon: str) -> None:
    """What runs on nodes waits for them."""
    assert "cluster-system" in cluster().dependencies(f"cluster-addon-{addon}")


@pytest.mark.parametrize(
    ("addon", "account", "policies"),
    [
        ("vpc-cni", "aws-node", ["arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"]),
        (
            "aws-ebs-csi-driver",
            "ebs-csi-controller-sa",
            ["arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"],
        ),
        ("aws-mountpoint-s3-csi-driver", "s3-csi-driver-sa", []),  # the storage gives it what it may read
    ],
)
def test_addons_have_roles_of_their_own(addon: str, account: str, policies: list[str]) -> None:
    """Each add-on that calls AWS has a role for its service account only."""
    graph = cluster()
    (association,) = graph.inputs(f"cluster-addon-{addon}")["podIdentityAssociations"]
    (role,) = [
        name for name in graph.dependencies(f"cluster-addon-{addon}") if graph[name].type.endswith(":Role")
    ]
    trust = graph.document(role, "assumeRolePolicy")["Statement"][0]["Condition"]["StringEquals"]

    assert (association["serviceAccount"], unknown(association["roleArn"])) == (account, True)
    assert trust["aws:RequestTag/kubernetes-service-account"] == account
    assert [
        graph.inputs(name)["policyArn"]
        for name in graph.names(":RolePolicyAttachment")
        if role in graph.dependencies(name)
    ] == policies


def test_s3_driver_tolerates_taints() -> None:
    """The S3 driver runs on tainted GPU nodes."""
    assert json.loads(
        cluster().inputs("cluster-addon-aws-mountpoint-s3-csi-driver")["configurationValues"]
    ) == {"node": {"tolerateAllTaints": True}}


def test_system_nodes_are_pinned_to_an_image_type() -> None:
    """Bottlerocket by type and Kubernetes version; an own image in the template would float."""
    graph = cluster(systemNodes={"instanceType": "m7g.xlarge", "min": 2, "max": 5})
    nodes = graph.inputs("cluster-system")

    assert (nodes["amiType"], nodes["version"], nodes["instanceTypes"], nodes["capacityType"]) == (
        "BOTTLEROCKET_ARM_64", "1.36", ["m7g.xlarge"], "ON_DEMAND",
    )  # fmt: skip
    assert nodes["scalingConfig"] == {"minSize": 2, "desiredSize": 2, "maxSize": 5}
    assert list(graph["cluster-system"].request.ignoreChanges) == ["scalingConfig.desiredSize"]
    assert not {"imageId", "userData"} & graph.inputs("cluster-system-template").keys()


def test_system_nodes_are_closed() -> None:
    """Encrypted disks, no metadata for pods, and the one security group of all nodes."""
    graph = cluster()
    template = graph.inputs("cluster-system-template")

    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    assert template["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/xvdb",
            "ebs": {
                "volumeSize": 50,
                "volumeType": "gp3",
                "encrypted": "true",
                "deleteOnTermination": "true",
            },
        }
    ]
    assert graph.dependencies("cluster-system-template") == {"network-nodes"}


def test_node_role_has_no_network_permissions() -> None:
    """Nodes may join, pull and be managed; the CNI's permissions are the CNI's own."""
    graph = cluster()

    assert [
        graph.inputs(name)["policyArn"].rpartition("/")[2]
        for name in graph.names(":RolePolicyAttachment")
        if "cluster-system-node" in graph.dependencies(name)
    ] == ["AmazonEC2ContainerRegistryPullOnly", "AmazonEKSWorkerNodePolicy", "AmazonSSMManagedInstanceCore"]


def test_system_nodes_are_on_the_bill() -> None:
    """EC2 tags instances and volumes as the template says; the provider's default tags stop at the template."""
    graph = registered(lambda: cluster_for(settings(tags={"team": "ml", "cluster": "no-other"})))
    tags = {"team": "ml", "managed-by": "llm-platform", "cluster": "demo", "Name": "demo-system"}

    assert graph.inputs("cluster-system-template")["tagSpecifications"] == [
        {"resourceType": kind, "tags": tags} for kind in ("instance", "volume")
    ]


def test_nodes_may_fill_the_image_cache() -> None:
    """With a pull-through cache the first pull makes a repository, for which AWS's own policy is not enough."""
    cache = {"pullThroughCache": {"accountId": "111122223333", "region": "us-west-2"}}
    graph = registered(lambda: cluster_for(settings(images=cache)))

    assert graph.document("cluster-system-node-image-cache")["Statement"][0]["Sid"] == "FillCache"
    assert "cluster-system-node-image-cache" in graph.dependencies("cluster-system")


def test_control_plane_and_nodes_reach_each_other() -> None:
    """Nodes call the API; the API calls kubelets, webhooks and aggregated APIs."""
    graph = cluster()

    assert {
        name: (graph.inputs(name)["fromPort"], graph.inputs(name)["toPort"])
        for name in graph.names("IngressRule", child_of="cluster")
    } == {
        "cluster-nodes-to-api": (443, 443),
        "cluster-api-to-nodes": (1025, 65535),
        "cluster-api-to-nodes-tls": (443, 443),
    }
    assert {"cluster-nodes-to-api", "cluster-api-to-nodes"} <= graph.dependencies("cluster-system")


def test_destroy_ends_nodes_before_their_network() -> None:
    """Nodes are gone before routes, NAT gateways, rules, permissions and the cluster."""
    graph = cluster()

    assert {
        "network-private-out-us-west-2a", "network-nat-us-west-2a", "network-nodes-in-self", "network-s3-gateway",
        "cluster-eks", "cluster-nodes-to-api", "cluster-addon-vpc-cni", "cluster-cni-policy",
        "cluster-system-node-AmazonEKSWorkerNodePolicy",
    } <= graph.outlived_by("cluster-system")  # fmt: skip


def test_provider_survives_another_kubeconfig() -> None:
    """The Kubernetes provider is identified by the cluster's name, so a new kubeconfig replaces no object."""
    graph = cluster()
    inputs = graph.inputs("cluster-kubernetes")

    assert (inputs["clusterIdentifier"], inputs["enableServerSideApply"]) == ("demo", "true")
    assert inputs["enablePatchForce"] == "true"  # else every preview after an edit by hand is a conflict
    assert (
        inputs["enableConfigMapMutable"] == "true"
    )  # else a new revision deletes the model's code for a moment
    assert graph.dependencies("cluster-kubernetes") == {"cluster-eks"}


def test_touches_one_account() -> None:
    """The AWS provider refuses another account and tags everything."""
    inputs = cluster().inputs("aws")

    assert json.loads(inputs["allowedAccountIds"]) == ["111122223333"]
    assert json.loads(inputs["defaultTags"]) == {
        "tags": {"managed-by": "llm-platform", "cluster": "demo", "team": "ml"}
    }
    assert inputs["region"] == "us-west-2"


def test_everything_in_aws_uses_that_provider() -> None:
    """No resource falls back to a provider of the environment."""
    graph = cluster()

    assert {
        graph[name].provider.rpartition("::")[2]
        for name in graph.names()
        if graph[name].type.startswith("aws:")
    } == {"aws"}
    assert list(graph["cluster-eks"].request.providers) == ["aws"]


def test_cluster_is_protected() -> None:
    """The cluster is protected from a destroy unless the settings say otherwise."""
    open_stack = settings(deletion={"protect": False, "keepWeights": False})

    assert cluster()["cluster-eks"].request.protect
    assert not registered(lambda: cluster_for(open_stack))["cluster-eks"].request.protect


def test_handle_tells_what_is_known() -> None:
    """Name, region, account and discovery tags of a made cluster are plain."""
    handle = handle_of(settings())

    assert (handle.name, handle.region, handle.account_id, dict(handle.discovery_tags)) == (
        "demo", "us-west-2", "111122223333", {"karpenter.sh/discovery": "demo"},
    )  # fmt: skip
    assert len(handle.private_subnet_ids) == 2
    assert len(handle.ready) == 9


def test_existing_cluster_is_only_reached() -> None:
    """Of a cluster that was there nothing is made; its context is used."""
    graph = registered(lambda: cluster_for(settings(EXISTING)))

    assert graph.names() == ["aws", "kubernetes"]
    assert graph.inputs("kubernetes") == {
        "context": "there",
        "clusterIdentifier": "theirs",
        "enableServerSideApply": "true",
        "enablePatchForce": "true",
        "enableConfigMapMutable": "true",
    }


def test_no_account_no_aws() -> None:
    """A stack that names no account has no AWS provider, and says so where one is needed."""
    stack = settings(EXISTING, accountId=None)
    handle = handle_of(stack)

    assert registered(lambda: cluster_for(stack)).names() == ["kubernetes"]
    assert handle.aws is None
    with pytest.raises(pulumi.RunError) as refused:
        handle.scope("installing Karpenter")
    assert str(refused.value) == (
        "installing Karpenter on the existing cluster theirs needs AWS resources; name their account in accountId"
    )


def test_example_runs_by_itself() -> None:
    """The example makes a network and a cluster with nothing else of the platform."""
    example = ROOT / "examples" / "network-and-cluster"
    monitor = run(program_file(example / "__main__.py"), "test", {}, project="network-and-cluster")
    types = {registration.type for registration in monitor.registrations}

    assert {
        "llm:platform:Network",
        "llm:platform:Cluster",
        "eks:index:Cluster",
        "aws:eks/nodeGroup:NodeGroup",
    } <= types
    assert not [type_ for type_ in types if type_.startswith("kubernetes:")]
