"""Copies models from their S3 volume to the node's own disks, once a node, and checks them. Standard library only.

Runs as a DaemonSet pod. A copy is made in a hidden folder and renamed when it is whole, so a revision's folder is
either absent or complete; a copy that was cut short goes on where it stopped. Revisions that are no longer wanted stay
until their space is needed: a replica that has not been replaced yet may still start from them.

Environment: WANTED (JSON: [{"model", "revision", "marked"}]; marked: a download job writes the marker last, so the
source is used only with it), SOURCE and CACHE (folders with <model>/<revision>), READY_FILE.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

MARKER = ".complete"
CHECKSUMS = "SHA256SUMS"
CHUNK = 8 * 2**20
# One sequential stream of Mountpoint brings about 1.5 GB/s, four bring about 5 (mountpoint-s3 benchmarks).
STREAMS = 4
SPARE = 0.05  # part of the disk that stays free: at 10 % the kubelet begins to evict pods
POLL_SECONDS = 15.0


class FillError(Exception):
    """The cache cannot be filled; the text says why and what to do."""


@dataclass(frozen=True)
class Wanted:
    """One model that the node's cache must hold."""

    model: str
    revision: str
    marked: bool = False


def fill(wanted: Wanted, source: Path, cache: Path, keep: tuple[Wanted, ...] = ()) -> bool:
    """Bring one model into the cache; True when it was copied now, False when it was there.

    Raises:
        FillError: a file differs from its checksum, is missing, or there is no room.
    """
    target = cache / wanted.model / wanted.revision
    if (target / MARKER).exists():
        return False
    origin = source / wanted.model / wanted.revision
    partial = target.with_name(f".{wanted.revision}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    files = {str(path.relative_to(origin)): path for path in _files(origin) if path.name != MARKER}
    checksums = read_checksums(origin / CHECKSUMS)
    if missing := sorted(set(checksums) - set(files)):
        raise FillError(
            f"{origin}: {CHECKSUMS} names {', '.join(missing)}, which is not there; upload it again"
        )
    if not checksums:
        _say(f"{wanted.model}: no {CHECKSUMS} beside the weights, so only sizes are checked")
    _make_room(cache, files, partial, (wanted, *keep))
    started = time.monotonic()
    with ThreadPoolExecutor(STREAMS) as pool:
        jobs = [pool.submit(_copy, path, partial / name, checksums.get(name)) for name, path in files.items()]
        size = sum(job.result() for job in jobs)
    (partial / MARKER).write_text(json.dumps({"files": len(files), "bytes": size}))
    if target.exists():  # without a marker it is not ours and not whole
        shutil.rmtree(target)
    partial.rename(target)
    seconds = max(time.monotonic() - started, 1e-3)
    _say(
        f"{wanted.model}/{wanted.revision}: {size / 1e9:.1f} GB in {seconds:.0f} s ({size / 1e9 / seconds:.2f} GB/s)"
    )
    return True


def is_ready(wanted: Wanted, source: Path) -> bool:
    """Whether the source is whole: it is there, and has the marker where a download job writes one."""
    origin = source / wanted.model / wanted.revision
    return (origin / MARKER).exists() if wanted.marked else origin.is_dir()


def read_checksums(path: Path) -> dict[str, str]:
    """File name to SHA-256 out of a `sha256sum` file; empty where there is none."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(maxsplit=1) for line in lines if line.strip())
    return {name.lstrip("*"): digest.lower() for digest, name in pairs}


def _copy(source: Path, target: Path, checksum: str | None) -> int:
    """Copy one file beside its name, check it, then give it its name; a file with its name is done. Returns bytes."""
    size = source.stat().st_size
    if target.exists() and target.stat().st_size == size:
        return size
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    digest, copied = hashlib.sha256(), 0
    with source.open("rb", buffering=0) as reader, part.open("wb", buffering=0) as writer:
        while chunk := reader.read(CHUNK):
            writer.write(chunk)
            copied += len(chunk)
            if checksum:
                digest.update(chunk)
        os.fsync(writer.fileno())
    if copied != size:
        part.unlink()
        raise FillError(f"{source}: {copied} of {size} bytes came; the copy begins again")
    if checksum and digest.hexdigest() != checksum:
        part.unlink()
        raise FillError(
            f"{source}: SHA-256 is {digest.hexdigest()}, {CHECKSUMS} says {checksum}; upload it again"
        )
    part.chmod(0o644)
    part.rename(target)
    return size


def _make_room(cache: Path, files: Mapping[str, Path], partial: Path, keep: tuple[Wanted, ...]) -> None:
    """Remove revisions that nobody wants, oldest first, until the model fits.

    Raises:
        FillError: it does not fit even then.
    """
    here = sum(path.stat().st_size for path in _files(partial))
    need = sum(path.stat().st_size for path in files.values()) - here
    kept = {cache / one.model / one.revision for one in keep} | {partial}
    for folder in sorted(_revisions(cache), key=lambda path: path.stat().st_mtime):
        if _free(cache) >= need:
            return
        if folder not in kept:
            _say(f"removing {folder} to make room")
            shutil.rmtree(folder)
    if (free := _free(cache)) < need:
        raise FillError(
            f"{need / 1e9:.1f} GB are needed and {max(free, 0) / 1e9:.1f} GB are free on {cache}; "
            "use an instance type with larger disks, or cache fewer models in this pool"
        )


def _free(cache: Path) -> float:
    usage = shutil.disk_usage(cache)
    return usage.free - SPARE * usage.total


def _revisions(cache: Path) -> Iterator[Path]:
    return (
        revision
        for model in cache.iterdir()
        if model.is_dir()
        for revision in model.iterdir()
        if revision.is_dir()
    )


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a pod's log


def _fill_all(wanted: tuple[Wanted, ...], source: Path, cache: Path) -> None:
    """Fill what is ready, then wait for the rest; models do not wait for each other."""
    waiting, said = list(wanted), set[str]()
    while waiting:
        for one in [one for one in waiting if is_ready(one, source)]:
            fill(one, source, cache, wanted)
            waiting.remove(one)
        for one in waiting:
            if one.model not in said:
                said.add(one.model)
                _say(f"{one.model}/{one.revision}: not in the bucket yet; waiting")
        if waiting:
            time.sleep(POLL_SECONDS)


def main() -> int:
    """Fill the cache, say so in READY_FILE and stay until the pod ends; 1 when it cannot be filled."""
    # The first process of a container has no default action for SIGTERM; a copy in progress may be cut at any point.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    wanted = tuple(Wanted(**one) for one in json.loads(os.environ["WANTED"]))
    os.umask(0o022)  # workers read as another user
    try:
        _fill_all(wanted, Path(os.environ["SOURCE"]), Path(os.environ["CACHE"]))
    except (FillError, OSError) as error:
        _say(f"error: {error}")
        return 1
    Path(os.environ["READY_FILE"]).touch()
    _say("all models are in the cache")
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
