"""The bucket with the weights, who reads it, and how they get into pods."""

from typing import Any

import pulumi
import pytest

from components.cluster import cluster_for
from components.model_storage import ModelStorage, ModelStorageArgs
from preview.monitor import Registration
from tests.components.infra import (
    ACCOUNT,
    EXISTING,
    STACK,
    Graph,
    existing,
    inside,
    model,
    once,
    registered,
    settings,
    unknown,
)

HUB = {"repository": "Qwen/Qwen2.5-7B-Instruct", "revision": "a09a35458c702b33eeacc393d103063234e8bc28"}
SOURCE = {
    "kind": "s3",
    "prefix": "qwen2.5-7b-instruct",
    "revision": "a09a35458c702b33eeacc393d103063234e8bc28",
}
LOCAL = {"source": {"kind": "path", "path": "/opt/model"}, "loader": "local"}


@once
def storage(stack: Any = STACK, *, up: bool = False, driver_role: str | None = None, **changes: Any) -> Graph:
    """What the storage registers, with some of the stack's settings changed; as an update when ``up``."""
    wanted = settings(stack, **changes)

    def program() -> None:
        cluster = cluster_for(wanted)
        args = ModelStorageArgs(settings=wanted, cluster=cluster, driver_role=driver_role)
        made = ModelStorage("storage", args, inside(cluster))
        pulumi.export("bucket", made.bucket_name)

    def computed(registration: Registration) -> tuple[str, dict[str, Any]]:
        outputs = (
            {"bucket": "made-up", "arn": "arn:aws:s3:::made-up"}
            if registration.name == "storage-bucket"
            else {}
        )
        return f"{registration.name}-id", outputs

    return registered(program, computed if up else None)


