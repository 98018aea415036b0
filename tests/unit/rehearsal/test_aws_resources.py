"""Resources by the table against a moto server: what AWS refuses, what a look from outside finds, what changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal.aws import inventory
from rehearsal.aws.cloud import AwsError
from rehearsal.aws.resources import Resources
from rehearsal.aws.row import Call
from rehearsal.aws.server import Aws
from rehearsal.aws.table import ROWS
from rehearsal.scenarios import orphans

pytestmark = pytest.mark.slow

REGION, ACCOUNT = "us-west-2", "111122223333"
STATEMENT = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
TRUST = json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT]})
ALLOW = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [ALLOW]})


class Made:
    """Resources of one test."""

    def __init__(self, resources: Resources) -> None:
        self.resources = resources
        self.all: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {}

    def make(self, short: str, called: str = "thing", **inputs: Any) -> str:
        """Create a resource by the last part of its token, and give its id."""
        row = next(row for token, row in ROWS.items() if token.endswith(f":{short}"))
        checked = self.resources.checked(row, called, inputs, {})
        identity, outputs = self.resources.create(row, checked)
        self.all.setdefault(identity, (row.token, checked, outputs))  # parts of a bucket have its name too
        return identity

    def delete(self, identity: str) -> None:
        """Delete it again."""
        token, _, outputs = self.all[identity]
        self.resources.delete(ROWS[token], identity, outputs)

    def refuses(self, identity: str) -> str:
        """The words with which a deletion is refused."""
        with pytest.raises(AwsError) as caught:
            self.delete(identity)
        return str(caught.value).partition(" cannot be deleted: ")[2]

    def read(self, identity: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """What it is like now."""
        token, inputs, outputs = self.all[identity]
        return self.resources.read(ROWS[token], identity, inputs, outputs)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aws]:
    """One moto server for all tests."""
    with Aws(tmp_path_factory.mktemp("aws"), ACCOUNT) as running:
        yield running


@pytest.fixture
def made(aws: Aws) -> Made:
    """Resources with a default tag."""
    return Made(Resources(aws.cloud(REGION), {"managed-by": "llm-platform"}))


@pytest.fixture
def network(made: Made) -> dict[str, str]:
    """A VPC with a way out."""
    vpc = made.make("Vpc", cidrBlock="10.0.0.0/16", tags={"Name": "n"})
    subnet = made.make("Subnet", vpcId=vpc, cidrBlock="10.0.0.0/24", availabilityZone="us-west-2a")
    gateway = made.make("InternetGateway", vpcId=vpc)
    address = made.make("Eip", domain="vpc")
    nat = made.make("NatGateway", allocationId=address, subnetId=subnet)
    return {"vpc": vpc, "subnet": subnet, "gateway": gateway, "address": address, "nat": nat}


def test_a_network_goes_only_in_the_order_of_aws(made: Made, network: dict[str, str]) -> None:
    """What something stands in or hangs on cannot go before it; afterwards nothing is left."""
    vpc, subnet = network["vpc"], network["subnet"]
    table = made.make("RouteTable", vpcId=vpc)
    route = made.make(
        "Route", routeTableId=table, destinationCidrBlock="0.0.0.0/0", gatewayId=network["gateway"]
    )
    association = made.make("RouteTableAssociation", routeTableId=table, subnetId=subnet)

    assert made.refuses(vpc).startswith(f"it has the subnets {subnet}")
    assert made.refuses(subnet).startswith("it has the network interfaces eni-")
    assert made.refuses(network["gateway"]) == f"public addresses of its VPC are in use by {network['nat']}"
    assert made.refuses(network["address"]).startswith("it is associated by eipassoc-")
    assert made.refuses(table) == f"subnets use it by {association}"

    for identity in (
        association,
        route,
        table,
        network["nat"],
        network["address"],
        network["gateway"],
        subnet,
        vpc,
    ):
        made.delete(identity)
    assert list(inventory.existing(made.resources.cloud)) == []


def test_security_groups_hold_each_other(made: Made) -> None:
    """A group that another one's rule names cannot go; its own rule about itself does not hold it."""
    vpc = made.make("Vpc", cidrBlock="10.1.0.0/16")
    nodes = made.make("SecurityGroup", vpcId=vpc, description="d", revokeRulesOnDelete=True)
    other = made.make("SecurityGroup", vpcId=vpc, description="d")
    made.make(
        "SecurityGroupEgressRule", securityGroupId=nodes, referencedSecurityGroupId=nodes, ipProtocol="-1"
    )
    rule = made.make(
        "SecurityGroupIngressRule", securityGroupId=other, referencedSecurityGroupId=nodes, ipProtocol="tcp",
        fromPort=443, toPort=443,
    )  # fmt: skip

    assert made.refuses(nodes) == f"it is named by rules of {other}"
    for identity in (rule, nodes, other, vpc):
        made.delete(identity)


