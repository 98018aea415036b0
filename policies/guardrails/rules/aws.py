"""AWS resources: who reaches them, and what they encrypt."""

from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.rules.charts import CLUSTERS
from guardrails.values import Hidden, flag, get, is_hidden, items, listed, mapping, mappings, text, texts
from guardrails.world import World

WORLD_CIDRS = ("0.0.0.0/0", "::/0")

ENDPOINT = Rule(
    id="eks-endpoint-open",
    severity=Severity.ERROR,
    sentence="The Kubernetes API is private, or open to named networks only.",
    why="Anyone on the internet can try credentials and the next vulnerability of the API server.",
    remedy="set publicAccessCidrs, or endpointPublicAccess: false",
    source="AWS EKS best practices, cluster access",
    framework="CIS EKS 5.4.2",
    reads=(
        "aws:eks/cluster:Cluster:vpcConfig.endpointPublicAccess",
        "aws:eks/cluster:Cluster:vpcConfig.publicAccessCidrs",
        "eks:index:Cluster:publicAccessCidrs",
        "eks:index:Cluster:endpointPublicAccess",
    ),
)
SECURITY_GROUP = Rule(
    id="security-group-open",
    severity=Severity.WARN,
    sentence="Security groups let in named networks only.",
    why="Whatever listens there is on the internet.",
    remedy="name the networks or the security groups that need it",
    source="AWS Well-Architected SEC05",
    framework="AWS FSBP EC2.19 / CIS AWS 5.2",
    reads=("aws:ec2/securityGroup:SecurityGroup:ingress",),
)
BUCKET_PUBLIC = Rule(
    id="bucket-public",
    severity=Severity.ERROR,
    sentence="Buckets are not public, and say so.",
    why="Weights and adapters would be anyone's, to read or to replace.",
    remedy="add a BucketPublicAccessBlock with all four switches on, and remove public ACLs",
    source="AWS S3 security best practices",
    framework="AWS FSBP S3.1, S3.8",
    reads=tuple(
        f"aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock:{key}"
        for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
    ),
)
ENCRYPTION = Rule(
    id="storage-unencrypted",
    severity=Severity.ERROR,
    sentence="Volumes, queues, file systems and caches are encrypted.",
    why="Whoever gets at a snapshot or the wire reads prompts and weights.",
    remedy="turn encryption on",
    source="AWS Well-Architected SEC08",
    framework="AWS FSBP EC2.7, SQS.1, EFS.1, ElastiCache.4",
)
CLUSTER_LOGS = Rule(
    id="eks-without-audit-log",
    severity=Severity.WARN,
    sentence="The control plane writes its audit log.",
    why="Nobody can say later who did what.",
    remedy="add audit (and authenticator) to enabledClusterLogTypes",
    source="AWS EKS best practices, detective controls",
    framework="CIS EKS 2.1.1",
)

BUCKETS = ("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2")


def endpoint(world: World) -> Iterator[Hit]:
    """API endpoints that anyone reaches."""
    for subject in world.typed(*CLUSTERS):
        nested = subject.api.startswith("aws:")
        base: Path = ("vpcConfig",) if nested else ()
        if nested and not isinstance(subject.get("vpcConfig"), dict):
            continue  # unknown, or a resource that is read rather than made
        is_public, cidrs = subject.get(*base, "endpointPublicAccess"), subject.get(*base, "publicAccessCidrs")
        if flag(is_public) is False or isinstance(is_public, Hidden) or isinstance(cidrs, Hidden):
            continue
        named = texts(cidrs)
        hidden = any(is_hidden(item) for item in items(cidrs))
        open_ones = [cidr for cidr in named if cidr in WORLD_CIDRS]
        if open_ones or (not named and not hidden):
            what = f"is open to {open_ones[0]}" if open_ones else "is public, and names no networks: everyone"
            yield Hit(
                subject, (*base, "publicAccessCidrs"), f"the API endpoint of cluster {subject.name} {what}"
            )
    for stack in world.stacks:
        yield from _intent_endpoint(world, stack.plain)


def _intent_endpoint(world: World, plain: Mapping[str, object]) -> Iterator[Hit]:
    """Neutral intents: `cluster: {public_access_cidrs: […]}`."""
    for stack in world.stacks:
        if stack.house or stack.plain is not plain:
            continue
        cluster = mapping(plain.get("cluster"))
        cidrs = texts(cluster.get("public_access_cidrs") or get(cluster, "endpoint", "cidrs"))
        is_public = flag(cluster.get("endpoint_public_access", get(cluster, "endpoint", "public")))
        if any(cidr in WORLD_CIDRS for cidr in cidrs) or (is_public is True and not cidrs):
            subject = world.stack_subject(stack, "cluster", "stack")
            message = (
                "the API endpoint is open to everyone"
                if not cidrs
                else f"the API endpoint is open to {cidrs[0]}"
            )
            yield Hit(subject, ("cluster",), message)


