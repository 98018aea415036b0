"""What exists and is not in the engine's state: found by list and label, and deleted as the runbook says.

A run that was killed leaves such things: the cloud made them, and the engine never heard of it. Kubernetes objects and
AWS resources with a name of their own would be met again by the next run; those with a made-up name would not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rehearsal import leftovers
from rehearsal.api import label
from rehearsal.aws import inventory
from rehearsal.aws.cloud import AwsError
from rehearsal.aws.resources import Resources
from rehearsal.aws.row import Call, Row
from rehearsal.aws.table import ROWS
from rehearsal.scenarios.stage import Stage

TOKENS = {
    "VPC": "aws:ec2/vpc:Vpc",
    "subnet": "aws:ec2/subnet:Subnet",
    "internet gateway": "aws:ec2/internetGateway:InternetGateway",
    "NAT gateway": "aws:ec2/natGateway:NatGateway",
    "address": "aws:ec2/eip:Eip",
    "route table": "aws:ec2/routeTable:RouteTable",
    "VPC endpoint": "aws:ec2/vpcEndpoint:VpcEndpoint",
    "security group": "aws:ec2/securityGroup:SecurityGroup",
    "launch template": "aws:ec2/launchTemplate:LaunchTemplate",
    "role": "aws:iam/role:Role",
    "policy": "aws:iam/policy:Policy",
    "instance profile": "aws:iam/instanceProfile:InstanceProfile",
    "bucket": "aws:s3/bucket:Bucket",
    "queue": "aws:sqs/queue:Queue",
    "event rule": "aws:cloudwatch/eventRule:EventRule",
    "log group": "aws:cloudwatch/logGroup:LogGroup",
    "EKS cluster": "aws:eks/cluster:Cluster",
    "node group": "aws:eks/nodeGroup:NodeGroup",
    "role policy": "aws:iam/rolePolicy:RolePolicy",
    "replication group": "aws:elasticache/replicationGroup:ReplicationGroup",
}
INGRESS, EGRESS = (f"aws:vpc/securityGroup{way}Rule:SecurityGroup{way}Rule" for way in ("Ingress", "Egress"))
# What AWS makes along with another resource and takes away with it: the group of an EKS cluster, and the rule with
# which every security group begins.
BY_ITSELF = (
    Call(
        "ec2.describe_security_groups",
        answer="SecurityGroups[?starts_with(GroupName, 'eks-cluster-sg-')].GroupId",
    ),
    Call(
        "ec2.describe_security_group_rules",
        answer="SecurityGroupRules[?IsEgress && IpProtocol=='-1' && CidrIpv4=='0.0.0.0/0' && !Description]"
        ".SecurityGroupRuleId",
    ),
)
# Parts of other resources with an id of their own, which the inventory leaves out: kind, call, and type.
PARTS: tuple[tuple[str, Call, str], ...] = (
    (
        "ingress rule",
        Call(
            "ec2.describe_security_group_rules", answer="SecurityGroupRules[?!IsEgress].SecurityGroupRuleId"
        ),
        INGRESS,
    ),
    (
        "egress rule",
        Call("ec2.describe_security_group_rules", answer="SecurityGroupRules[?IsEgress].SecurityGroupRuleId"),
        EGRESS,
    ),
    (
        "route table association",
        Call(
            "ec2.describe_route_tables",
            answer="RouteTables[].Associations[?!Main][].RouteTableAssociationId",
        ),
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
    ),
)
LISTED_TYPES = frozenset({*TOKENS.values(), *(token for _, _, token in PARTS)})
# What comes and goes with instances, as kinds of the inventory.
COMPANIONS = frozenset({"network interface", "instance", "volume"})
ROUTE = "route"
ROUNDS = 6
# What controllers make for objects of ours, with our labels and without a reference to their owner.
MADE_BY_CONTROLLERS = frozenset({"Endpoints", "EndpointSlice"})


def there(stage: Stage) -> set[tuple[str, str]]:
    """Type and id of what the account has; what the stand-in keeps itself goes by the last part of its type."""
    listed = {
        (TOKENS.get(kind, kind.removeprefix("kept ")), name) for kind, name in inventory.existing(stage.cloud)
    }
    return listed | {
        (token, str(name)) for _, call, token in PARTS for name in stage.cloud.call(call, {}) or ()
    }


def in_aws(stage: Stage) -> list[tuple[str, str]]:
    """Kind and name of what the account has and the state has not."""
    known = {str(row.get("id")) for row in stage.recorded()}
    known |= {str(name) for call in BY_ITSELF for name in stage.cloud.call(call, {}) or ()}
    listed = [row for row in inventory.existing(stage.cloud) if row[0] not in COMPANIONS]
    parts = [(kind, str(name)) for kind, call, _ in PARTS for name in stage.cloud.call(call, {}) or ()]
    return [*_routes(stage), *(row for row in (*parts, *listed) if row[1] not in known)]


def _routes(stage: Stage) -> list[tuple[str, str]]:
    """Routes to gateways that the state has not; a route's name is its table and its destination."""
    known = {
        f"{row['inputs'].get('routeTableId')} {row['inputs'].get('destinationCidrBlock')}"
        for row in stage.recorded()
        if row["type"] == "aws:ec2/route:Route"
    }
    tables = stage.ask("ec2.describe_route_tables", "RouteTables[].[RouteTableId, Routes]") or ()
    found = [
        f"{table} {route['DestinationCidrBlock']}"
        for table, routes in tables
        for route in routes
        if route.get("DestinationCidrBlock") and route.get("GatewayId") != "local"
    ]
    return [(ROUTE, name) for name in found if name not in known]


