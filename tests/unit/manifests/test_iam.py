"""Policy documents: limits of IAM, known ARNs, and nobody with more than it needs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.manifests import eks_values, iam
from components.manifests.iam import karpenter, load_balancer, nodes
from components.manifests.iam.storage import BucketArn, bucket_policy, read_policy, write_policy
from components.settings.cluster import PullThroughCache

SCOPE = iam.Scope(account_id="111122223333", region="us-west-2", cluster="demo")
LONGEST = iam.Scope(account_id="111122223333", region="ap-southeast-2", cluster="c" * 63)
NODE_ROLE, QUEUE = "demo-node-us-west-2", "demo-interruption"
READ = read_policy([BucketArn.of("aws", "weights")], None)
WRITE = write_policy([BucketArn.of("aws", "weights", "llama")], None)


def actions(document: Mapping[str, Any]) -> set[str]:
    """All actions that a document grants."""
    return {
        action
        for statement in document["Statement"]
        if statement["Effect"] == "Allow"
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def by_sid(document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Statements by name."""
    return {statement["Sid"]: statement for statement in document["Statement"]}


@pytest.mark.parametrize("scope", [SCOPE, LONGEST], ids=["short", "longest name"])
def test_managed_policies_fit(scope: iam.Scope) -> None:
    """No managed policy is longer than the 6,144 characters of IAM, even for the longest cluster name."""
    documents = {
        **karpenter.policies(scope, "r" * 64, "q" * 80),
        "load-balancer": load_balancer.policy(scope.region),
    }

    assert {name: len(json.dumps(document, separators=(",", ":"))) for name, document in documents.items()
            if len(json.dumps(document, separators=(",", ":"))) > 6144} == {}  # fmt: skip


def test_nobody_may_do_everything() -> None:
    """No allowed action is a wildcard."""
    documents = [
        *karpenter.policies(SCOPE, NODE_ROLE, QUEUE).values(),
        load_balancer.policy("us-west-2"),
        READ,
        WRITE,
    ]

    assert [action for document in documents for action in actions(document) if "*" in action] == []


def test_karpenter_has_six_policies() -> None:
    """The six policies of Karpenter 1.14 and how many statements each has."""
    documents = karpenter.policies(SCOPE, NODE_ROLE, QUEUE)

    assert {name: len(document["Statement"]) for name, document in documents.items()} == {
        "node-lifecycle": 6,
        "iam-integration": 4,
        "eks-integration": 1,
        "interruption": 1,
        "zonal-shift": 1,
        "resource-discovery": 5,
    }


def test_karpenter_ends_only_its_own_nodes() -> None:
    """Instances are ended by the tags of this cluster and of a NodePool only."""
    statement = by_sid(karpenter.policies(SCOPE, NODE_ROLE, QUEUE)["node-lifecycle"])["DeleteOwn"]

    assert statement == {
        "Sid": "DeleteOwn",
        "Effect": "Allow",
        "Action": ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
        "Resource": [
            "arn:aws:ec2:us-west-2:*:instance/*",
            "arn:aws:ec2:us-west-2:*:launch-template/*",
        ],
        "Condition": {
            "StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/demo": "owned"},
            "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
        },
    }


def test_karpenter_launches_with_reservations_and_placement_groups() -> None:
    """Launches may use images of others, reservations and placement groups, and carry the cluster's tags."""
    statements = by_sid(karpenter.policies(SCOPE, NODE_ROLE, QUEUE)["node-lifecycle"])

    assert statements["LaunchWith"]["Resource"] == [
        "arn:aws:ec2:us-west-2::image/*",
        "arn:aws:ec2:us-west-2::snapshot/*",
        "arn:aws:ec2:us-west-2:*:security-group/*",
        "arn:aws:ec2:us-west-2:*:subnet/*",
        "arn:aws:ec2:us-west-2:*:capacity-reservation/*",
        "arn:aws:ec2:us-west-2:*:placement-group/*",
    ]
    assert statements["TagAtLaunch"]["Condition"] == {
        "StringEquals": {
            "aws:RequestTag/kubernetes.io/cluster/demo": "owned",
            "aws:RequestTag/eks:eks-cluster-name": "demo",
            "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
        },
        "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
    }


def test_karpenter_passes_one_role() -> None:
    """Only the nodes' own role can be passed, and only to EC2."""
    statement = by_sid(karpenter.policies(SCOPE, NODE_ROLE, QUEUE)["iam-integration"])["GiveNodesTheirRole"]

    assert statement["Resource"] == "arn:aws:iam::111122223333:role/demo-node-us-west-2"
    assert statement["Condition"] == {
        "StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}
    }


def test_karpenter_hears_of_five_events() -> None:
    """What EventBridge reports to the queue."""
    assert list(karpenter.EVENTS.values()) == [
        ("aws.health", "AWS Health Event"),
        ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
        ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
        ("aws.ec2", "EC2 Instance State-change Notification"),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    ]