def test_bucket_is_closed() -> None:
    """Encrypted, versioned, owner's objects only, no public access, TLS only."""
    graph = storage()

    assert graph.inputs("storage-bucket") == {"bucket": "demo-weights", "forceDestroy": False}
    assert graph.inputs("storage-bucket-encryption")["rules"] == [
        {"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}
    ]
    assert graph.inputs("storage-bucket-versioning")["versioningConfiguration"] == {"status": "Enabled"}
    assert graph.inputs("storage-bucket-ownership")["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    access = graph.inputs("storage-bucket-access")
    assert {key: value for key, value in access.items() if key != "bucket"} == {
        "blockPublicAcls": True, "blockPublicPolicy": True, "ignorePublicAcls": True, "restrictPublicBuckets": True,
    }  # fmt: skip
    assert graph.document("storage-bucket-policy")["Statement"][0]["Condition"] == {
        "Bool": {"aws:SecureTransport": "false"}
    }


def test_bucket_forgets_what_nobody_sees() -> None:
    """Parts of uploads that never ended go after a week, old versions after thirty days."""
    aborted, old = storage().inputs("storage-bucket-lifecycle")["rules"]

    assert aborted["abortIncompleteMultipartUpload"] == {"daysAfterInitiation": 7}
    assert old["noncurrentVersionExpiration"] == {"noncurrentDays": 30}
    assert (aborted["status"], old["status"], aborted["filter"]) == ("Enabled", "Enabled", {"prefix": ""})


def test_own_key() -> None:
    """With a KMS key the bucket uses it, and so may those who read."""
    key = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"
    graph = storage(storage={"bucket": "demo-weights", "kmsKeyArn": key})

    assert graph.inputs("storage-bucket-encryption")["rules"] == [
        {
            "applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": key},
            "bucketKeyEnabled": True,
        }
    ]
    assert graph.document("storage-read")["Statement"][-1]["Action"] == ["kms:Decrypt"]


def test_weights_are_kept() -> None:
    """A destroy leaves the bucket and its guards, and a protected bucket refuses it."""
    graph = storage()
    bucket = [name for name in graph.names(child_of="storage") if name.startswith("storage-bucket")]

    assert len(bucket) == 7
    assert all(graph[name].request.retainOnDelete for name in bucket)
    assert graph["storage-bucket"].request.protect


def test_weights_go_when_asked() -> None:
    """Where weights need not be kept, a destroy takes the bucket with all in it."""
    graph = storage(deletion={"protect": False, "keepWeights": False})

    assert graph.inputs("storage-bucket")["forceDestroy"] is True
    assert not graph["storage-bucket"].request.retainOnDelete
    assert not graph["storage-bucket"].request.protect


def test_named_bucket_is_known_everywhere() -> None:
    """Policies and volumes of a bucket that the settings name can be read at preview."""
    graph = storage()
    volume = graph.inputs("storage-weights-persistent-volume-small")

    assert volume["spec"]["csi"]["volumeAttributes"]["bucketName"] == "demo-weights"
    assert graph.document("storage-read")["Statement"] == [
        {"Sid": "ListWeights", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::demo-weights"]},
        {"Sid": "ReadWeights", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::demo-weights/*"]},
    ]  # fmt: skip


def test_unnamed_bucket_is_named_by_aws() -> None:
    """Without a name AWS makes one up, known after the update; the rest of the volume is known before."""
    graph = storage(storage={})
    volume = graph.inputs("storage-weights-persistent-volume-small")

    assert graph.inputs("storage-bucket") == {"forceDestroy": False}
    assert unknown(graph.inputs("storage-read")["policy"])
    assert unknown(volume["spec"]["csi"]["volumeAttributes"]["bucketName"])
    assert volume["spec"]["csi"]["driver"] == "s3.csi.aws.com"


def test_made_up_name_reaches_the_policies() -> None:
    """After the update the policies name the bucket that AWS made."""
    source = {**SOURCE, "downloadFrom": HUB}
    graph = storage(
        up=True,
        storage={},
        models=[model(source=source, loader="streamer"), model(name="other", source=source)],
    )

    assert graph.document("storage-bucket-policy")["Statement"][0]["Resource"] == [
        "arn:aws:s3:::made-up", "arn:aws:s3:::made-up/*",
    ]  # fmt: skip
    assert graph.document("storage-read")["Statement"][1]["Resource"] == ["arn:aws:s3:::made-up/*"]
    assert graph.document("storage-read-small")["Statement"][1]["Resource"] == [
        "arn:aws:s3:::made-up/qwen2.5-7b-instruct/*"
    ]
    assert graph.document("storage-write")["Statement"][0]["Resource"] == ["arn:aws:s3:::made-up"]


def test_existing_bucket_is_used() -> None:
    """A bucket that exists is neither made nor changed, only read."""
    graph = storage(storage={"bucket": "theirs", "existing": True})

    assert graph.names(":Bucket") == []
    assert graph.document("storage-read")["Statement"][0]["Resource"] == ["arn:aws:s3:::theirs"]


def test_bucket_of_a_model_is_read_only_where_the_model_lies() -> None:
    """Of another bucket than the stack's, only the model's folder is read; no bucket is made for it."""
    graph = storage(models=[model(source={**SOURCE, "bucket": "shared"})])

    assert graph.names(":Bucket") == []
    assert graph.document("storage-read")["Statement"][1]["Resource"] == [
        "arn:aws:s3:::shared/qwen2.5-7b-instruct/*"
    ]


def test_driver_reads() -> None:
    """The S3 driver's role gets the policy, before there are volumes."""
    graph = storage()

    assert graph.dependencies("storage-read-of-driver") == {"storage-read", "cluster-s3-csi"}
    assert "storage-read-of-driver" in graph.dependencies("storage-weights-persistent-volume-small")


def test_driver_of_an_existing_cluster() -> None:
    """A driver that this stack installs elsewhere gets the policy too; one that was there gets it from its owner."""
    assert storage(EXISTING, driver_role="driver").inputs("storage-read-of-driver")["role"] == "driver"
    assert "storage-read-of-driver" not in storage(EXISTING)
    assert "storage-read" in storage(EXISTING)


def test_claim_follows_its_volume() -> None:
    """A claim is made after its volume."""
    assert "storage-weights-persistent-volume-small" in storage().dependencies(
        "storage-weights-persistent-volume-claim-small"
    )


def test_streamer_reads_its_own_weights() -> None:
    """A model that streams has a role for its folder, handed to its own service account."""
    graph = storage(models=[model(loader="streamer")])
    trust = graph.document("storage-reader-small", "assumeRolePolicy")["Statement"][0]["Condition"][
        "StringEquals"
    ]

    assert graph.document("storage-read-small")["Statement"][1]["Resource"] == [
        "arn:aws:s3:::demo-weights/qwen2.5-7b-instruct/*"
    ]
    assert graph.inputs("storage-identity-small")["serviceAccount"] == "model-server-small"
    assert trust == {
        "aws:RequestTag/eks-cluster-name": "demo",
        "aws:RequestTag/kubernetes-namespace": "llm-serving",
        "aws:RequestTag/kubernetes-service-account": "model-server-small",
    }


def test_adapters_are_read() -> None:
    """A model with LoRA adapters reads their folder, whatever its loader."""
    graph = storage(models=[model(engine={"maxModelLen": 4096, "lora": {"path": "s3://adapters/team/qwen"}})])

    assert graph.document("storage-read-small")["Statement"][1]["Resource"] == [
        "arn:aws:s3:::adapters/team/qwen/*"
    ]


def test_own_role_is_handed_over() -> None:
    """A role that the model names is bound to its service account, and none is made."""
    role = f"arn:aws:iam::{ACCOUNT}:role/reader"
    graph = storage(models=[model(loader="streamer", identityRoleArn=role)])

    assert graph.inputs("storage-identity-small")["roleArn"] == role
    assert "storage-reader-small" not in graph


def test_download_may_write() -> None:
    """The job runs when its service account has its role; it may write the model's folder only."""
    graph = storage(models=[model(source={**SOURCE, "downloadFrom": HUB})])

    assert graph.inputs("storage-identity-of-download")["serviceAccount"] == "model-download"
    assert graph.document("storage-write")["Statement"][1]["Resource"] == [
        "arn:aws:s3:::demo-weights/qwen2.5-7b-instruct/*"
    ]
    assert {
        "storage-identity-of-download",
        "storage-bucket",
        "storage-download-config-map-small",
    } <= graph.dependencies("storage-download-job-small")
    assert "storage-writer-policy" in graph.outlived_by("storage-download-job-small")


def test_no_download_no_writer() -> None:
    """Without a job nobody may write."""
    assert "storage-writer" not in storage()


def test_cache_is_filled_after_the_download() -> None:
    """The filler of the nodes' cache comes when volumes and downloads are there."""
    graph = storage(models=[model(source={**SOURCE, "downloadFrom": HUB}, loader="nvmeCache")])

    assert {
        "storage-download-job-small",
        "storage-weights-persistent-volume-claim-small",
    } <= graph.dependencies("storage-cache-daemon-set-g5")


def test_models_on_a_path_need_nothing() -> None:
    """Where no model lies in a bucket there is no bucket and no policy."""
    assert storage(models=[model(**LOCAL)]).names(child_of="storage") == []


def test_nothing_of_aws_without_an_account() -> None:
    """Objects are placed on a cluster without AWS when the bucket exists."""
    graph = storage(
        EXISTING, accountId=None, storage={"bucket": "theirs", "existing": True}, cluster=existing()
    )

    assert graph.names(child_of="storage") == [
        "storage-weights-persistent-volume-claim-small", "storage-weights-persistent-volume-small",
    ]  # fmt: skip


def test_bucket_needs_an_account() -> None:
    """A bucket cannot be made without an account, which is said."""
    with pytest.raises(
        pulumi.RunError, match="making a bucket for weights on the existing cluster theirs needs AWS"
    ):
        storage(EXISTING, accountId=None)
