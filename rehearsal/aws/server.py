"""The moto server of a rehearsal: a process of its own, in one account.

    with Aws(folder, account="111122223333") as aws:
        Engine(..., env=aws.environment(kubeconfig), ...)

Its state lives as long as the process: after a restart the engine must refresh first.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal.aws import cloud, eks_provider, executables
from rehearsal.control_plane import LOOPBACK, ROOT
from rehearsal.errors import RehearsalError
from rehearsal.processes import free_port, start, stop_all, tail, wait_until

READY_SECONDS = 60.0
SERVICES = ("sts", "ec2", "iam", "s3", "eks", "sqs", "events", "logs", "elasticache", "ssm", "pricing")


def command(address: str, port: int) -> list[str]:
    """The command line of the server."""
    return [sys.executable, "-m", "rehearsal.aws.server", address, str(port)]


def server_environment(account: str) -> dict[str, str]:
    """The environment of the server: its account, and AWS's own policies, to which roles attach themselves."""
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MOTO_ACCOUNT_ID": account,
        "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    }


def answers(endpoint: str) -> bool:
    """Whether the server has begun to serve."""
    import urllib.request  # noqa: PLC0415 - only asked while waiting

    try:
        with urllib.request.urlopen(f"{endpoint}/moto-api/data.json", timeout=2) as answer:  # noqa: S310 - own URL
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except OSError:
        return False


class Aws:
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

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait. Raises RehearsalError with the log's end when it does not come up."""
        log = self.folder / "moto.log"
        self._process = process = start(
            command(self.address, self.port), log, server_environment(self.account)
        )
        if wait_until(lambda: process.poll() is not None or answers(self.endpoint), READY_SECONDS):
            if process.poll() is None:
                return
        self.stop()
        raise RehearsalError(f"The moto server did not start. The end of {log}:\n{tail(log)}")

    def stop(self) -> None:
        """End the server; what it held is gone with it."""
        if self._process:
            stop_all([self._process])
            self._process = None

    def environment(self, kubeconfig: Path, region: str) -> dict[str, str]:
        """What the engine's environment needs so that the stand-ins are found, and find this account."""
        return environment(self.endpoint, self.folder, kubeconfig, region)


def environment(endpoint: str, folder: Path, kubeconfig: Path, region: str) -> dict[str, str]:
    """The same for a server that another process keeps."""
    return {
        cloud.ENDPOINT: endpoint,
        cloud.STATE: str(folder / "held"),
        eks_provider.KUBECONFIG: str(kubeconfig),
        "LLMP_AWS_REGION": region,
        "PATH": os.pathsep.join([str(executables.write(folder / "bin")), os.environ.get("PATH", os.defpath)]),
    }


def _warm(account: str) -> None:
    """Load the services before the engine asks: the first call of EC2 would take two seconds."""
    from moto.backends import get_backend  # noqa: PLC0415

    for name in SERVICES:
        get_backend(name)[account]  # type: ignore[call-overload]


def main(address: str, port: int) -> None:
    """Serve until ended."""
    import logging  # noqa: PLC0415 - this process only

    from moto.server import main as serve  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    threading.Thread(target=_warm, args=(os.environ["MOTO_ACCOUNT_ID"],), daemon=True).start()
    serve(["-H", address, "-p", str(port)])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
