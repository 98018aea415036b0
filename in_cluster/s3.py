"""As much of S3 as it takes to fill a folder of a bucket. Standard library only: the serving image need not have boto3.

Requests are signed with AWS Signature Version 4 over their content, so S3 refuses what was damaged on the way.
Credentials come from EKS Pod Identity, or from the usual variables.
"""

import hashlib
import hmac
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, Protocol
from xml.sax.saxutils import escape

PART = 64 * 2**20  # of a multipart upload: 10,000 parts reach 640 GB
TRIES = 6
PATIENCE = 1.0  # factor of the pauses between tries; tests set it to 0
EMPTY = hashlib.sha256(b"").hexdigest()
_EARLY = 300.0  # seconds before their end in which credentials are no longer used


class Reader(Protocol):
    """What an object's bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


class S3Error(OSError):
    """S3 refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"S3 answers {status}: {text}")
        self.status = status


@dataclass(frozen=True)
class Credentials:
    """Keys, and when they end (seconds since the epoch; 0: never)."""

    key: str
    secret: str
    token: str = ""
    ends: float = 0.0


class Session:
    """Where credentials come from, asked again before they end."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._known: Credentials | None = None

    def credentials(self) -> Credentials:
        """Credentials that hold for some minutes more."""
        if self._known is None or 0 < self._known.ends < time.time() + _EARLY:
            self._known = self._ask()
        return self._known

    def _ask(self) -> Credentials:
        env = self._env
        if env.get("AWS_ACCESS_KEY_ID"):
            return Credentials(
                env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env.get("AWS_SESSION_TOKEN", "")
            )
        if "AWS_CONTAINER_CREDENTIALS_FULL_URI" not in env:
            raise S3Error(0, "the pod has no identity; its service account needs a Pod Identity association")
        token = Path(env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text(encoding="utf-8")
        request = urllib.request.Request(  # noqa: S310 - the agent's address on the node
            env["AWS_CONTAINER_CREDENTIALS_FULL_URI"], headers={"Authorization": token}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            found = json.load(answer)
        ends = datetime.fromisoformat(found["Expiration"]).timestamp()
        return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found.get("Token", ""), ends)


class Bucket:
    """A folder of a bucket."""

    def __init__(self, session: Session, region: str, name: str, prefix: str, endpoint: str = "") -> None:
        domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
        self._endpoint = endpoint or f"https://s3.{region}.{domain}"
        self._session, self._region, self._name, self._prefix = session, region, name, prefix

    def head(self, name: str) -> Mapping[str, str] | None:
        """Headers of an object with lower-case names, or None where there is none."""
        try:
            answer = self._request("HEAD", name)
        except S3Error as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return None
            raise
        return {key.lower(): value for key, value in answer.headers.items()}

    def put(self, name: str, data: bytes, sha256: str = "") -> None:
        """Write a small object, with its checksum as metadata where one is given."""
        self._request("PUT", name, body=data, headers={"x-amz-meta-sha256": sha256} if sha256 else {})

    def send(self, name: str, source: Reader, size: int, sha256: str) -> None:
        """Send a large object in parts; it appears only when its checksum is right.

        Raises:
            ConnectionError: what came is not what the checksum says.
        """
        started = self._request("POST", name, {"uploads": ""}, headers={"x-amz-meta-sha256": sha256})
        upload = _element(started.text, "UploadId")
        try:
            tags, digest, sent = list[str](), hashlib.sha256(), 0
            while chunk := read_full(source, PART):
                digest.update(chunk)
                sent += len(chunk)
                query = {"partNumber": str(len(tags) + 1), "uploadId": upload}
                tags.append(self._request("PUT", name, query, body=chunk).headers["ETag"])
            if sent != size or digest.hexdigest() != sha256:
                _differs(name, sent, size, digest.hexdigest(), sha256)
            done = self._request("POST", name, {"uploadId": upload}, body=_parts(tags))
            _refuse_late_error(done)
        except BaseException:
            self._request("DELETE", name, {"uploadId": upload})
            raise

    def _request(
        self,
        method: str,
        name: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> "_Answer":
        """One request, tried again where S3 is busy or a connection breaks."""
        path = urllib.parse.quote(f"/{self._name}/{self._prefix}{name}")
        for attempt in range(1, TRIES + 1):
            try:
                return self._once(method, path, query or {}, body, headers or {})
            except S3Error as error:
                busy = error.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR or error.status == 429  # noqa: PLR2004
                if not busy or attempt == TRIES:
                    raise
            except (OSError, http.client.HTTPException):
                if attempt == TRIES:
                    raise
            time.sleep(min(30.0, 2.0**attempt) * PATIENCE)
        raise AssertionError  # the last attempt returns or raises

    def _once(
        self, method: str, path: str, query: Mapping[str, str], body: bytes, headers: Mapping[str, str]
    ) -> "_Answer":
        url = urllib.parse.urlsplit(self._endpoint)
        text = "&".join(f"{quote(key)}={quote(value)}" for key, value in sorted(query.items()))
        signed = sign(
            self._session.credentials(), self._region, method, url.netloc, path, text, hash_of(body), headers, datetime.now(UTC)
        )  # fmt: skip
        request = urllib.request.Request(  # noqa: S310 - S3's address
            f"{self._endpoint}{path}" + (f"?{text}" if text else ""),
            body or None,
            {**signed, "Content-Type": "application/octet-stream"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                return _Answer(answer.status, dict(answer.headers), answer.read().decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode(errors="replace")
            raise S3Error(error.code, _element(text, "Message") or text or error.reason) from None


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    text: str


def sign(
    credentials: Credentials,
    region: str,
    method: str,
    host: str,
    path: str,
    query: str,
    content: str,
    headers: Mapping[str, str],
    now: datetime,
) -> dict[str, str]:
    """Headers of a request with its signature (AWS Signature Version 4). ``path`` and ``query`` are encoded already."""
    stamp, scope = now.strftime("%Y%m%dT%H%M%SZ"), f"{now:%Y%m%d}/{region}/s3/aws4_request"
    covered = {**headers, "host": host, "x-amz-content-sha256": content, "x-amz-date": stamp}
    if credentials.token:
        covered["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(covered))
    lines = "".join(f"{name}:{covered[name]}\n" for name in sorted(covered))
    canonical = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{content}"
    to_sign = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hash_of(canonical.encode())}"
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return {**covered, "Authorization": authorization}


def read_full(source: Reader, size: int) -> bytes:
    """Exactly so many bytes, fewer only at the end: S3 wants parts of at least 5 MiB but for the last."""
    chunks, missing = list[bytes](), size
    while missing and (chunk := source.read(missing)):
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks)


def hash_of(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest() if data else EMPTY


def quote(text: str) -> str:
    """A part of a query as the signature wants it."""
    return urllib.parse.quote(text, safe="")


def _refuse_late_error(answer: _Answer) -> None:
    """S3 may find out that an upload failed after its first header has said 200."""
    if "<Error>" in answer.text:
        raise S3Error(answer.status, answer.text)


def _parts(tags: list[str]) -> bytes:
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
        for number, tag in enumerate(tags, 1)
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


def _element(text: str, name: str) -> str:
    """Text of the first element of a name; S3's answers here are flat, and a parser of XML has holes of its own."""
    match = re.search(f"<{name}>([^<]*)</{name}>", text)
    return match[1] if match else ""


def _differs(name: str, sent: int, size: int, seen: str, wanted: str) -> NoReturn:
    raise ConnectionError(f"{name}: {sent} of {size} bytes, SHA-256 {seen} instead of {wanted}")
