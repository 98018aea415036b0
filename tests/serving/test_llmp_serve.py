"""`llmp serve`: what it says first, that it answers, and that nothing of it is left, however it ends."""

import contextlib
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


class Served:
    """`llmp serve` of the local stack on a free port."""

    def __init__(self, folder: Path) -> None:
        self.port, self._words = free_ports(1)[0], folder / "words"
        command = [sys.executable, "-m", "llmp", "serve", "--stack", "local", "--port", str(self.port)]
        with self._words.open("wb") as sink:
            self.process = subprocess.Popen(command, cwd=ROOT, stderr=sink)

    def words(self, until: str) -> str:
        """What it has said, once that has been said."""
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and self.process.poll() is None and until not in self.said:
            time.sleep(0.2)
        assert until in self.said, self.said
        return self.said

    @property
    def said(self) -> str:
        """All so far."""
        return self._words.read_text()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The command, started."""
    if environment.locate() is None:
        pytest.skip("the serving environment is not built (make serving-env)")
    one = Served(tmp_path)
    yield one
    one.process.kill()
    one.process.wait()


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


def test_says_what_differs_answers_and_ends_by_ctrl_c(served: Served) -> None:
    """Ctrl-C ends everything that it has started."""
    words = served.words(until="OpenAI API")
    assert "the weights are those of tiny" in words
    assert request_json(f"http://127.0.0.1:{served.port}/v1/models")["data"][0]["id"] == "tiny"

    family = list(descendants(served.process.pid))
    assert len(family) > 5
    served.process.send_signal(signal.SIGINT)

    assert served.process.wait(60) == 0
    assert left_of(family) == []


def test_killed_while_it_starts_leaves_nothing_behind(served: Served) -> None:
    """Killed hard, with Ray running and the model about to load: what it has started ends by itself."""
    served.words(until="applying the Serve document")
    family = list(descendants(served.process.pid))
    assert len(family) > 5
    served.process.kill()
    served.process.wait(60)

    assert left_of(family) == []