def test_roles_policies_and_rules_hold_what_uses_them(made: Made) -> None:
    """A role with a policy, a policy on a role and a rule with a target cannot go."""
    role = made.make("Role", assumeRolePolicy=TRUST)
    policy = made.make("Policy", policy=POLICY)
    attachment = made.make("RolePolicyAttachment", role=role, policyArn=policy)
    queue = made.make("Queue", sqsManagedSseEnabled=True)
    rule = made.make("EventRule", eventPattern=json.dumps({"source": ["aws.ec2"]}))
    target = made.make("EventTarget", rule=rule, targetId="t", arn=made.all[queue][2]["arn"])

    assert made.refuses(role).startswith("it has the policies thing-")
    assert made.refuses(policy) == f"it is attached to {role}"
    assert made.refuses(rule) == "it has the targets t"
    for identity in (attachment, role, policy, target, rule, queue):
        made.delete(identity)


def test_a_bucket_goes_with_its_objects_only_when_asked(made: Made) -> None:
    """A bucket that is not empty stays; with forceDestroy all versions go with it."""
    kept, forced = made.make("Bucket", "kept"), made.make("Bucket", "forced", forceDestroy=True)
    for bucket in (kept, forced):
        made.make("BucketVersioning", bucket=bucket, versioningConfiguration={"status": "Enabled"})
        for _ in range(2):
            made.resources.cloud.call(
                Call("s3.put_object", {"Bucket": bucket, "Key": "weights", "Body": b"x"}), {}
            )

    assert made.refuses(kept).startswith("it is not empty (forceDestroy is off): weights")
    made.resources.delete(ROWS["aws:s3/bucket:Bucket"], forced, {"bucket": forced, "forceDestroy": True})
    made.resources.delete(ROWS["aws:s3/bucket:Bucket"], kept, {"bucket": kept, "forceDestroy": True})
    assert [name for kind, name in inventory.existing(made.resources.cloud) if kind == "bucket"] == []


