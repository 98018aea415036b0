"""The bucket with the weights."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.manifests.iam.storage import BucketArn, bucket_policy
from components.settings.extras import DeletionSettings, StorageSettings

ABORTED_UPLOAD_DAYS = 7  # parts of an upload that never ended are paid for and invisible
OLD_VERSION_DAYS = 30  # how long a deleted or overwritten file can be brought back


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeBucket:
    """A bucket and everything that guards it."""

    name: pulumi.Input[str]
    resources: tuple[pulumi.Resource, ...]


def make_bucket(
    name: str, partition: str, storage: StorageSettings, deletion: DeletionSettings, parent: pulumi.Resource
) -> MadeBucket:
    """Make a private, encrypted, versioned bucket that answers over TLS only.

    With `keepWeights` a destroy leaves all of it behind, the guards too: a kept bucket without them would be open to
    mistakes. Without it a destroy deletes the weights as well.

    Args:
        name: name of the component, first part of every resource's name.
        partition: AWS partition.
        storage: the bucket's name (AWS makes one up when there is none) and KMS key.
        deletion: whether the bucket is protected and kept.
        parent: the component.
    """
    kept = pulumi.ResourceOptions(parent=parent, retain_on_delete=deletion.keep_weights)
    bucket = aws.s3.Bucket(
        f"{name}-bucket",
        bucket=storage.bucket,
        force_destroy=not deletion.keep_weights,
        opts=pulumi.ResourceOptions.merge(kept, pulumi.ResourceOptions(protect=deletion.protect)),
    )
    arn = (
        BucketArn.of(partition, storage.bucket)
        if storage.bucket
        else BucketArn(bucket=bucket.arn, objects=pulumi.Output.concat(bucket.arn, "/*"))
    )
    access = aws.s3.BucketPublicAccessBlock(
        f"{name}-bucket-access",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=kept,
    )
    return MadeBucket(
        # The plain name where it is known, so that volumes and policies show it at preview.
        name=storage.bucket or bucket.bucket,
        resources=(
            bucket,
            access,
            aws.s3.BucketOwnershipControls(
                f"{name}-bucket-ownership",
                bucket=bucket.id,
                rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
                opts=kept,
            ),
            _encryption(name, bucket, storage, kept),
            *_versions(name, bucket, kept),
            aws.s3.BucketPolicy(
                f"{name}-bucket-policy",
                bucket=bucket.id,
                policy=pulumi.Output.json_dumps(bucket_policy(arn)),
                # Two changes of a bucket's access at once are a conflict to S3.
                opts=pulumi.ResourceOptions.merge(kept, pulumi.ResourceOptions(depends_on=[access])),
            ),
        ),
    )


def _encryption(
    name: str, bucket: aws.s3.Bucket, storage: StorageSettings, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    key = storage.kms_key_arn
    by_default = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        sse_algorithm="aws:kms" if key else "AES256", kms_master_key_id=key
    )
    return aws.s3.BucketServerSideEncryptionConfiguration(
        f"{name}-bucket-encryption",
        bucket=bucket.id,
        rules=[
            aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                apply_server_side_encryption_by_default=by_default,
                bucket_key_enabled=True
                if key
                else None,  # else every one of a model's reads is a call to KMS
            )
        ],
        opts=opts,
    )


def _versions(
    name: str, bucket: aws.s3.Bucket, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Resource, pulumi.Resource]:
    """Versioning, and when what nobody sees any more is deleted."""
    versioning = aws.s3.BucketVersioning(
        f"{name}-bucket-versioning",
        bucket=bucket.id,
        versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
        opts=opts,
    )
    everything = aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix="")
    lifecycle = aws.s3.BucketLifecycleConfiguration(
        f"{name}-bucket-lifecycle",
        bucket=bucket.id,
        rules=[
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="aborted-uploads",
                status="Enabled",
                filter=everything,
                abort_incomplete_multipart_upload=(
                    aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=ABORTED_UPLOAD_DAYS
                    )
                ),
            ),
            aws.s3.BucketLifecycleConfigurationRuleArgs(
                id="old-versions",
                status="Enabled",
                filter=everything,
                noncurrent_version_expiration=(
                    aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                        noncurrent_days=OLD_VERSION_DAYS
                    )
                ),
            ),
        ],
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[versioning])),
    )
    return versioning, lifecycle
