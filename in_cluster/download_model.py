"""Brings a model from Hugging Face into a bucket, once, checked. Standard library only.

Files go from the hub to S3 without touching a disk, several at once. A file that is there with the hub's own checksum
is not sent again, so a job that was cut goes on; the marker is written last, and with it there is nothing to do.
Weights that are only there as PyTorch pickles (`pytorch_model*.bin`) are converted to safetensors, which needs torch:
they are loaded by its unpickler that runs no code, and refused if that cannot read them.

Of the image it needs torch, and that only to convert; it says so when it is missing. Hub and S3 are reached over their
plain HTTP interfaces, so neither huggingface_hub nor boto3 need be there.

Environment: REPOSITORY, REVISION (a commit), BUCKET, PREFIX (ending in "/"), AWS_REGION, SCRATCH; optional HF_TOKEN,
HF_ENDPOINT, ALLOW_CODE ("1": also Python files, for models with code of their own), AWS_ENDPOINT_URL.
Exit codes: 0 done, 1 worth another try, 2 refused (trying again cannot help).
"""

import hashlib
import http.client
import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import s3
from to_safetensors import Refused, load_pickle, write_safetensors

MARKER = ".complete"
CHECKSUMS = "SHA256SUMS"
STREAMS = 8
KEEP = (".safetensors", ".json", ".txt", ".model", ".jinja", ".tiktoken", ".md")
KEEP_NAMES = ("LICENSE", "NOTICE", "USE_POLICY.md")
# The same weights once more, in forms that vLLM does not read.
SKIP_FOLDERS = ("original", "metal", "onnx", "openvino", "coreml", "flax")
GONE = (401, 403, 404)


@dataclass(frozen=True)
class HubFile:
    """A file of a repository. ``sha256`` is the hub's own, known for files in large file storage only."""

    path: str
    size: int
    sha256: str | None


class Hub:
    """Hugging Face, or a mirror of it, at one commit of one repository."""

    def __init__(self, endpoint: str, repository: str, revision: str, token: str | None) -> None:
        self._endpoint, self._repository, self._revision, self._token = (
            endpoint.rstrip("/"),
            repository,
            revision,
            token,
        )

    def files(self) -> list[HubFile]:
        """All files of the repository at the commit."""
        url = f"{self._endpoint}/api/models/{self._repository}/tree/{self._revision}?recursive=true"
        found: list[HubFile] = []
        while url:
            with self._open(url) as answer:
                found += [_hub_file(entry) for entry in json.load(answer) if entry["type"] == "file"]
                url = _next_page(answer.headers.get("Link", ""))
        return found

    def stream(self, file: HubFile) -> s3.Reader:
        """The bytes of a file, taken up again where a connection breaks."""
        path = urllib.parse.quote(file.path)
        return _Resumed(
            lambda at: self._open(f"{self._endpoint}/{self._repository}/resolve/{self._revision}/{path}", at),
            file,
        )

    def _open(self, url: str, offset: int = 0) -> http.client.HTTPResponse:
        request = urllib.request.Request(url, headers={"User-Agent": "llm-platform"})  # noqa: S310 - the hub's address
        if offset:
            request.add_header("Range", f"bytes={offset}-")
        if self._token:
            # Not sent on to the storage that the hub redirects to: it belongs to someone else, and refuses two signatures.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=60)  # noqa: S310
        except urllib.error.HTTPError as error:
            if error.code in GONE:
                raise Refused(self._no_access(error.code)) from None
            raise
        if offset and answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            answer.close()
            raise ConnectionError(f"{url} does not send a file from its middle")
        return answer

    def _no_access(self, code: int) -> str:
        where = f"{self._repository} at {self._revision}"
        if code == http.HTTPStatus.NOT_FOUND:
            return f"{where}: the hub has no such file or commit; check repository and revision"
        with_token = (
            "the token in llm-platform:huggingFaceToken may not read it"
            if self._token
            else "no token was given"
        )
        return (
            f"{where}: the hub answers {code}: {with_token}; accept the licence on https://huggingface.co/"
            f"{self._repository} with the token's account, and set gated: true and the secret"
        )


