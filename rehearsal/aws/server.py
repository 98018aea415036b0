"""The moto server of a rehearsal, a process of its own in one account, and how an engine gets to it.

    with Aws(folder, account="111122223333") as aws:
        engine = attached(Engine(...), aws.endpoint, aws.folder, region="us-west-2")
        engine.up()

What the server holds lives as long as its process: after a restart the engine must refresh first.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

from rehearsal.aws import bottlerocket, cloud, eks_provider, executables
from rehearsal.control_plane import LOOPBACK, ROOT
from rehearsal.engine import Engine
from rehearsal.errors import RehearsalError
from rehearsal.processes import free_port, start, stop_all, tail, wait_until
from tools.lifetime import Startable

READY_SECONDS = 60.0
# Loaded before anyone asks: the first call of EC2 would otherwise take two seconds.
SERVICES = ("ec2", "iam", "sts", "eks", "s3", "sqs", "events", "logs", "elasticache")


def command(address: str, port: int, account: str, folder: Path) -> list[str]:
    """The command line of the server; the folder is in it so that leftovers are found by it."""
    return [sys.executable, "-m", "rehearsal.aws.server", address, str(port), account, str(folder)]


def answers(endpoint: str) -> bool:
    """Whether the server serves."""
    try:
        with urllib.request.urlopen(f"{endpoint}/moto-api/data.json", timeout=2) as answer:  # noqa: S310 - own URL
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except OSError:
        return False


def attached(engine: Engine, endpoint: str, folder: Path, region: str) -> Engine:
    """The same engine with the stand-ins first on its PATH, and the account that they act on."""
    plugins = executables.write(folder / "bin")
    env = {
        **engine.env,
        cloud.ENDPOINT: endpoint,
        cloud.STATE: str(folder / "held"),
        eks_provider.KUBECONFIG: str(engine.kubeconfig),
        eks_provider.REGION: region,
        "PATH": os.pathsep.join([str(plugins), engine.environment()["PATH"]]),
    }
    return dataclasses.replace(engine, env=env)


class Aws(Startable):
    """One account for one rehearsal, by its state folder."""

    def __init__(self, folder: Path, account: str, address: str = LOOPBACK) -> None:
        self.folder, self.account, self.address = folder.resolve(), account, address
        self.port = free_port(address)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where AWS's API is served."""
        return f"http://{self.address}:{self.port}"

    def cloud(self, region: str) -> cloud.Cloud:
        """A client of this account."""
        return cloud.Cloud(self.endpoint, region, cloud.Held(self.folder / "held"), self.account)

    def start(self) -> None:
        """Start and wait. Raises RehearsalError with the log's end when it does not come up."""
        log = self.folder / "moto.log"
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = start(command(self.address, self.port, self.account, self.folder), log, env)
        self._process = process
        wait_until(lambda: process.poll() is not None or answers(self.endpoint), READY_SECONDS)
        if process.poll() is not None or not answers(self.endpoint):
            self.stop()
            raise RehearsalError(f"The moto server did not start. The end of {log}:\n{tail(log)}")

    def stop(self) -> None:
        """End the server; what it held is gone with it."""
        if self._process:
            stop_all([self._process])
            self._process = None


def _warm(account: str) -> None:
    from moto import backends  # noqa: PLC0415 - the server's process only; others need no moto

    get: Any = backends.get_backend  # typed with the name of each service
    for name in SERVICES:
        get(name)[account]


def main(address: str, port: str, account: str) -> None:
    """Serve one account until ended."""
    import logging  # noqa: PLC0415 - as in _warm

    # AWS's own policies must be there: roles attach themselves to them. moto reads both when it is loaded.
    os.environ.update(MOTO_ACCOUNT_ID=account, MOTO_IAM_LOAD_MANAGED_POLICIES="true")
    from moto.server import main as serve  # noqa: PLC0415

    bottlerocket.serve()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threading.Thread(target=_warm, args=(account,), daemon=True).start()
    serve(["-H", address, "-p", port])


if __name__ == "__main__":
    main(*sys.argv[1:4])
