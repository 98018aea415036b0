"""Queues, events, logs and Redis."""

from __future__ import annotations

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.interfaces import interfaces_gone, interfaces_made
from rehearsal.aws.row import Call, Holder, Needed, Row, Tagging, Values

QUEUE = {"QueueUrl": "{id}"}
QUEUE_ATTRIBUTES = {
    "MessageRetentionPeriod": "{messageRetentionSeconds}",
    "SqsManagedSseEnabled": "{sqsManagedSseEnabled}",
}
SET_QUEUE = Call("sqs.set_queue_attributes", {**QUEUE, "Attributes": QUEUE_ATTRIBUTES})
SET_QUEUE_POLICY = Call(
    "sqs.set_queue_attributes", {"QueueUrl": "{queueUrl}", "Attributes": {"Policy": "{policy}"}}
)
PUT_RULE = Call(
    "events.put_rule", {"Name": "{name}"}, "RuleArn", takes="description eventPattern state eventBusName"
)
PUT_TARGET = Call("events.put_targets", {"Rule": "{rule}", "Targets": [{"Id": "{targetId}", "Arn": "{arn}"}]})
LOG_GROUP = "arn:{partition}:logs:{region}:{account}:log-group:{name}"
CACHE = {"ReplicationGroupId": "{id}"}
SUBNET_GROUP_ARN = "arn:{partition}:elasticache:{region}:{account}:subnetgroup:{id}"
CACHE_ARN = "arn:{partition}:elasticache:{region}:{account}:replicationgroup:{replicationGroupId}"


def _rule_arn(name: str) -> str:
    return f"arn:{{partition}}:events:{{region}}:{{account}}:rule/{{{name}}}"


def _cache_tags(arn: str) -> Tagging:
    return Tagging(
        add=Call("elasticache.add_tags_to_resource", {"ResourceName": arn, "Tags": "{tagsAll}"}),
        remove=Call("elasticache.remove_tags_from_resource", {"ResourceName": arn, "TagKeys": "{tagKeys}"}),
        read=Call("elasticache.list_tags_for_resource", {"ResourceName": arn}, "TagList"),
    )


def _groups_in(cloud: Cloud, values: Values) -> list[str]:
    """Replication groups that stand in a subnet group."""
    token = "aws:elasticache/replicationGroup:ReplicationGroup"  # noqa: S105 - a type
    return [
        note["id"] for note in cloud.held.all(token) if note["kept"].get("subnetGroupName") == values["id"]
    ]


def _cache_interfaces(cloud: Cloud, values: Values) -> None:
    group = cloud.held.read("aws:elasticache/subnetGroup:SubnetGroup", values["subnetGroupName"]) or {
        "kept": {}
    }
    subnets = group["kept"].get("subnetIds", [])[: values.get("numCacheClusters") or 1]
    interfaces_made(cloud, f"ElastiCache {values['id']}", subnets, values.get("securityGroupIds") or [])


