"""The filler of the node's cache, on real folders."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.unit.in_cluster.loading import load

filler = load("cache_filler")
WEIGHTS = b"weights" * 1000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A bucket with one whole revision of one model."""
    _upload(tmp_path / "models", "llama", "v1")
    return tmp_path / "models"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """An empty disk."""
    (tmp_path / "nvme").mkdir()
    return tmp_path / "nvme"


def _upload(source: Path, model: str, revision: str, *, checksum: str | None = None) -> None:
    folder = source / model / revision / "sub"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    (folder.parent / "config.json").write_text("{}")
    digest = checksum or hashlib.sha256(WEIGHTS).hexdigest()
    (folder.parent / "SHA256SUMS").write_text(f"{digest}  sub/model.safetensors\n")
    (folder.parent / ".complete").write_text("{}")


def _fill(source: Path, cache: Path, revision: str = "v1", **kwargs: object) -> bool:
    return bool(filler.fill(filler.Wanted("llama", revision, **kwargs), source, cache))


def test_copies_every_file(source: Path, cache: Path) -> None:
    """Folders and contents come over, and a marker says that all is there."""
    assert _fill(source, cache)
    assert (cache / "llama/v1/sub/model.safetensors").read_bytes() == WEIGHTS
    assert json.loads((cache / "llama/v1/.complete").read_text())["files"] == 3


def test_does_nothing_twice(source: Path, cache: Path) -> None:
    """A pod that comes back finds the marker and copies nothing."""
    _fill(source, cache)
    (cache / "llama/v1/sub/model.safetensors").write_bytes(b"mark")

    assert not _fill(source, cache)
    assert (cache / "llama/v1/sub/model.safetensors").read_bytes() == b"mark"


def test_other_users_can_read(source: Path, cache: Path) -> None:
    """Workers run as another user than the filler."""
    _fill(source, cache)

    assert (cache / "llama/v1/sub/model.safetensors").stat().st_mode & 0o044 == 0o044


def test_refuses_a_damaged_file(tmp_path: Path, cache: Path) -> None:
    """A wrong checksum leaves neither file nor marker, and says both values."""
    _upload(tmp_path / "models", "llama", "v1", checksum="0" * 64)

    with pytest.raises(
        filler.FillError, match=f"SHA-256 is {hashlib.sha256(WEIGHTS).hexdigest()}, SHA256SUMS says 0000"
    ):
        _fill(tmp_path / "models", cache)
    assert not (cache / "llama/v1").exists()
    assert [path.name for path in cache.rglob("*.safetensors*")] == []


def test_refuses_a_missing_file(source: Path, cache: Path) -> None:
    """A file that the checksums name must be there."""
    (source / "llama/v1/sub/model.safetensors").unlink()

    with pytest.raises(filler.FillError, match=r"names sub/model\.safetensors, which is not there"):
        _fill(source, cache)


def test_goes_on_where_it_stopped(source: Path, cache: Path) -> None:
    """A file that was copied and checked before the pod ended is not copied again."""
    done = cache / "llama/.v1.partial/sub/model.safetensors"
    done.parent.mkdir(parents=True)
    done.write_bytes(b"x" * len(WEIGHTS))

    _fill(source, cache)

    assert (cache / "llama/v1/sub/model.safetensors").read_bytes() == b"x" * len(WEIGHTS)


def test_a_half_copied_file_begins_again(source: Path, cache: Path) -> None:
    """A part without its own name was not checked."""
    part = cache / "llama/.v1.partial/sub/model.safetensors.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"half")

    _fill(source, cache)

    assert (cache / "llama/v1/sub/model.safetensors").read_bytes() == WEIGHTS
    assert not (cache / "llama/v1/sub/model.safetensors.part").exists()


def test_an_unmarked_folder_in_the_cache_is_replaced(source: Path, cache: Path) -> None:
    """What has no marker is not whole, whoever made it."""
    (cache / "llama/v1").mkdir(parents=True)
    (cache / "llama/v1/junk").touch()

    _fill(source, cache)

    assert not (cache / "llama/v1/junk").exists()


def test_waits_for_the_marker_of_a_download_job(source: Path) -> None:
    """While the job uploads, files are there but not all; without a job there is no marker to wait for."""
    (source / "llama/v1/.complete").unlink()

    assert not filler.is_ready(filler.Wanted("llama", "v1", marked=True), source)
    assert filler.is_ready(filler.Wanted("llama", "v1", marked=False), source)
    assert not filler.is_ready(filler.Wanted("llama", "v2", marked=False), source)


def test_an_old_revision_stays_while_there_is_room(source: Path, cache: Path) -> None:
    """A replica that is not replaced yet may still start from it."""
    _fill(source, cache)
    _upload(source, "llama", "v2")

    _fill(source, cache, "v2")

    assert (cache / "llama/v1/.complete").exists()


def test_unwanted_revisions_make_room(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that nobody wants goes first, and no more than needed; wanted ones stay."""
    for name, age in (("oldest", 1), ("older", 2), ("wanted", 0)):
        (cache / "other" / name).mkdir(parents=True)
        os.utime(cache / "other" / name, (age, age))
    monkeypatch.setattr(filler, "_free", lambda _: 1e9 if not (cache / "other/oldest").exists() else 0)

    filler.fill(filler.Wanted("llama", "v1"), source, cache, (filler.Wanted("other", "wanted"),))

    assert sorted(path.name for path in (cache / "other").iterdir()) == ["older", "wanted"]


def test_says_when_there_is_no_room(source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is needed, what is free, and what to do."""
    monkeypatch.setattr(filler, "_free", lambda _: 0.0)

    with pytest.raises(
        filler.FillError, match=r"0\.0 GB are needed and 0\.0 GB are free .*; use an instance type"
    ):
        _fill(source, cache)


def test_sizes_are_enough_where_there_are_no_checksums(
    source: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights that somebody uploaded by hand are taken, and the log says what was not checked."""
    (source / "llama/v1/SHA256SUMS").unlink()

    assert _fill(source, cache)
    assert "no SHA256SUMS beside the weights, so only sizes are checked" in capsys.readouterr().out


def test_reads_both_forms_of_sha256sum(tmp_path: Path) -> None:
    """Text and binary mode, names with blanks, upper case."""
    (tmp_path / "SHA256SUMS").write_text("AB  a b.json\ncd *c.bin\n\n")

    assert filler.read_checksums(tmp_path / "SHA256SUMS") == {"a b.json": "ab", "c.bin": "cd"}


def test_a_model_that_comes_late_does_not_hold_up_others(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is there is copied at once; the rest when it comes."""
    seen: list[bool] = []

    def arrive(_: float) -> None:
        seen.append((cache / "llama/v1/.complete").exists())
        _upload(source, "late", "v1")

    monkeypatch.setattr(filler.time, "sleep", arrive)
    filler._fill_all((filler.Wanted("late", "v1"), filler.Wanted("llama", "v1")), source, cache)

    assert seen == [True]
    assert (cache / "late/v1/.complete").exists()


def test_ends_with_a_sentence(
    source: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault is exit code 1 and one line, no traceback; the pod then starts again."""
    (source / "llama/v1/sub/model.safetensors").unlink()
    monkeypatch.setenv("WANTED", json.dumps([{"model": "llama", "revision": "v1", "marked": True}]))
    monkeypatch.setenv("SOURCE", str(source))
    monkeypatch.setenv("CACHE", str(cache))
    monkeypatch.setattr(filler.signal, "signal", lambda *_: None)

    assert filler.main() == 1
    assert capsys.readouterr().out.startswith("error: ")
