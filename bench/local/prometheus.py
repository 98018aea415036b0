"""A real Prometheus that scrapes Ray nodes on loopback as our PodMonitors do in the cluster."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from bench.local.plan import LOOPBACK
from bench.local.ray import LocalError, free_ports, request_json
from tools.lifetime import Startable

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_READY_SECONDS = 30


def there() -> bool:
    """Whether Prometheus (Debian package of that name) is installed."""
    return shutil.which("prometheus") is not None


class Prometheus(Startable):
    """`with Prometheus(folder, interval) as p: p.scrape({"tiny": ["127.0.0.1:…"]})`."""

    def __init__(self, folder: Path, interval: int = 5) -> None:
        self.folder = folder
        self._interval = interval
        self.port = free_ports(1)[0]
        self.url = f"http://{LOOPBACK}:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def scrape(self, models: dict[str, Sequence[str]]) -> None:
        """Scrape these nodes; the label `model` is the one that our monitors add. Read again within a second."""
        groups = [{"targets": list(targets), "labels": {"model": model}} for model, targets in models.items()]
        temporary = self.folder / "targets.tmp"
        temporary.write_text(json.dumps(groups))
        temporary.replace(self.folder / "targets.json")

    def _configure(self) -> None:
        """Write what it reads when it starts; the nodes that it scrapes are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "targets.json").exists():
            self.scrape({})
        interval = f"{self._interval}s"
        job = {
            "job_name": "ray",
            "scrape_interval": interval,
            "scrape_timeout": interval,
            "file_sd_configs": [{"files": [str(self.folder / "targets.json")], "refresh_interval": "1s"}],
        }
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))

    def start(self) -> None:
        """Start it, again after `stop`.

        Raises:
            LocalError: it does not start.
        """
        self._configure()
        command = [
            "prometheus",
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{self.port}",
            "--log.level=warn",
        ]
        with (self.folder / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(_SUPERVISOR), *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                request_json(f"{self.url}/-/ready", timeout=2)
                return
            time.sleep(0.2)
        raise LocalError(f"Prometheus did not start; see {self.folder / 'prometheus.log'}")

    def stop(self) -> None:
        """End it; what it has stored stays."""
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def value(self, query: str) -> float | None:
        """The single value of an instant query, or None where there is none."""
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
            answer: Any = request_json(address, timeout=3)
            return float(answer["data"]["result"][0]["value"][1])
        return None
