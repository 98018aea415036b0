"""Who may do what with the bucket of weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from components.manifests.iam import Document, Statement, allow, deny_without_tls, document


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketArn:
    """ARN of a bucket and of what lies in it. Both are Outputs when AWS names the bucket, plain text otherwise."""

    bucket: Any
    objects: Any

    @classmethod
    def of(cls, partition: str, name: str, prefix: str = "") -> "BucketArn":
        """ARNs of a bucket whose name is known, optionally only of what lies below ``prefix``."""
        bucket = f"arn:{partition}:s3:::{name}"
        return cls(bucket=bucket, objects=f"{bucket}/{prefix}/*" if prefix else f"{bucket}/*")


def bucket_policy(arn: BucketArn) -> Document:
    """Refuse everything that does not come over TLS (SigV4 over plain HTTP would otherwise work)."""
    return document(deny_without_tls("OnlyTls", "s3:*", [arn.bucket, arn.objects]))


def read_policy(arns: Sequence[BucketArn], kms_key_arn: str | None) -> Document:
    """List and read weights, and nothing else."""
    return document(
        allow("ListWeights", ["s3:ListBucket"], _once(arn.bucket for arn in arns)),
        allow("ReadWeights", ["s3:GetObject"], _once(arn.objects for arn in arns)),
        *_kms(kms_key_arn, ["kms:Decrypt"]),
    )


def write_policy(arns: Sequence[BucketArn], kms_key_arn: str | None) -> Document:
    """Add weights for the download job. It cannot delete, and the bucket keeps what it overwrites as an old version."""
    return document(
        allow(
            "ListWeights",
            ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
            _once(arn.bucket for arn in arns),
        ),
        allow(
            "WriteWeights",
            ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
            _once(arn.objects for arn in arns),
        ),
        *_kms(kms_key_arn, ["kms:Decrypt", "kms:GenerateDataKey"]),
    )


def _kms(key_arn: str | None, actions: Sequence[str]) -> list[Statement]:
    return [allow("UseTheKey", actions, key_arn)] if key_arn else []


def _once(arns: Iterable[Any]) -> list[Any]:
    """Each ARN once, in order. An Output equals nothing but itself, and is not to be asked."""
    return list({arn if isinstance(arn, str) else id(arn): arn for arn in arns}.values())
