"""Karpenter and what it needs of AWS."""

import json
from typing import Any

import pulumi
import pytest

from components.cluster import cluster_for
from components.karpenter import Karpenter, KarpenterArgs
from components.settings.cluster import ImageSettings, PullThroughCache
from tests.components.infra import EXISTING, STACK, Graph, inside, once, registered, settings


@once
def karpenter(stack: Any = STACK, **args: Any) -> Graph:
    """What Karpenter registers on a cluster."""

    def program() -> None:
        cluster = cluster_for(settings(stack))
        Karpenter("karpenter", KarpenterArgs(cluster=cluster, **args), inside(cluster))

    return registered(program)


def node_role_name(stack: Any = STACK, **args: Any) -> str:
    """The name of the nodes' role as the component tells it."""
    names: list[str] = []

    def program() -> None:
        cluster = cluster_for(settings(stack))
        names.append(
            Karpenter("karpenter", KarpenterArgs(cluster=cluster, **args), inside(cluster)).node_role_name
        )

    registered(program)
    return names[0]


def test_names_are_known() -> None:
    """The nodes' role and the queue have names that others read at preview."""
    graph = karpenter()

    assert graph.inputs("karpenter-node")["name"] == "demo-node-us-west-2"
    assert graph.inputs("karpenter-interruption")["name"] == "demo-interruption"
    assert node_role_name() == "demo-node-us-west-2"


def test_policies_are_known() -> None:
    """All six documents can be read at preview, and each is on the controller's role."""
    graph = karpenter()
    policies = graph.names("policy:Policy", child_of="karpenter")

    assert policies == [
        "karpenter-policy-eks-integration", "karpenter-policy-iam-integration", "karpenter-policy-interruption",
        "karpenter-policy-node-lifecycle", "karpenter-policy-resource-discovery", "karpenter-policy-zonal-shift",
    ]  # fmt: skip
    assert all(graph.document(name)["Statement"] for name in policies)
    for name in policies:
        assert graph.dependencies(name.replace("-policy-", "-controller-")) == {name, "karpenter-controller"}


def test_controller_reads_its_queue() -> None:
    """The permission, the chart and the queue name the same queue."""
    graph = karpenter()
    queue = "arn:aws:sqs:us-west-2:111122223333:demo-interruption"

    assert graph.document("karpenter-policy-interruption")["Statement"][0]["Resource"] == queue
    assert graph.document("karpenter-interruption-policy")["Statement"][0]["Resource"] == queue
    assert graph.inputs("karpenter-chart")["values"]["settings"]["interruptionQueue"] == "demo-interruption"


def test_queue_forgets_soon() -> None:
    """A spot warning is of no use later; messages are encrypted."""
    inputs = karpenter().inputs("karpenter-interruption")

    assert (inputs["messageRetentionSeconds"], inputs["sqsManagedSseEnabled"]) == (300, True)


def test_five_rules_send_to_the_queue() -> None:
    """Each rule has a target, made when the queue takes its messages."""
    graph = karpenter()
    patterns = {name: json.loads(graph.inputs(name)["eventPattern"]) for name in graph.names(":EventRule")}

    assert len(patterns) == 5
    assert patterns["karpenter-event-spot-interruption"] == {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Spot Instance Interruption Warning"],
    }
    for name in patterns:
        assert graph.dependencies(name.replace("event", "target")) == {
            name, "karpenter-interruption", "karpenter-interruption-policy",
        }  # fmt: skip


def test_nodes_may_join() -> None:
    """The nodes' role has an access entry for EC2 and no permission of the CNI."""
    graph = karpenter()

    assert graph.inputs("karpenter-node-access")["type"] == "EC2_LINUX"
    assert graph.inputs("karpenter-node-access")["clusterName"] == "demo"
    assert [
        graph.inputs(name)["policyArn"]
        for name in graph.names(":RolePolicyAttachment", child_of="karpenter")
        if name.startswith("karpenter-node-")
    ] == [
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore",
    ]


def test_charts() -> None:
    """CRDs by their own chart, then the controller's without them, both of one version."""
    graph = karpenter()
    crds, chart = graph.inputs("karpenter-crds"), graph.inputs("karpenter-chart")

    assert (crds["chart"], crds["version"]) == ("oci://public.ecr.aws/karpenter/karpenter-crd", "1.14.1")
    assert (chart["chart"], chart["version"]) == ("oci://public.ecr.aws/karpenter/karpenter", "1.14.1")
    assert (chart["skipCrds"], chart["atomic"], chart["namespace"]) == (True, True, "kube-system")
    assert "karpenter-crds" in graph.dependencies("karpenter-chart")
    assert chart["values"]["controller"]["env"] == [{"name": "AWS_REGION", "value": "us-west-2"}]
    assert chart["values"]["settings"]["clusterName"] == "demo"


def test_controller_goes_first() -> None:
    """On destroy the controller is gone before anything that it needs to end nodes, and before the system nodes."""
    assert {
        "karpenter-crds", "karpenter-identity", "karpenter-controller-node-lifecycle", "karpenter-policy-node-lifecycle",
        "karpenter-interruption", "karpenter-target-spot-interruption", "karpenter-node-access", "karpenter-node",
        "karpenter-node-AmazonEKSWorkerNodePolicy", "cluster-system", "cluster-addon-eks-pod-identity-agent",
        "cluster-eks", "network-nat-us-west-2a",
    } <= karpenter().outlived_by("karpenter-chart")  # fmt: skip


def test_images_through_the_cache() -> None:
    """With a pull-through cache the controller's image comes through it, and nodes may fill it."""
    cache = PullThroughCache(account_id="111122223333", region="us-west-2")
    graph = karpenter(images=ImageSettings(pull_through_cache=cache))

    assert graph.inputs("karpenter-chart")["values"]["controller"]["image"] == {
        "repository": "111122223333.dkr.ecr.us-west-2.amazonaws.com/ecr-public/karpenter/controller"
    }
    assert "karpenter-node-image-cache" in graph.dependencies("karpenter-chart")


def test_present_karpenter_is_left_alone() -> None:
    """Where Karpenter is, nothing is made and the named role is told."""
    graph = karpenter(EXISTING, install=False, existing_node_role="theirs")

    assert graph.names(child_of="karpenter") == []
    assert node_role_name(EXISTING, install=False, existing_node_role="theirs") == "theirs"


def test_own_node_role_is_used() -> None:
    """A role that was there is passed to nodes, and neither made nor given access again."""
    graph = karpenter(EXISTING, existing_node_role="theirs")
    statement = graph.document("karpenter-policy-iam-integration")["Statement"][0]

    assert "karpenter-node" not in graph
    assert "karpenter-node-access" not in graph
    assert statement["Resource"] == "arn:aws:iam::111122223333:role/theirs"


def test_needs_an_account() -> None:
    """Without an account nothing can be made in AWS, which is said."""
    with pytest.raises(
        pulumi.RunError, match="installing Karpenter on the existing cluster theirs needs AWS resources"
    ):
        karpenter({key: value for key, value in EXISTING.items() if key != "accountId"})
