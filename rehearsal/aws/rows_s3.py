"""Buckets, and what guards them."""

from __future__ import annotations

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call, Holder, Row, Tagging, Values

BUCKET = {"Bucket": "{bucket}"}
OBJECTS = Call(
    "s3.list_object_versions", BUCKET, "[Versions, DeleteMarkers][][].{Key: Key, VersionId: VersionId}"
)


def _empty(cloud: Cloud, values: Values) -> None:
    """Delete all versions of all objects, when the program says that a destroy may."""
    if not values.get("forceDestroy"):
        return
    while objects := cloud.call(OBJECTS, values):
        cloud.call(Call("s3.delete_objects", {**BUCKET, "Delete": {"Objects": objects}}), values)


def _objects(cloud: Cloud, values: Values) -> list[str]:
    if values.get("forceDestroy"):
        return []
    return [row["Key"] for row in cloud.call(OBJECTS, values) or ()][:5]


def _part(
    name: str,
    put: Call,
    get: Call,
    delete: Call,
    settings: tuple[str, ...],
    reads: dict[str, str],
    source: str,
    *,
    owner: bool = False,
) -> Row:
    """A setting of a bucket that is a resource of its own; its id is the bucket's name."""
    return Row(
        f"aws:s3/{name[0].lower()}{name[1:]}:{name}",
        source=f"internal/service/s3/{source}",
        replaces="bucket expectedBucketOwner" if owner else "bucket",
        create=put,
        read=get,
        delete=(delete,),
        identity="{bucket}",
        settings=dict.fromkeys(settings, put),
        reads={"bucket": "", **reads},
    )


BLOCKS = "blockPublicAcls blockPublicPolicy ignorePublicAcls restrictPublicBuckets"

ROWS = (
    Row(
        "aws:s3/bucket:Bucket",
        source="internal/service/s3/bucket.go",
        replaces="bucket bucketPrefix bucketNamespace objectLockEnabled",
        create=Call(
            "s3.create_bucket",
            {**BUCKET, "CreateBucketConfiguration": {"?": "{location}", "LocationConstraint": "{location}"}},
        ),
        read=Call("s3.head_bucket", BUCKET),
        delete=(_empty, Call("s3.delete_bucket", BUCKET)),
        identity="{bucket}",
        arn="arn:{partition}:s3:::{id}",
        reads={"bucket": ""},
        outputs={
            "bucketDomainName": "={id}.s3.amazonaws.com",
            "bucketRegionalDomainName": "={id}.s3.{region}.amazonaws.com",
            "bucketRegion": "={region}",
        },
        own="forceDestroy",
        autoname="bucket",
        holders=(Holder("it is not empty (forceDestroy is off):", _objects),),
        tagging=Tagging(
            add=Call("s3.put_bucket_tagging", {**BUCKET, "Tagging": {"TagSet": "{tagsAll}"}}),
            remove=Call("s3.delete_bucket_tagging", BUCKET),
            read=Call("s3.get_bucket_tagging", BUCKET, "TagSet"),
        ),
    ),
    _part(
        "BucketVersioning",
        Call("s3.put_bucket_versioning", {**BUCKET, "VersioningConfiguration": "{versioningConfiguration}"}),
        Call("s3.get_bucket_versioning", BUCKET, "Status && @"),
        Call("s3.put_bucket_versioning", {**BUCKET, "VersioningConfiguration": {"Status": "Suspended"}}),
        ("versioningConfiguration",),
        {"versioningConfiguration": "@"},
        "bucket_versioning.go",
        owner=True,
    ),
    _part(
        "BucketServerSideEncryptionConfiguration",
        Call(
            "s3.put_bucket_encryption", {**BUCKET, "ServerSideEncryptionConfiguration": {"Rules": "{rules}"}}
        ),
        Call("s3.get_bucket_encryption", BUCKET, "ServerSideEncryptionConfiguration"),
        Call("s3.delete_bucket_encryption", BUCKET),
        ("rules",),
        {},
        "bucket_server_side_encryption_configuration.go",
        owner=True,
    ),
    _part(
        "BucketLifecycleConfiguration",
        Call(
            "s3.put_bucket_lifecycle_configuration",
            {**BUCKET, "LifecycleConfiguration": {"Rules": "{rules}"}},
        ),
        Call("s3.get_bucket_lifecycle_configuration", BUCKET),
        Call("s3.delete_bucket_lifecycle", BUCKET),
        ("rules",),
        {},
        "bucket_lifecycle_configuration.go",
        owner=True,
    ),
    _part(
        "BucketOwnershipControls",
        Call("s3.put_bucket_ownership_controls", {**BUCKET, "OwnershipControls": {"Rules": ["{rule}"]}}),
        Call("s3.get_bucket_ownership_controls", BUCKET, "OwnershipControls"),
        Call("s3.delete_bucket_ownership_controls", BUCKET),
        ("rule",),
        {"rule": "Rules[0]"},
        "bucket_ownership_controls.go",
    ),
    _part(
        "BucketPublicAccessBlock",
        Call(
            "s3.put_public_access_block",
            {**BUCKET, "PublicAccessBlockConfiguration": {name: f"{{{name}}}" for name in BLOCKS.split()}},
        ),
        Call("s3.get_public_access_block", BUCKET, "PublicAccessBlockConfiguration"),
        Call("s3.delete_public_access_block", BUCKET),
        tuple(BLOCKS.split()),
        {},
        "bucket_public_access_block.go",
    ),
    _part(
        "BucketPolicy",
        Call("s3.put_bucket_policy", {**BUCKET, "Policy": "{policy}"}),
        Call("s3.get_bucket_policy", BUCKET),
        Call("s3.delete_bucket_policy", BUCKET),
        ("policy",),
        {},
        "bucket_policy.go",
    ),
)