ROWS = (
    Row(
        "aws:sqs/queue:Queue",
        source="internal/service/sqs/queue.go",
        replaces="name namePrefix fifoQueue",
        create=Call("sqs.create_queue", {"QueueName": "{name}", "Attributes": QUEUE_ATTRIBUTES}, "QueueUrl"),
        read=Call("sqs.get_queue_attributes", {**QUEUE, "AttributeNames": ["All"]}, "Attributes"),
        delete=(Call("sqs.delete_queue", QUEUE),),
        settings=dict.fromkeys(("messageRetentionSeconds", "sqsManagedSseEnabled"), SET_QUEUE),
        reads={"name": "", "messageRetentionSeconds": "MessageRetentionPeriod"},
        outputs={"arn": "QueueArn", "url": "={id}"},
        autoname="name",
        tagging=Tagging(
            add=Call("sqs.tag_queue", {**QUEUE, "Tags": "{tagsAll}"}),
            remove=Call("sqs.untag_queue", {**QUEUE, "TagKeys": "{tagKeys}"}),
            read=Call("sqs.list_queue_tags", QUEUE, "Tags"),
        ),
    ),
    Row(
        "aws:sqs/queuePolicy:QueuePolicy",
        source="internal/service/sqs/queue_policy.go",
        replaces="queueUrl",
        create=SET_QUEUE_POLICY,
        read=Call(
            "sqs.get_queue_attributes", {"QueueUrl": "{queueUrl}", "AttributeNames": ["Policy"]}, "Attributes"
        ),
        delete=(Call("sqs.set_queue_attributes", {"QueueUrl": "{queueUrl}", "Attributes": {"Policy": ""}}),),
        identity="{queueUrl}",
        settings={"policy": SET_QUEUE_POLICY},
    ),
    Row(
        "aws:cloudwatch/eventRule:EventRule",
        source="internal/service/events/rule.go",
        replaces="name namePrefix eventBusName",
        create=PUT_RULE,
        read=Call("events.describe_rule", {"Name": "{name}"}),
        delete=(Call("events.delete_rule", {"Name": "{name}"}),),
        identity="{name}",
        arn=_rule_arn("name"),
        settings=dict.fromkeys(("description", "eventPattern", "state"), PUT_RULE),
        autoname="name",
        # In the words of EventBridge: a rule cannot be deleted since it has targets.
        holders=(
            Holder(
                "it has the targets", Call("events.list_targets_by_rule", {"Rule": "{id}"}, "Targets[].Id")
            ),
        ),
        tagging=Tagging(
            add=Call("events.tag_resource", {"ResourceARN": _rule_arn("id"), "Tags": "{tagsAll}"}),
            remove=Call("events.untag_resource", {"ResourceARN": _rule_arn("id"), "TagKeys": "{tagKeys}"}),
            read=Call("events.list_tags_for_resource", {"ResourceARN": _rule_arn("id")}, "Tags"),
        ),
    ),
    Row(
        "aws:cloudwatch/eventTarget:EventTarget",
        source="internal/service/events/target.go",
        replaces="rule targetId eventBusName",
        create=PUT_TARGET,
        read=Call("events.list_targets_by_rule", {"Rule": "{rule}"}, "Targets[?Id=='{targetId}'] | [0]"),
        delete=(Call("events.remove_targets", {"Rule": "{rule}", "Ids": ["{targetId}"]}),),
        identity="{rule}-{targetId}",
        settings={"arn": PUT_TARGET},
    ),
    Row(
        "aws:cloudwatch/logGroup:LogGroup",
        source="internal/service/logs/group.go",
        replaces="name namePrefix logGroupClass",
        create=Call("logs.create_log_group", {"logGroupName": "{name}"}),
        read=Call(
            "logs.describe_log_groups",
            {"logGroupNamePrefix": "{name}"},
            "logGroups[?logGroupName=='{name}'] | [0]",
        ),
        delete=(Call("logs.delete_log_group", {"logGroupName": "{name}"}),),
        identity="{name}",
        arn=LOG_GROUP,
        settings={
            "retentionInDays": Call(
                "logs.put_retention_policy",
                {"logGroupName": "{name}", "retentionInDays": "{retentionInDays}"},
            )
        },
        reads={"name": "logGroupName"},
        autoname="name",
        tagging=Tagging(
            add=Call("logs.tag_resource", {"resourceArn": LOG_GROUP, "tags": "{tagsAll}"}),
            remove=Call("logs.untag_resource", {"resourceArn": LOG_GROUP, "tagKeys": "{tagKeys}"}),
            read=Call("logs.list_tags_for_resource", {"resourceArn": LOG_GROUP}, "tags"),
        ),
    ),
    Row(
        # moto makes subnet groups and cannot delete them, so they are kept here.
        "aws:elasticache/subnetGroup:SubnetGroup",
        source="internal/service/elasticache/subnet_group.go",
        replaces="name",
        identity="{name}",
        arn=SUBNET_GROUP_ARN,
        keeps="*",
        autoname="name",
        needs=(
            Needed(
                "all of the subnets {subnetIds}",
                Call("ec2.describe_subnets", {"SubnetIds": "{subnetIds}"}, "Subnets"),
            ),
        ),
        holders=(Holder("it is used by", _groups_in),),
        tagging=_cache_tags(SUBNET_GROUP_ARN),
    ),
    Row(
        "aws:elasticache/replicationGroup:ReplicationGroup",
        source="internal/service/elasticache/replication_group.go",
        replaces="atRestEncryptionEnabled dataTieringEnabled globalReplicationGroupId kmsKeyId networkType port "
        "replicationGroupId snapshotArns snapshotName subnetGroupName",
        create=Call(
            "elasticache.create_replication_group",
            {
                "ReplicationGroupId": "{replicationGroupId}",
                "ReplicationGroupDescription": "{description}",
                "CacheNodeType": "{nodeType}",
                "CacheSubnetGroupName": "{subnetGroupName}",
                "CacheParameterGroupName": "{parameterGroupName}",
                "MultiAZEnabled": "{multiAzEnabled}",
            },
            "ReplicationGroup.ReplicationGroupId",
            takes="engine engineVersion numCacheClusters automaticFailoverEnabled port securityGroupIds "
            "atRestEncryptionEnabled transitEncryptionEnabled authToken snapshotRetentionLimit",
        ),
        read=Call(
            "elasticache.describe_replication_groups", CACHE, "ReplicationGroups[?Status!='deleting'] | [0]"
        ),
        delete=(
            Call("elasticache.delete_replication_group", CACHE),
            lambda cloud, values: interfaces_gone(cloud, f"ElastiCache {values['id']}"),
        ),
        arn=CACHE_ARN,
        after=(_cache_interfaces,),
        settings={
            "description": Call(
                "elasticache.modify_replication_group",
                {**CACHE, "ReplicationGroupDescription": "{description}"},
            ),
            "snapshotRetentionLimit": Call(
                "elasticache.modify_replication_group",
                {**CACHE, "SnapshotRetentionLimit": "{snapshotRetentionLimit}"},
            ),
        },
        reads={
            "description": "Description",
            "nodeType": "CacheNodeType",
            "multiAzEnabled": "",
            "automaticFailoverEnabled": "",
        },
        outputs={
            "primaryEndpointAddress": "NodeGroups[0].PrimaryEndpoint.Address",
            "readerEndpointAddress": "NodeGroups[0].ReaderEndpoint.Address",
        },
        keeps="subnetGroupName engine engineVersion parameterGroupName numCacheClusters port securityGroupIds authToken nodeType",
        own="applyImmediately",
        autoname="replicationGroupId",
        needs=(
            Needed(
                "subnets of the security groups",
                Call("ec2.describe_security_groups", {"GroupIds": "{securityGroupIds}"}, "SecurityGroups"),
            ),
        ),
        tagging=_cache_tags(CACHE_ARN),
    ),
)