def in_cluster(stage: Stage) -> list[dict[str, Any]]:
    """Objects with our label that the state has not, and records of Helm releases that it has not."""
    known = {label(row["outputs"]) for row in stage.recorded() if "apiVersion" in row.get("outputs", {})}
    releases = {
        row["outputs"]["name"] for row in stage.recorded() if row["type"].endswith("helm.sh/v3:Release")
    }
    found = [
        item
        for item in leftovers.managed(stage.api)
        if not item["metadata"].get("ownerReferences")
        and item["kind"] not in MADE_BY_CONTROLLERS
        and label(item) not in known
    ]
    secrets = stage.api.items("/api/v1/secrets", labelSelector="owner=helm")
    return found + [item for item in secrets if item["metadata"]["labels"]["name"] not in releases]


def names(stage: Stage) -> list[str]:
    """All of it, for people."""
    return [f"{kind} {name}" for kind, name in in_aws(stage)] + [label(item) for item in in_cluster(stage)]


def delete(stage: Stage) -> list[str]:
    """Delete all of it; gives back the names of what was there."""
    found = names(stage)
    for item in in_cluster(stage):
        stage.api.delete(stage.api.locate(item))
    _delete_in_aws(stage)
    return found


def _delete_in_aws(stage: Stage) -> None:
    """In several rounds, for one holds the other."""
    resources = Resources(stage.cloud, {})
    for _ in range(ROUNDS):
        rest = in_aws(stage)
        if not rest:
            return
        for kind, name in rest:
            if kind == ROUTE:
                table, destination = name.split()
                stage.ask("ec2.delete_route", RouteTableId=table, DestinationCidrBlock=destination)
                continue
            row = ROWS[_token(kind)]
            try:
                inputs = inputs_of(row, name)
                seen = resources.read(row, name, inputs, {})
                resources.delete(row, name, seen[1] if seen else inputs)
            except AwsError:
                continue  # held by another one; the next round


def inputs_of(row: Row, identity: str) -> dict[str, str]:
    """The inputs of what is only known by its id: those that the id is made of, and the rest to be read.

    The deletion needs some of them, as a gateway's VPC.
    """
    template = row.identity if isinstance(row.identity, str) else ""
    made_of = re.fullmatch(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+?)", re.escape(template)), identity)
    return dict.fromkeys(row.reads, "") | (made_of.groupdict() if made_of else {})


def _token(kind: str) -> str:
    tokens = TOKENS | {part: token for part, _, token in PARTS}
    if kind in tokens:
        return tokens[kind]
    last = kind.removeprefix("kept ")
    return next(token for token in ROWS if token.rpartition(":")[2] == last)


def described(found: Iterable[str]) -> str:
    """A few of the names."""
    rows = list(found)
    return ", ".join(rows[:6]) + (f" and {len(rows) - 6} more" if len(rows) > 6 else "")  # noqa: PLR2004 - a few