def test_queue_wants_tls() -> None:
    """The queue takes messages of EventBridge and refuses plain HTTP."""
    allowed, denied = karpenter.queue_policy("arn:aws:sqs:us-west-2:111122223333:q")["Statement"]

    assert (allowed["Principal"], allowed["Action"]) == (
        {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
        "sqs:SendMessage",
    )
    assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_load_balancer_controller_has_its_newest_permissions() -> None:
    """Sixteen statements, with what version 3.5 needs beyond older ones."""
    document = load_balancer.policy("us-west-2")

    assert len(document["Statement"]) == 16
    assert {
        "ec2:GetSecurityGroupsForVpc",
        "ec2:DescribeIpamPools",
        "ec2:DescribeRouteTables",
        "elasticloadbalancing:DescribeListenerAttributes",
        "elasticloadbalancing:ModifyListenerAttributes",
        "elasticloadbalancing:DescribeCapacityReservation",
        "elasticloadbalancing:ModifyCapacityReservation",
        "elasticloadbalancing:ModifyIpPools",
        "elasticloadbalancing:SetRulePriorities",
    } <= actions(document)


def test_load_balancer_controller_deletes_only_its_own() -> None:
    """Load balancers are changed and deleted by the controller's tag only."""
    statement = by_sid(load_balancer.policy("us-west-2"))["ChangeOwnBalancers"]

    assert "elasticloadbalancing:DeleteLoadBalancer" in statement["Action"]
    assert statement["Condition"] == {"Null": {"aws:ResourceTag/elbv2.k8s.aws/cluster": "false"}}


def test_role_is_for_one_service_account() -> None:
    """A pod's role asks for the cluster, the namespace and the service account."""
    (statement,) = iam.pod_identity_trust("demo", "llm-serving", "model-download")["Statement"]

    assert statement == {
        "Sid": "PodsOfOneServiceAccount",
        "Effect": "Allow",
        "Principal": {"Service": "pods.eks.amazonaws.com"},
        "Action": ["sts:AssumeRole", "sts:TagSession"],
        "Condition": {
            "StringEquals": {
                "aws:RequestTag/eks-cluster-name": "demo",
                "aws:RequestTag/kubernetes-namespace": "llm-serving",
                "aws:RequestTag/kubernetes-service-account": "model-download",
            }
        },
    }


def test_bucket_wants_tls() -> None:
    """The bucket and all in it refuse plain HTTP to everybody."""
    assert bucket_policy(BucketArn.of("aws", "weights"))["Statement"] == [
        {
            "Sid": "OnlyTls",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": ["arn:aws:s3:::weights", "arn:aws:s3:::weights/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]


def test_readers_read() -> None:
    """Readers list and get; writers add, but neither deletes."""
    assert actions(READ) == {"s3:ListBucket", "s3:GetObject"}
    assert actions(WRITE) == {
        "s3:ListBucket",
        "s3:ListBucketMultipartUploads",
        "s3:GetObject",
        "s3:PutObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    }


def test_grants_end_at_the_folder() -> None:
    """A grant on a folder is that folder's, and a bucket named twice is listed once."""
    folders = [BucketArn.of("aws", "weights", folder) for folder in ("llama", "qwen")]
    listing, reading = read_policy(folders, None)["Statement"]

    assert listing["Resource"] == ["arn:aws:s3:::weights"]
    assert reading["Resource"] == ["arn:aws:s3:::weights/llama/*", "arn:aws:s3:::weights/qwen/*"]


def test_key_comes_with_the_bucket() -> None:
    """Where the bucket has a KMS key, readers may decrypt and writers may make data keys with it."""
    key = "arn:aws:kms:us-west-2:111122223333:key/1"
    arns = [BucketArn.of("aws", "weights")]

    assert by_sid(read_policy(arns, key))["UseTheKey"]["Action"] == ["kms:Decrypt"]
    assert by_sid(write_policy(arns, key))["UseTheKey"] == {
        "Sid": "UseTheKey",
        "Effect": "Allow",
        "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Resource": key,
    }


def test_nodes_fill_the_image_cache() -> None:
    """A pull-through cache is filled by the first node that pulls, so nodes may make its repositories and no others."""
    cache = PullThroughCache(account_id="444455556666", region="us-west-2")

    assert nodes.cache_policy(cache)["Statement"] == [
        {
            "Sid": "FillCache",
            "Effect": "Allow",
            "Action": ["ecr:CreateRepository", "ecr:BatchImportUpstreamImage"],
            "Resource": [
                "arn:aws:ecr:us-west-2:444455556666:repository/docker-hub/*",
                "arn:aws:ecr:us-west-2:444455556666:repository/ecr-public/*",
            ],
        }
    ]


@pytest.mark.parametrize(
    ("region", "partition"), [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")]
)
def test_knows_partitions(region: str, partition: str) -> None:
    """ARNs of other partitions begin otherwise."""
    scope = iam.Scope(account_id="111122223333", region=region, cluster="demo")

    assert scope.cluster_arn == f"arn:{partition}:eks:{region}:111122223333:cluster/demo"


def test_role_names_fit() -> None:
    """A role's name has at most 64 characters, and two long ones stay apart."""
    long = [iam.role_name("c" * 62 + last, "node", "us-west-2") for last in "ab"]

    assert iam.role_name("demo", "node", "us-west-2") == "demo-node-us-west-2"
    assert [len(name) for name in long] == [64, 64]
    assert long[0] != long[1]


@pytest.mark.parametrize(
    ("instance_type", "image"),
    [
        ("m6i.xlarge", "BOTTLEROCKET_x86_64"),
        ("m7i-flex.xlarge", "BOTTLEROCKET_x86_64"),
        ("g5.xlarge", "BOTTLEROCKET_x86_64"),
        ("m7g.xlarge", "BOTTLEROCKET_ARM_64"),
        ("c7gn.xlarge", "BOTTLEROCKET_ARM_64"),
        ("t4g.large", "BOTTLEROCKET_ARM_64"),
    ],
)
def test_image_fits_the_processor(instance_type: str, image: str) -> None:
    """Graviton types take the Arm image."""
    assert eks_values.ami_type(instance_type) == image


def test_principals_make_names() -> None:
    """An administrator's key has nothing that a URN could trip over."""
    assert eks_values.principal_key("arn:aws:iam::111122223333:role/team/platform-admin") == (
        "111122223333-role-team-platform-admin"
    )