def security_group(world: World) -> Iterator[Hit]:
    """Rules for everyone."""
    for subject in world.typed(
        "aws:ec2/securityGroup:SecurityGroup", "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
    ):
        for index, rule in mappings(subject.get("ingress")):
            found = [
                cidr
                for key in ("cidrBlocks", "ipv6CidrBlocks")
                for cidr in texts(rule.get(key))
                if cidr in WORLD_CIDRS
            ]
            if found:
                yield Hit(subject, ("ingress", index), _open(subject, rule, found[0]))
    for subject in world.typed("aws:ec2/securityGroupRule:SecurityGroupRule"):
        found = [
            cidr
            for key in ("cidrBlocks", "ipv6CidrBlocks")
            for cidr in texts(subject.get(key))
            if cidr in WORLD_CIDRS
        ]
        if found and text(subject.get("type")) == "ingress":
            yield Hit(subject, ("cidrBlocks",), _open(subject, subject.body, found[0]))
    for subject in world.typed("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"):
        written = [text(subject.get(key)) or "" for key in ("cidrIpv4", "cidrIpv6")]
        everyone = [cidr for cidr in written if cidr in WORLD_CIDRS]
        if everyone:
            yield Hit(subject, ("cidrIpv4",), _open(subject, subject.body, everyone[0]))


def _open(subject: Subject, rule: Mapping[str, object], cidr: str) -> str:
    low, high = text(rule.get("fromPort")), text(rule.get("toPort"))
    every = text(rule.get("protocol") or rule.get("ipProtocol")) == "-1"
    ports = "every port" if every else f"port {low}" if low == high else f"ports {low} to {high}"
    return f"security group {subject.name} opens {ports} to {cidr}"


# ---------------------------------------------------------------------- storage

_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")


def bucket_public(world: World) -> Iterator[Hit]:
    """Public buckets, and buckets without the block."""
    blocks = world.typed("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
    for subject in (*world.typed(*BUCKETS), *world.typed("aws:s3/bucketAcl:BucketAcl")):
        acl = text(subject.get("acl")) or ""
        if acl.startswith("public"):
            yield Hit(subject, ("acl",), f"bucket {subject.name} has the ACL {acl}")
    for block in blocks:
        off = [key for key in _BLOCKS if flag(block.get(key)) is not True and not is_hidden(block.get(key))]
        if off:
            yield Hit(block, (off[0],), f"public access block {block.name} leaves {listed(off)} off")
    buckets = world.typed(*BUCKETS)
    if len(blocks) < len(buckets):
        missing = len(buckets) - len(blocks)
        for subject in buckets[-missing:]:
            # New buckets block public access by themselves since 2023; it is not wrong, only not said.
            message = f"bucket {subject.name} has no public access block of its own"
            yield Hit(subject, (), message, Severity.WARN)


# Type -> the property that turns encryption on, and whether leaving it out means off.
ENCRYPTED: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "aws:ebs/volume:Volume": (("encrypted",), True),
    "aws:efs/fileSystem:FileSystem": (("encrypted",), True),
    "aws:elasticache/replicationGroup:ReplicationGroup": (
        ("transitEncryptionEnabled", "atRestEncryptionEnabled"),
        True,
    ),
    "aws:rds/instance:Instance": (("storageEncrypted",), True),
    "aws:sqs/queue:Queue": (("sqsManagedSseEnabled",), False),  # on by default since 2022
}


def encryption(world: World) -> Iterator[Hit]:
    """Storage in clear text."""
    for token, (keys, off_by_default) in ENCRYPTED.items():
        for subject in world.typed(token):
            if subject.get("kmsMasterKeyId") is not None:
                continue
            for key in keys:
                value = subject.get(key)
                if flag(value) is False or (value is None and off_by_default):
                    yield Hit(
                        subject,
                        (key,),
                        f"{subject.kind} {subject.name}: {key} is {'not set' if value is None else 'false'}",
                    )
    for subject in world.kind("EC2NodeClass"):
        for index, item in mappings(subject.get("spec", "blockDeviceMappings")):
            if flag(get(item, "ebs", "encrypted")) is False:
                path: Path = ("spec", "blockDeviceMappings", index, "ebs", "encrypted")
                yield Hit(
                    subject,
                    path,
                    f"volume {text(item.get('deviceName'))} of EC2NodeClass {subject.name} is not encrypted",
                )


def cluster_logs(world: World) -> Iterator[Hit]:
    """Clusters without an audit log."""
    for subject in world.typed(*CLUSTERS):
        types = subject.get("enabledClusterLogTypes")
        if not is_hidden(types) and "audit" not in texts(types):
            severity = None if world.prod else Severity.ADVICE
            yield Hit(
                subject, ("enabledClusterLogTypes",), f"cluster {subject.name} writes no audit log", severity
            )


RULES: Table = (
    (ENDPOINT, endpoint), (SECURITY_GROUP, security_group), (BUCKET_PUBLIC, bucket_public), (ENCRYPTION, encryption),
    (CLUSTER_LOGS, cluster_logs),
)  # fmt: skip