class _Resumed:
    """Reads a file of known size over connections that may break."""

    def __init__(self, connect: Callable[[int], http.client.HTTPResponse], file: HubFile) -> None:
        self._connect, self._file = connect, file
        self._at, self._tries = 0, 0
        self._answer: http.client.HTTPResponse | None = None

    def read(self, size: int, /) -> bytes:
        while self._at < self._file.size:
            try:
                self._answer = self._answer or self._connect(self._at)
                data = self._answer.read(min(size, self._file.size - self._at))
                if not data:  # a broken connection looks like an early end
                    raise ConnectionError(
                        f"{self._file.path}: ended after {self._at} of {self._file.size} bytes"
                    )
            except (OSError, http.client.HTTPException) as error:
                self._wait(error)
                continue
            self._at, self._tries = self._at + len(data), 0
            return data
        return b""

    def _wait(self, error: Exception) -> None:
        if self._answer:
            self._answer.close()
        self._answer, self._tries = None, self._tries + 1
        if self._tries >= s3.TRIES:
            raise error
        time.sleep(min(30, 2.0**self._tries) * s3.PATIENCE)


def choose(files: Iterable[HubFile], *, allow_code: bool) -> tuple[list[HubFile], list[HubFile]]:
    """What is taken as it is, and the `.bin` files to convert (none where there are safetensors).

    Raises:
        Refused: the repository has weights in neither form.
    """
    kept = [file for file in files if _is_kept(file.path, allow_code=allow_code)]
    safe = [file for file in kept if file.path.endswith(".safetensors")]
    # Mistral's own layout, beside the same weights in the layout of transformers.
    extra = {file.path for file in safe if Path(file.path).name.startswith("consolidated")}
    if len(extra) < len(safe):
        kept = [file for file in kept if file.path not in extra]
    if safe:
        return kept, []
    pickles = [file for file in files if re.fullmatch(r"pytorch_model(-\d+-of-\d+)?\.bin", file.path)]
    if not pickles:
        raise Refused(
            "the repository has neither *.safetensors nor pytorch_model*.bin weights; choose another"
        )
    return [file for file in kept if not file.path.endswith(".bin.index.json")], pickles


def transfer(
    hub: Hub, bucket: s3.Bucket, scratch: Path, *, allow_code: bool, source: Mapping[str, str]
) -> int:
    """Bring the model into the bucket; the number of files that were sent.

    Raises:
        Refused: the model cannot be taken.
    """
    if bucket.head(MARKER):
        _say("the revision is in the bucket; nothing to do")
        return 0
    kept, pickles = choose(hub.files(), allow_code=allow_code)
    with ThreadPoolExecutor(STREAMS) as pool:
        results = list(pool.map(lambda file: _send_file(hub, bucket, file), kept))
    checksums = {file.path: digest for file, (digest, _) in zip(kept, results, strict=True)}
    sent = sum(new for _, new in results)
    if pickles:
        checksums |= _convert_all(hub, bucket, pickles, scratch)
        sent += len(pickles)
    sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items()))
    bucket.put(CHECKSUMS, sums.encode())
    bucket.put(MARKER, json.dumps({**source, "files": len(checksums)}).encode())
    _say(f"complete: {len(checksums)} files, {sent} of them sent now")
    return sent


