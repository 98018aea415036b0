"""Everything that exists in the account, seen from outside the engine and without the table's rows.

What an account has by itself is left out: the default VPC with its parts, each VPC's main route table and default
security group, AWS's own policies.
"""

from __future__ import annotations

from collections.abc import Iterator

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call

LISTS: dict[str, Call] = {
    "VPC": Call("ec2.describe_vpcs", answer="Vpcs[?!IsDefault].VpcId"),
    "subnet": Call("ec2.describe_subnets", answer="Subnets[?!DefaultForAz].SubnetId"),
    "internet gateway": Call("ec2.describe_internet_gateways", answer="InternetGateways[].InternetGatewayId"),
    "NAT gateway": Call("ec2.describe_nat_gateways", answer="NatGateways[?State!='deleted'].NatGatewayId"),
    "address": Call("ec2.describe_addresses", answer="Addresses[].AllocationId"),
    "route table": Call(
        "ec2.describe_route_tables",
        answer="RouteTables[?length(not_null(Associations,`[]`)[?Main])==`0`].RouteTableId",
    ),
    "VPC endpoint": Call(
        "ec2.describe_vpc_endpoints", answer="VpcEndpoints[?State!='deleted'].VpcEndpointId"
    ),
    "security group": Call(
        "ec2.describe_security_groups", answer="SecurityGroups[?GroupName!='default'].GroupId"
    ),
    "network interface": Call(
        "ec2.describe_network_interfaces", answer="NetworkInterfaces[].NetworkInterfaceId"
    ),
    "launch template": Call("ec2.describe_launch_templates", answer="LaunchTemplates[].LaunchTemplateId"),
    "instance": Call(
        "ec2.describe_instances", answer="Reservations[].Instances[?State.Name!='terminated'][].InstanceId"
    ),
    "volume": Call("ec2.describe_volumes", answer="Volumes[].VolumeId"),
    "role": Call("iam.list_roles", {"MaxItems": 1000}, "Roles[].RoleName"),
    "policy": Call("iam.list_policies", {"Scope": "Local", "MaxItems": 1000}, "Policies[].Arn"),
    "instance profile": Call("iam.list_instance_profiles", answer="InstanceProfiles[].InstanceProfileName"),
    "bucket": Call("s3.list_buckets", answer="Buckets[].Name"),
    "queue": Call("sqs.list_queues", answer="QueueUrls"),
    "event rule": Call("events.list_rules", answer="Rules[].Name"),
    "log group": Call("logs.describe_log_groups", answer="logGroups[].logGroupName"),
    "EKS cluster": Call("eks.list_clusters", answer="clusters"),
    "replication group": Call(
        "elasticache.describe_replication_groups",
        answer="ReplicationGroups[?Status!='deleting'].ReplicationGroupId",
    ),
}

# What has a name only within something else: a list of the owners, and one of each owner's. The id is `owner:name`.
WITHIN: dict[str, tuple[Call, Call]] = {
    "node group": (
        LISTS["EKS cluster"],
        Call("eks.list_nodegroups", {"clusterName": "{owner}"}, "nodegroups"),
    ),
    "role policy": (LISTS["role"], Call("iam.list_role_policies", {"RoleName": "{owner}"}, "PolicyNames")),
}


def existing(cloud: Cloud) -> Iterator[tuple[str, str]]:
    """Kind and name of everything in the account, and of what the stand-in keeps."""
    for kind, call in LISTS.items():
        for name in cloud.call(call, {}) or ():
            yield kind, str(name)
    for kind, (owners, call) in WITHIN.items():
        for owner in cloud.call(owners, {}) or ():
            for name in cloud.call(call, {"owner": owner}) or ():
                yield kind, f"{owner}:{name}"
    for note in cloud.held.all():
        yield f"kept {note['type']}", str(note["id"])
