"""Templates, names and values between Pulumi and the AWS API, and the SDK's types."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from rehearsal.aws import sdk_types
from rehearsal.aws.shapes import MISSING, ShapeError, as_given, fill, to_shape

BUCKET = "aws:s3/bucketVersioning:BucketVersioning"


def shape(service: str, operation: str) -> Any:
    """The input shape of an operation."""
    return botocore.session.get_session().get_service_model(service).operation_model(operation).input_shape


def test_a_template_keeps_types_and_leaves_out_what_is_missing() -> None:
    """A lone place keeps its value's type; a field without a value, and what hangs on it, is left out."""
    values = {"port": 443, "name": "web", "cidr": None}
    template = {
        "Port": "{port}",
        "Name": "{name}-{port}",
        "Gone": "{cidr}",
        "Ranges": [{"?": "{cidr}", "Note": "{name}"}],
    }

    assert fill(template, values) == {"Port": 443, "Name": "web-443"}
    assert fill({"Gone": "{cidr}"}, values) is MISSING


def test_names_find_the_fields_of_the_api() -> None:
    """Pulumi's spelling finds the API's, tags become keys and values, texts become what the API wants."""
    rules = [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": "k"}}]
    encryption = {"Bucket": "b", "ServerSideEncryptionConfiguration": {"Rules": rules}}
    template = {
        "launchTemplateName": "t",
        "launchTemplateData": {"tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "n"}}]},
    }
    queue = {"queueName": "q", "attributes": {"SqsManagedSseEnabled": True, "MessageRetentionPeriod": 300}}

    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "k"}
    assert to_shape(encryption, shape("s3", "PutBucketEncryption"))["ServerSideEncryptionConfiguration"] == {
        "Rules": [{"ApplyServerSideEncryptionByDefault": default}]
    }
    assert to_shape(template, shape("ec2", "CreateLaunchTemplate"))["LaunchTemplateData"] == {
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "n"}]}]
    }
    assert to_shape(queue, shape("sqs", "CreateQueue"))["Attributes"] == {
        "SqsManagedSseEnabled": "true",
        "MessageRetentionPeriod": "300",
    }


def test_a_field_that_the_api_does_not_have_is_refused() -> None:
    """Nothing is dropped silently on the way to AWS."""
    with pytest.raises(ShapeError, match=r"^CreateVpcRequest of the AWS API has no field cidrBlok$"):
        to_shape({"cidrBlok": "10.0.0.0/16"}, shape("ec2", "CreateVpc"))


@pytest.mark.parametrize(
    ("given", "seen", "result"),
    [
        ("300", 300, "300"),
        ('{"a": [1, 2]}', {"a": [1, 2]}, '{"a": [1, 2]}'),
        ('{"a": 1}', '{"a":2}', '{"a":2}'),
        (["b", "a"], ["a", "b"], ["b", "a"]),
        (["a"], ["a", "c"], ["a", "c"]),
        ({"minSize": 2}, {"minSize": 3, "maxSize": 4}, {"minSize": 3}),
        ({"team": "x"}, [{"Key": "team", "Value": "y"}], {"team": "y"}),
        ([{"status": "Enabled"}], [{"Status": "Enabled"}, {"Status": "Off"}], [{"status": "Enabled"}, {"status": "Off"}]),
        ("kept", MISSING, "kept"),
    ],
)  # fmt: skip
def test_what_was_seen_is_compared_by_meaning(given: Any, seen: Any, result: Any) -> None:
    """The given value stays when the cloud means the same, and gives way when it does not."""
    assert as_given(given, seen) == result


def test_the_sdk_decides_what_a_type_has() -> None:
    """Unknown, missing and mistyped properties are named by their path; unknown values of a preview pass."""
    good = {"bucket": sdk_types.UNKNOWN, "versioningConfiguration": {"status": "Enabled"}}
    bad = {"versioningConfiguration": {"status": 1, "state": "x"}, "buckett": "b"}

    assert sdk_types.check(BUCKET, good) == []
    assert sorted((row.path, row.reason) for row in sdk_types.check(BUCKET, bad)) == [
        ("bucket", "is missing, and the type requires it"),
        ("buckett", "is no property of BucketVersioningInit"),
        ("versioningConfiguration.state", "is no property of BucketVersioningVersioningConfiguration"),
        ("versioningConfiguration.status", "must be str, and is 1"),
    ]
