"""The download job, against a hub and an S3 (moto) over real HTTP."""

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.unit.in_cluster.loading import load

job = load("download_model")
s3 = load("s3")

WEIGHTS = bytes(range(256)) * 40_000  # 10 MB: two parts of the smallest size that S3 takes
TOKEN = "only-for-the-hub"  # noqa: S105 - of no real account
CONFIG = b'{"architectures": []}'


class _FakeHub:
    """A hub with one repository; `cut` breaks that many transfers in the middle, `gate` asks for a token."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            "config.json": CONFIG,
            "model.safetensors": WEIGHTS,
            "original/params.json": b"{}",
        }
        self.wrong_checksum = False
        self.cut = 0
        self.gate: str | None = None
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.url = ""

    def entry(self, path: str, data: bytes) -> dict[str, Any]:
        if not path.endswith((".safetensors", ".bin")):
            return {"type": "file", "path": path, "size": len(data), "oid": "git"}
        digest = "0" * 64 if self.wrong_checksum else hashlib.sha256(data).hexdigest()
        return {"type": "file", "path": path, "size": len(data), "lfs": {"oid": digest, "size": len(data)}}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[_FakeHub]:
    """A running hub whose large files lie at another host name, as the real one's do."""
    fake = _FakeHub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_GET(self) -> None:
            fake.asked.append((self.path, self.headers.get("Authorization"), self.headers.get("Range")))
            if self.path.startswith("/storage/"):
                self._send(fake.files[self.path.removeprefix("/storage/")])
            elif fake.gate and self.headers.get("Authorization") != f"Bearer {fake.gate}":
                self.send_error(401)
            elif "/tree/" in self.path:
                self._tree()
            else:
                self.send_response(302)
                name = self.path.split("/resolve/")[1].split("/", 1)[1]
                self.send_header("Location", fake.url.replace("127.0.0.1", "localhost") + f"/storage/{name}")
                self.end_headers()

        def _tree(self) -> None:
            entries = [
                {"type": "directory", "path": "original"},
                *(fake.entry(*item) for item in fake.files.items()),
            ]
            first, rest = entries[:2], entries[2:]
            page = rest if "page=2" in self.path else first
            body = json.dumps(page).encode()
            self.send_response(200)
            if page is first:
                self.send_header("Link", f'<{fake.url}{self.path}&page=2>; rel="next"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _send(self, data: bytes) -> None:
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            part = data[start:]
            if fake.cut and len(part) > 1_000_000:
                fake.cut -= 1
                part = part[: len(part) // 2]
            self.wfile.write(part)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setattr(s3, "PATIENCE", 0.0)
    monkeypatch.setattr(s3, "PART", 5 * 2**20)
    yield fake
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def storage() -> Iterator[str]:
    """Address of an S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def client(storage: str) -> Iterator[Any]:
    """The S3 with an empty bucket."""
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    client = boto3.client("s3", region_name="us-west-2", endpoint_url=storage, **keys)
    client.create_bucket(Bucket="weights", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    yield client
    for key in _objects(client):
        client.delete_object(Bucket="weights", Key=key)
    client.delete_bucket(Bucket="weights")
    client.close()


def _run(
    hub: _FakeHub, client: Any, tmp_path: Path, *, token: str | None = None, allow_code: bool = False
) -> int:
    remote = job.Hub(hub.url, "acme/llama", "c0ffee", token)
    session = s3.Session({"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"})
    bucket = s3.Bucket(session, "us-west-2", "weights", "llama/c0ffee/", client.meta.endpoint_url)
    return int(job.transfer(remote, bucket, tmp_path, allow_code=allow_code, source={"revision": "c0ffee"}))


def _objects(client: Any) -> dict[str, bytes]:
    keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="weights").get("Contents", [])]
    return {key: client.get_object(Bucket="weights", Key=key)["Body"].read() for key in keys}


def test_brings_the_model(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """Files, their checksums and the marker; what vLLM does not read stays behind."""
    assert _run(hub, client, tmp_path) == 2
    objects = _objects(client)

    assert set(objects) == {
        f"llama/c0ffee/{name}" for name in ("config.json", "model.safetensors", "SHA256SUMS", ".complete")
    }
    assert objects["llama/c0ffee/model.safetensors"] == WEIGHTS
    assert objects["llama/c0ffee/SHA256SUMS"].decode() == (
        f"{hashlib.sha256(CONFIG).hexdigest()}  config.json\n{hashlib.sha256(WEIGHTS).hexdigest()}  model.safetensors\n"
    )
    assert json.loads(objects["llama/c0ffee/.complete"]) == {"revision": "c0ffee", "files": 2}


def test_does_nothing_twice(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """With the marker the hub is not even asked."""
    _run(hub, client, tmp_path)
    hub.asked.clear()

    assert _run(hub, client, tmp_path) == 0
    assert hub.asked == []


def test_sends_only_what_is_missing(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """A job that was cut after the weights sends the rest."""
    _run(hub, client, tmp_path)
    for name in (".complete", "config.json"):
        client.delete_object(Bucket="weights", Key=f"llama/c0ffee/{name}")

    assert _run(hub, client, tmp_path) == 1


def test_replaces_an_object_of_another_content(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """The same size is not the same file."""
    client.put_object(Bucket="weights", Key="llama/c0ffee/model.safetensors", Body=b"x" * len(WEIGHTS))

    _run(hub, client, tmp_path)

    assert _objects(client)["llama/c0ffee/model.safetensors"] == WEIGHTS


def test_takes_up_a_broken_connection(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """From the byte where it broke, and what arrives is right."""
    hub.cut = 2

    _run(hub, client, tmp_path)

    ranges = [asked[2] for asked in hub.asked if asked[0] == "/storage/model.safetensors"]
    assert ranges == [None, "bytes=5120000-", "bytes=7680000-"]
    assert _objects(client)["llama/c0ffee/model.safetensors"] == WEIGHTS


def test_gives_up_on_a_connection_that_never_holds(
    hub: _FakeHub, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After six tries without a byte the pod ends, and the Job makes another."""
    monkeypatch.setattr(
        job._Resumed, "read", lambda self, _: self._wait(ConnectionError("gone")) or self.read(1)
    )

    with pytest.raises(ConnectionError, match="gone"):
        _run(hub, client, tmp_path)


def test_a_damaged_file_does_not_appear(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """A wrong checksum leaves no object, no half upload and no marker."""
    hub.wrong_checksum = True

    with pytest.raises(
        ConnectionError, match=r"model\.safetensors: 10240000 of 10240000 bytes, SHA-256 .* instead of 0000"
    ):
        _run(hub, client, tmp_path)
    assert "llama/c0ffee/model.safetensors" not in _objects(client)
    assert "llama/c0ffee/.complete" not in _objects(client)
    assert client.list_multipart_uploads(Bucket="weights").get("Uploads", []) == []


def test_a_gated_model_needs_its_token(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """Refused with what to do: accept the licence, set the secret."""
    hub.gate = TOKEN

    with pytest.raises(
        job.Refused,
        match=r"answers 401: no token was given; accept the licence on https://huggingface\.co/acme/llama",
    ):
        _run(hub, client, tmp_path)
    assert _run(hub, client, tmp_path, token=TOKEN) == 2


def test_the_token_stays_with_the_hub(hub: _FakeHub, client: Any, tmp_path: Path) -> None:
    """The storage that the hub redirects to never sees it."""
    hub.gate = TOKEN

    _run(hub, client, tmp_path, token=TOKEN)

    assert {asked[1] for asked in hub.asked if asked[0].startswith("/storage/")} == {None}
    assert {asked[1] for asked in hub.asked if not asked[0].startswith("/storage/")} == {f"Bearer {TOKEN}"}


def test_converts_pickles(
    hub: _FakeHub, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where there are no safetensors: each file becomes one, with a new index, and the .bin stays behind."""
    hub.files = {
        "config.json": CONFIG,
        "pytorch_model.bin.index.json": b"{}",
        "pytorch_model-00001-of-00002.bin": b"one",
        "pytorch_model-00002-of-00002.bin": b"two",
    }
    convert = load("to_safetensors")
    monkeypatch.setattr(
        job, "load_pickle", lambda path: [convert.Tensor(path.stem[-14:-9], "U8", (3,), 3, path.read_bytes)]
    )

    _run(hub, client, tmp_path)
    objects = {key.removeprefix("llama/c0ffee/"): value for key, value in _objects(client).items()}

    assert set(objects) == {
        "config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
        "model.safetensors.index.json", "SHA256SUMS", ".complete",
    }  # fmt: skip
    assert json.loads(objects["model.safetensors.index.json"])["weight_map"] == {
        "00001": "model-00001-of-00002.safetensors",
        "00002": "model-00002-of-00002.safetensors",
    }
    assert objects["model-00002-of-00002.safetensors"].endswith(b"two")
    assert list(tmp_path.iterdir()) == []


def _chosen(*paths: str, allow_code: bool = False) -> list[str]:
    kept, pickles = job.choose([job.HubFile(path, 1, None) for path in paths], allow_code=allow_code)
    return [file.path for file in (*kept, *pickles)]


def test_prefers_safetensors() -> None:
    """With both forms the pickles stay behind."""
    assert _chosen("model.safetensors", "pytorch_model.bin") == ["model.safetensors"]


def test_takes_one_of_two_layouts() -> None:
    """Mistral's own file is the same weights once more; alone it is taken."""
    assert _chosen("model.safetensors", "consolidated.safetensors") == ["model.safetensors"]
    assert _chosen("consolidated.safetensors") == ["consolidated.safetensors"]


def test_takes_no_code_without_leave() -> None:
    """Python files come only where the stack trusts the model's code."""
    assert _chosen("model.safetensors", "modeling.py") == ["model.safetensors"]
    assert _chosen("model.safetensors", "modeling.py", allow_code=True) == [
        "model.safetensors",
        "modeling.py",
    ]


def test_refuses_a_repository_without_weights() -> None:
    """Weights in another form cannot be served."""
    with pytest.raises(job.Refused, match=r"neither \*\.safetensors nor pytorch_model\*\.bin weights"):
        _chosen("model.gguf", "config.json")


def _main(monkeypatch: pytest.MonkeyPatch, hub: _FakeHub, storage: str, tmp_path: Path) -> int:
    environment = {
        "REPOSITORY": "acme/llama", "REVISION": "c0ffee", "BUCKET": "weights", "PREFIX": "llama/c0ffee/",
        "SCRATCH": str(tmp_path), "HF_ENDPOINT": hub.url, "AWS_ENDPOINT_URL": storage, "AWS_REGION": "us-west-2",
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(job.signal, "signal", lambda *_: None)
    monkeypatch.setattr(s3.Session, "credentials", lambda _: s3.Credentials("test", "test"))
    return int(job.main())


@pytest.mark.usefixtures("client")
def test_exit_codes_say_whether_to_try_again(
    hub: _FakeHub,
    storage: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """2 is for good, 1 is worth another try, 0 is done; each with one sentence."""
    hub.gate = TOKEN
    assert _main(monkeypatch, hub, storage, tmp_path) == 2
    hub.gate, hub.wrong_checksum = None, True
    assert _main(monkeypatch, hub, storage, tmp_path) == 1
    hub.wrong_checksum = False
    assert _main(monkeypatch, hub, storage, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith("refused: ")
    assert any(line.startswith("failed, to be tried again: ConnectionError: ") for line in lines)
