"""What Karpenter's controller may do, and the queue it listens to.

The permissions are those of Karpenter 1.14's getting-started CloudFormation. They are six policies because one would be
longer than IAM allows.
"""

from typing import Any, Final

from components.manifests.iam import Document, Scope, allow, deny_without_tls, document

OWNED: Final = "owned"
LAUNCH_ACTIONS: Final = ("RunInstances", "CreateFleet", "CreateLaunchTemplate")
TAGGED_AT_LAUNCH: Final = (
    "fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request",
)  # fmt: skip
EVENTS: Final = {
    "health": ("aws.health", "AWS Health Event"),
    "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    "reservation-interruption": ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
}
"""EventBridge source and detail type of everything that takes a node away."""


def policies(scope: Scope, node_role: str, queue: str) -> dict[str, Document]:
    """The controller's six policies by name.

    Args:
        scope: account, region and cluster.
        node_role: name of the role that nodes take.
        queue: name of the interruption queue.
    """
    return {
        "node-lifecycle": _node_lifecycle(scope),
        "iam-integration": _iam_integration(scope, node_role),
        "eks-integration": document(allow("FindTheCluster", ["eks:DescribeCluster"], scope.cluster_arn)),
        "interruption": document(
            allow(
                "ReadTheQueue",
                ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                scope.arn("sqs", queue),
            ),
        ),
        "zonal-shift": document(
            allow(
                "SeeZonalShifts",
                ["arc-zonal-shift:GetManagedResource"],
                condition={"StringEquals": {"arc-zonal-shift:ResourceIdentifier": scope.cluster_arn}},
            ),
        ),
        "resource-discovery": _resource_discovery(scope),
    }


def queue_policy(queue_arn: str) -> Document:
    """Lets EventBridge send to the queue, over TLS only."""
    return document(
        {
            "Sid": "EventsMaySend",
            "Effect": "Allow",
            "Principal": {"Service": ["events.amazonaws.com", "sqs.amazonaws.com"]},
            "Action": "sqs:SendMessage",
            "Resource": queue_arn,
        },
        deny_without_tls("OnlyTls", "sqs:*", queue_arn),
    )


def _cluster_tag(scope: Scope, kind: str) -> dict[str, Any]:
    """Condition that the tag of this cluster is on the request or the resource."""
    return {f"aws:{kind}/kubernetes.io/cluster/{scope.cluster}": OWNED}


def _launch_tags(scope: Scope) -> dict[str, dict[str, Any]]:
    """Condition that a launch carries the tags by which Karpenter finds it again."""
    return {
        "StringEquals": _cluster_tag(scope, "RequestTag")
        | {"aws:RequestTag/eks:eks-cluster-name": scope.cluster},
        "StringLike": {"aws:RequestTag/karpenter.sh/nodepool": "*"},
    }


def _owned(scope: Scope) -> dict[str, dict[str, Any]]:
    """Condition that a resource is one of this cluster's Karpenter."""
    return {
        "StringEquals": _cluster_tag(scope, "ResourceTag"),
        "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
    }


def _ec2(scope: Scope, kind: str, *, public: bool = False) -> str:
    """ARN of all EC2 resources of a kind; images and snapshots of others have no account in it."""
    return scope.arn("ec2", f"{kind}/*", account="" if public else "*")


def _node_lifecycle(scope: Scope) -> Document:
    launch = ["ec2:RunInstances", "ec2:CreateFleet"]
    used = [_ec2(scope, kind, public=True) for kind in ("image", "snapshot")] + [
        _ec2(scope, kind) for kind in ("security-group", "subnet", "capacity-reservation", "placement-group")
    ]
    made = [_ec2(scope, kind) for kind in TAGGED_AT_LAUNCH]
    tags = _launch_tags(scope)
    at_launch = {**tags, "StringEquals": {**tags["StringEquals"], "ec2:CreateAction": list(LAUNCH_ACTIONS)}}
    later = {
        **_owned(scope),
        "StringEqualsIfExists": {"aws:RequestTag/eks:eks-cluster-name": scope.cluster},
        "ForAllValues:StringEquals": {
            "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
        },
    }
    instances, templates = _ec2(scope, "instance"), _ec2(scope, "launch-template")
    return document(
        allow("LaunchWith", launch, used),
        allow("LaunchFromOwnTemplates", launch, templates, _owned(scope)),
        allow("LaunchWithTags", [f"ec2:{action}" for action in LAUNCH_ACTIONS], made, tags),
        allow("TagAtLaunch", ["ec2:CreateTags"], made, at_launch),
        allow("TagOwnInstances", ["ec2:CreateTags"], instances, later),
        allow(
            "DeleteOwn",
            ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
            [instances, templates],
            _owned(scope),
        ),
    )


def _iam_integration(scope: Scope, node_role: str) -> Document:
    profiles = scope.arn("iam", "instance-profile/*", region="")

    def condition(*kinds: str) -> dict[str, dict[str, Any]]:
        equal: dict[str, Any] = {}
        for kind in kinds:
            equal |= _cluster_tag(scope, kind) | {f"aws:{kind}/topology.kubernetes.io/region": scope.region}
            if kind == "RequestTag":
                equal["aws:RequestTag/eks:eks-cluster-name"] = scope.cluster
        return {
            "StringEquals": equal,
            "StringLike": {f"aws:{kind}/karpenter.k8s.aws/ec2nodeclass": "*" for kind in kinds},
        }

    return document(
        allow(
            "GiveNodesTheirRole",
            ["iam:PassRole"],
            scope.role_arn(node_role),
            {"StringEquals": {"iam:PassedToService": ["ec2.amazonaws.com", "ec2.amazonaws.com.cn"]}},
        ),
        allow("CreateProfiles", ["iam:CreateInstanceProfile"], profiles, condition("RequestTag")),
        allow("TagProfiles", ["iam:TagInstanceProfile"], profiles, condition("ResourceTag", "RequestTag")),
        allow(
            "ChangeOwnProfiles",
            [
                "iam:AddRoleToInstanceProfile",
                "iam:RemoveRoleFromInstanceProfile",
                "iam:DeleteInstanceProfile",
            ],
            profiles,
            condition("ResourceTag"),
        ),
    )


def _resource_discovery(scope: Scope) -> Document:
    described = (
        "CapacityReservations", "Images", "Instances", "InstanceStatus", "InstanceTypeOfferings", "InstanceTypes",
        "LaunchTemplates", "PlacementGroups", "SecurityGroups", "SpotPriceHistory", "Subnets",
    )  # fmt: skip
    return document(
        allow(
            "SeeTheRegion",
            [f"ec2:Describe{what}" for what in described],
            condition={"StringEquals": {"aws:RequestedRegion": scope.region}},
        ),
        allow("FindImages", ["ssm:GetParameter"], scope.arn("ssm", "parameter/aws/service/*", account="")),
        allow("SeePrices", ["pricing:GetProducts"]),
        allow("ListProfiles", ["iam:ListInstanceProfiles"]),
        allow("SeeProfiles", ["iam:GetInstanceProfile"], scope.arn("iam", "instance-profile/*", region="")),
    )
