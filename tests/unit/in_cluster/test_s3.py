"""The small S3 client of the download job."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.unit.in_cluster.loading import load

s3 = load("s3")
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


class _Answers:
    """Stands in for urlopen: gives what it was told to give, and notes what it was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), list[Any]()

    def __call__(self, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Answer:
    def __init__(self, status: int = 200, text: str = "", **headers: str) -> None:
        self.status, self.text, self.headers = status, text, headers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def read(self) -> bytes:
        return self.text.encode()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "PATIENCE", 0.0)


@pytest.fixture
def bucket() -> Iterator[Any]:
    """A bucket whose answers the test writes."""
    session = s3.Session({"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})
    return s3.Bucket(session, "us-west-2", "weights", "llama/v1/")


def test_signs_as_botocore_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request has the same signature: path, query, token, metadata and content."""
    for module in ("botocore.compat", "botocore.auth"):
        monkeypatch.setattr(
            f"{module}.get_current_datetime", lambda **_: NOW.replace(tzinfo=None), raising=False
        )
    content = s3.hash_of(b"data")
    theirs = AWSRequest(
        "PUT", "https://s3.us-west-2.amazonaws.com/weights/a%20b/c.json?partNumber=1&uploadId=x%2Fy",
        headers={"x-amz-meta-sha256": "00", "X-Amz-Content-SHA256": content}, data=b"data",
    )  # fmt: skip
    S3SigV4Auth(Credentials("key", "secret", "token"), "s3", "us-west-2").add_auth(theirs)

    ours = s3.sign(
        s3.Credentials("key", "secret", "token"), "us-west-2", "PUT", "s3.us-west-2.amazonaws.com", "/weights/a%20b/c.json",
        "partNumber=1&uploadId=x%2Fy", content, {"x-amz-meta-sha256": "00"}, NOW,
    )  # fmt: skip

    assert ours["x-amz-date"] == theirs.headers["X-Amz-Date"]
    assert ours["Authorization"] == theirs.headers["Authorization"]


def test_asks_pod_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the pod's token, and again when the keys are about to end."""
    (tmp_path / "token").write_text("pod-token")
    found = {
        "AccessKeyId": "key",
        "SecretAccessKey": "secret",
        "Token": "session",
        "Expiration": "2026-11-30T13:00:00Z",
    }
    answers = _Answers(
        _Answer(text=json.dumps(found)), _Answer(text=json.dumps({**found, "AccessKeyId": "new"}))
    )
    monkeypatch.setattr(s3.urllib.request, "urlopen", answers)
    monkeypatch.setattr(s3.json, "load", lambda answer: json.loads(answer.text))
    session = s3.Session(
        {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
         "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}
    )  # fmt: skip

    monkeypatch.setattr(s3.time, "time", NOW.timestamp)
    assert (
        session.credentials()
        == session.credentials()
        == s3.Credentials("key", "secret", "session", NOW.timestamp() + 3600)
    )
    monkeypatch.setattr(s3.time, "time", lambda: NOW.timestamp() + 3400)
    assert session.credentials().key == "new"
    assert answers.asked[0].headers == {"Authorization": "pod-token"}


def test_says_when_the_pod_has_no_identity() -> None:
    """The usual mistake is a missing association."""
    with pytest.raises(
        s3.S3Error, match="the pod has no identity; its service account needs a Pod Identity association"
    ):
        s3.Session({}).credentials()


def test_tries_again_when_s3_is_busy(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both when it says so and when the connection breaks."""
    answers = _Answers(
        s3.S3Error(503, "SlowDown"), ConnectionResetError("reset"), _Answer(**{"Content-Length": "3"})
    )
    monkeypatch.setattr(s3.urllib.request, "urlopen", answers)

    assert bucket.head("config.json") == {"content-length": "3"}
    assert answers.asked[0].full_url == "https://s3.us-west-2.amazonaws.com/weights/llama/v1/config.json"


def test_does_not_try_again_what_is_refused(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission does not come by asking twice."""
    answers = _Answers(s3.S3Error(403, "Access Denied"))
    monkeypatch.setattr(s3.urllib.request, "urlopen", answers)

    with pytest.raises(s3.S3Error, match="S3 answers 403: Access Denied"):
        bucket.head("config.json")
    assert len(answers.asked) == 1


def test_an_error_after_the_first_header_is_seen(
    bucket: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """S3 may say 200 and then that the upload failed; the upload is given up."""
    (tmp_path / "data").write_bytes(b"data")
    answers = _Answers(
        _Answer(text="<UploadId>one</UploadId>"),
        _Answer(ETag='"tag"'),
        _Answer(text="<Error>late</Error>"),
        _Answer(204),
    )
    monkeypatch.setattr(s3.urllib.request, "urlopen", answers)

    with (tmp_path / "data").open("rb") as data, pytest.raises(s3.S3Error, match="late"):
        bucket.send("model.safetensors", data, 4, s3.hash_of(b"data"))
    assert [request.method for request in answers.asked] == ["POST", "PUT", "POST", "DELETE"]


def test_china_has_a_domain_of_its_own() -> None:
    """Regions that begin with cn-."""
    china = s3.Bucket(s3.Session({}), "cn-north-1", "weights", "")

    assert china._endpoint == "https://s3.cn-north-1.amazonaws.com.cn"