def test_a_cluster_stands_in_its_subnets(made: Made) -> None:
    """Its interfaces hold the subnets, its protection holds it, and with it goes what belongs to it."""
    vpc = made.make("Vpc", cidrBlock="10.2.0.0/16")
    subnet = made.make("Subnet", vpcId=vpc, cidrBlock="10.2.0.0/24", availabilityZone="us-west-2a")
    role = made.make("Role", assumeRolePolicy=TRUST)
    with pytest.raises(AwsError, match="there is no cluster llm"):
        made.make("Addon", clusterName="llm", addonName="coredns")
    cluster = made.make(
        "Cluster", name="llm", roleArn=made.all[role][2]["arn"], vpcConfig={"subnetIds": [subnet]}, version="1.36",
        deletionProtection=True,
    )  # fmt: skip
    made.make("Addon", clusterName="llm", addonName="coredns", addonVersion="v1")
    with pytest.raises(AwsError, match="llm:coredns exists already"):
        made.make("Addon", clusterName="llm", addonName="coredns")

    assert made.all[cluster][2]["vpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert made.refuses(subnet).startswith("it has the network interfaces eni-")
    assert made.refuses(cluster) == "its deletion protection is on"
    made.all[cluster][2]["deletionProtection"] = False
    for identity in (cluster, subnet, vpc, role):
        made.delete(identity)
    assert list(inventory.existing(made.resources.cloud)) == []


def test_what_has_a_name_within_another_is_found_and_deleted_by_its_id(made: Made) -> None:
    """A node group and a role's own policy, of which a killed engine knows nothing, are in no list of the account."""
    vpc = made.make("Vpc", cidrBlock="10.5.0.0/16")
    subnet = made.make("Subnet", vpcId=vpc, cidrBlock="10.5.0.0/24", availabilityZone="us-west-2a")
    role = made.make("Role", assumeRolePolicy=TRUST)
    arn = made.all[role][2]["arn"]
    cluster = made.make("Cluster", name="lost", roleArn=arn, vpcConfig={"subnetIds": [subnet]})
    sizes = {"desiredSize": 2, "minSize": 2, "maxSize": 2}
    nodes = made.make(
        "NodeGroup", clusterName="lost", nodeRoleArn=arn, subnetIds=[subnet], scalingConfig=sizes
    )
    policy = made.make("RolePolicy", role=role, policy=POLICY)
    assert made.refuses(cluster) == f"it has the node groups {nodes.partition(':')[2]}"

    resources = made.resources
    found = {name: kind for kind, name in inventory.existing(resources.cloud) if kind in inventory.WITHIN}
    assert found == {nodes: "node group", policy: "role policy"}
    for name, kind in found.items():
        row = ROWS[orphans.TOKENS[kind]]
        seen = resources.read(row, name, orphans.inputs_of(row, name), {})
        assert seen
        resources.delete(row, name, seen[1])
    for identity in (cluster, subnet, vpc, role):
        made.delete(identity)
    assert list(inventory.existing(resources.cloud)) == []


def test_a_change_by_hand_is_seen_and_healed(made: Made) -> None:
    """Reading shows what somebody changed; an update with the program's values sets it right again."""
    vpc = made.make("Vpc", cidrBlock="10.3.0.0/16", enableDnsSupport=True, tags={"Name": "n"})
    cloud, (token, inputs, outputs) = made.resources.cloud, made.all[vpc]
    cloud.call(Call("ec2.modify_vpc_attribute", {"VpcId": vpc, "EnableDnsSupport": {"Value": False}}), {})
    cloud.call(Call("ec2.create_tags", {"Resources": [vpc], "Tags": [{"Key": "by", "Value": "hand"}]}), {})
    seen = made.read(vpc)
    assert seen is not None
    healed = made.resources.update(ROWS[token], vpc, outputs, seen[0], inputs)

    assert seen[0] == {**inputs, "enableDnsSupport": False, "tags": {"Name": "n", "by": "hand"},
                       "tagsAll": {"Name": "n", "managed-by": "llm-platform", "by": "hand"}}  # fmt: skip
    assert healed == outputs
    made.delete(vpc)
    assert made.read(vpc) is None


def test_a_change_that_nothing_makes_is_refused(made: Made) -> None:
    """A changed property without a call of its own is an error, never a silent success."""
    vpc = made.make("Vpc", cidrBlock="10.4.0.0/16", instanceTenancy="default")
    token, inputs, outputs = made.all[vpc]

    with pytest.raises(AwsError, match="the stand-in has no call that changes instanceTenancy"):
        made.resources.update(ROWS[token], vpc, outputs, inputs, {**inputs, "instanceTenancy": "dedicated"})
    made.delete(vpc)


def test_names_are_made_up_once(made: Made) -> None:
    """A name that the program leaves out is made up at the first check, and stays at the next."""
    row = ROWS["aws:iam/role:Role"]
    first = made.resources.checked(row, "cni", {"assumeRolePolicy": TRUST}, {})
    second = made.resources.checked(row, "cni", {"assumeRolePolicy": TRUST}, first)

    assert first["name"].startswith("cni-")
    assert first["__defaults"] == ["name"]
    assert second == first
