"""`llmp serve`: what it says first, and that nothing of it is left, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.local.ray import free_ports, request_json
from bench.local.supervise import descendants
from tools.serving import environment

pytestmark = pytest.mark.serving_real

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "import typer; from llmp.serve import serve; typer.run(serve)"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """The command, answering on a free port."""
    if environment.locate() is None:
        pytest.skip("the serving environment is not built (make serving-env)")
    port, words = free_ports(1)[0], tmp_path / "words"
    with words.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "--stack", "local", "--port", str(port)], cwd=ROOT, stderr=sink
        )
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None and "OpenAI API" not in words.read_text():
        time.sleep(0.5)
    yield process, port, words
    process.kill()
    process.wait()


def left_of(family: list[int], seconds: float = 40) -> list[int]:
    """Processes of a family that still run after a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(alive(pid) for pid in family):
        time.sleep(0.5)
    return [pid for pid in family if alive(pid)]


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_leaves_nothing_behind(
    how: signal.Signals, serving: tuple[subprocess.Popen[bytes], int, Path]
) -> None:
    """It says what differs, answers, and ends with everything that it started, even when it is killed."""
    process, port, words = serving
    assert "differs from the stack: the weights are those of tiny" in words.read_text()
    assert request_json(f"http://127.0.0.1:{port}/v1/models")["data"][0]["id"] == "tiny"

    family = list(descendants(process.pid))
    assert len(family) > 5
    os.kill(process.pid, how)
    process.wait(60)

    assert left_of(family) == []