def _convert_all(hub: Hub, bucket: s3.Bucket, pickles: list[HubFile], scratch: Path) -> dict[str, str]:
    """Convert one file at a time; checksums of what was sent."""
    checksums, weight_map, total = {}, dict[str, str](), 0
    for file in pickles:
        pickle, target = scratch / Path(file.path).name, scratch / _safe_name(file.path)
        _say(f"{file.path}: converting to {target.name}")
        _fetch(hub, file, pickle)
        weight_map |= write_safetensors(target, load_pickle(pickle))
        pickle.unlink()
        checksums[target.name] = _send_path(bucket, target)
        total += target.stat().st_size
        target.unlink()
    if len(pickles) > 1:
        index = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=1).encode()
        bucket.put("model.safetensors.index.json", index)
        checksums["model.safetensors.index.json"] = hashlib.sha256(index).hexdigest()
    return checksums


def _safe_name(path: str) -> str:
    """model-00001-of-00002.safetensors of pytorch_model-00001-of-00002.bin."""
    return Path(path).name.replace("pytorch_model", "model").removesuffix(".bin") + ".safetensors"


def _fetch(hub: Hub, file: HubFile, target: Path) -> None:
    digest, stream = hashlib.sha256(), hub.stream(file)
    with target.open("wb") as writer:
        while chunk := stream.read(s3.PART):
            digest.update(chunk)
            writer.write(chunk)
    if file.sha256 and digest.hexdigest() != file.sha256:
        raise ConnectionError(f"{file.path}: SHA-256 is {digest.hexdigest()}, the hub says {file.sha256}")


def _send_path(bucket: s3.Bucket, path: Path) -> str:
    with path.open("rb") as reader:
        digest = hashlib.file_digest(reader, "sha256").hexdigest()
        reader.seek(0)
        bucket.send(path.name, reader, path.stat().st_size, digest)
    return digest


def _send_file(hub: Hub, bucket: s3.Bucket, file: HubFile) -> tuple[str, bool]:
    """Send one file if it is not there; its checksum, and whether it was sent."""
    there = bucket.head(file.path)
    if there and int(there["content-length"]) == file.size:
        known = there.get("x-amz-meta-sha256")
        if known and known == (file.sha256 or known):
            return known, False
    if file.sha256 is None:  # not in large file storage: small
        data = s3.read_full(hub.stream(file), file.size)
        digest = hashlib.sha256(data).hexdigest()
        bucket.put(file.path, data, digest)
        return digest, True
    started = time.monotonic()
    bucket.send(file.path, hub.stream(file), file.size, file.sha256)
    seconds = max(time.monotonic() - started, 1e-3)
    _say(f"{file.path}: {file.size / 1e9:.2f} GB in {seconds:.0f} s")
    return file.sha256, True


def _is_kept(path: str, *, allow_code: bool) -> bool:
    if path.split("/", maxsplit=1)[0] in SKIP_FOLDERS:
        return False
    return path.endswith((*KEEP, ".py") if allow_code else KEEP) or Path(path).name in KEEP_NAMES


def _hub_file(entry: Mapping[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    return HubFile(entry["path"], large.get("size", entry["size"]), large.get("oid"))


def _next_page(link: str) -> str:
    match = re.search(r'<([^>]+)>;\s*rel="next"', link)
    return match[1] if match else ""


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a pod's log


def main() -> int:
    """Run once with what the environment says; the exit code."""
    signal.signal(
        signal.SIGTERM, lambda *_: os._exit(1)
    )  # the first process of a container has no default action
    env = os.environ
    hub = Hub(
        env.get("HF_ENDPOINT", "https://huggingface.co"),
        env["REPOSITORY"],
        env["REVISION"],
        env.get("HF_TOKEN"),
    )
    source = {"repository": env["REPOSITORY"], "revision": env["REVISION"]}
    try:
        bucket = s3.Bucket(
            s3.Session(), env["AWS_REGION"], env["BUCKET"], env["PREFIX"], env.get("AWS_ENDPOINT_URL", "")
        )
        transfer(hub, bucket, Path(env["SCRATCH"]), allow_code=env.get("ALLOW_CODE") == "1", source=source)
    except Refused as error:
        _say(f"refused: {error}")
        return 2
    except (OSError, http.client.HTTPException) as error:
        _say(f"failed, to be tried again: {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
