"""What the AWS Load Balancer Controller 3.5 may do: the permissions its project publishes, in 16 statements."""

from typing import Any, Final

from components.manifests.iam import Document, allow, document, partition_of

TAG: Final = "elbv2.k8s.aws/cluster"  # the controller puts it on everything it makes

_EC2_READ: Final = (
    "DescribeAccountAttributes", "DescribeAddresses", "DescribeAvailabilityZones", "DescribeInternetGateways",
    "DescribeVpcs", "DescribeVpcPeeringConnections", "DescribeSubnets", "DescribeSecurityGroups",
    "DescribeInstances", "DescribeNetworkInterfaces", "DescribeTags", "GetCoipPoolUsage", "DescribeCoipPools",
    "GetSecurityGroupsForVpc", "DescribeIpamPools", "DescribeRouteTables",
)  # fmt: skip
_ELB_READ: Final = (
    "LoadBalancers", "LoadBalancerAttributes", "Listeners", "ListenerCertificates", "SSLPolicies", "Rules",
    "TargetGroups", "TargetGroupAttributes", "TargetHealth", "Tags", "TrustStores", "ListenerAttributes",
    "CapacityReservation",
)  # fmt: skip
_OTHER_SERVICES: Final = (
    "cognito-idp:DescribeUserPoolClient",
    "acm:ListCertificates", "acm:DescribeCertificate",
    "iam:ListServerCertificates", "iam:GetServerCertificate",
    "waf-regional:GetWebACL", "waf-regional:GetWebACLForResource",
    "waf-regional:AssociateWebACL", "waf-regional:DisassociateWebACL",
    "wafv2:GetWebACL", "wafv2:GetWebACLForResource", "wafv2:AssociateWebACL", "wafv2:DisassociateWebACL",
    "shield:GetSubscriptionState", "shield:DescribeProtection", "shield:CreateProtection", "shield:DeleteProtection",
)  # fmt: skip
_CHANGE_OWN: Final = (
    "ModifyLoadBalancerAttributes", "SetIpAddressType", "SetSecurityGroups", "SetSubnets", "DeleteLoadBalancer",
    "ModifyTargetGroup", "ModifyTargetGroupAttributes", "DeleteTargetGroup", "ModifyListenerAttributes",
    "ModifyCapacityReservation", "ModifyIpPools",
)  # fmt: skip
_CHANGE_LISTENERS: Final = (
    "SetWebAcl", "ModifyListener", "AddListenerCertificates", "RemoveListenerCertificates", "ModifyRule",
    "SetRulePriorities",
)  # fmt: skip


def policy(region: str) -> Document:
    """The controller's policy; what it may change is bound to the controller's own tag."""
    partition = partition_of(region)
    groups = f"arn:{partition}:ec2:*:*:security-group/*"
    rules = ["ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress"]

    def elb(*kinds: str) -> list[str]:
        return [f"arn:{partition}:elasticloadbalancing:*:*:{kind}" for kind in kinds]

    def actions(*names: str) -> list[str]:
        return [f"elasticloadbalancing:{name}" for name in names]

    balancers = elb("targetgroup/*/*", "loadbalancer/net/*/*", "loadbalancer/app/*/*")
    listeners = elb(
        "listener/net/*/*/*", "listener/app/*/*/*", "listener-rule/net/*/*/*", "listener-rule/app/*/*/*"
    )
    service = {"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}}
    return document(
        allow("ServiceRole", ["iam:CreateServiceLinkedRole"], condition=service),
        allow(
            "See", [f"ec2:{name}" for name in _EC2_READ] + actions(*(f"Describe{name}" for name in _ELB_READ))
        ),
        allow("Attach", _OTHER_SERVICES),
        allow("OpenGroups", rules),
        allow("CreateGroups", ["ec2:CreateSecurityGroup"]),
        allow(
            "TagNewGroups",
            ["ec2:CreateTags"],
            groups,
            {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}, **_new()},
        ),
        allow("TagOwnGroups", ["ec2:CreateTags", "ec2:DeleteTags"], groups, _own_keeps_tag()),
        allow("ChangeOwnGroups", [*rules, "ec2:DeleteSecurityGroup"], condition=_own()),
        allow("CreateBalancers", actions("CreateLoadBalancer", "CreateTargetGroup"), condition=_new()),
        allow("ChangeRules", actions("CreateListener", "DeleteListener", "CreateRule", "DeleteRule")),
        allow("TagOwnBalancers", actions("AddTags", "RemoveTags"), balancers, _own_keeps_tag()),
        allow("TagListeners", actions("AddTags", "RemoveTags"), listeners),
        allow("ChangeOwnBalancers", actions(*_CHANGE_OWN), condition=_own()),
        allow(
            "TagNewBalancers",
            actions("AddTags"),
            balancers,
            {
                "StringEquals": {
                    "elasticloadbalancing:CreateAction": ["CreateTargetGroup", "CreateLoadBalancer"]
                },
                **_new(),
            },
        ),
        allow("Targets", actions("RegisterTargets", "DeregisterTargets"), elb("targetgroup/*/*")),
        allow("ChangeListeners", actions(*_CHANGE_LISTENERS)),
    )


def _new() -> dict[str, Any]:
    """What is created carries the controller's tag."""
    return {"Null": {f"aws:RequestTag/{TAG}": "false"}}


def _own() -> dict[str, Any]:
    """What is changed carries the controller's tag."""
    return {"Null": {f"aws:ResourceTag/{TAG}": "false"}}


def _own_keeps_tag() -> dict[str, Any]:
    """What is changed carries the controller's tag, and the change is not about that tag."""
    return {"Null": {f"aws:RequestTag/{TAG}": "true", f"aws:ResourceTag/{TAG}": "false"}}
