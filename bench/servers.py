"""What `make bench-serving` compares: bare vLLM, the platform's modes, and the guides' hand-written server.

All run at once and all but the measured one are frozen (SIGSTOP), so that they alternate within seconds on the same
machine and take nothing from each other.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.load import Endpoint
from bench.local.plan import LOOPBACK
from bench.local.ray import LocalError, free_ports, request_json
from bench.local.service import LocalService
from bench.local.supervise import descendants

_SUPERVISOR = Path(__file__).parent / "local" / "supervise.py"
_START_SECONDS = 300
_TICKS = os.sysconf("SC_CLK_TCK")
# Of the emitted engine arguments, what is not vLLM's own default or is written differently on its command line.
_SWITCHES = {"enable_prefix_caching", "enable_chunked_prefill", "enforce_eager", "trust_remote_code"}


@dataclass
class Server:
    """A running server: where it answers, its top process, and how it ends."""

    name: str
    endpoint: Endpoint
    pid: int
    stop: Callable[[], None]
    streams: bool = True

    def family(self) -> list[int]:
        """Its processes, the supervisor left out."""
        return list(descendants(self.pid))

    def freeze(self) -> None:
        """Stop it where it stands."""
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def cpu_seconds(self) -> dict[str, float]:
        """CPU time so far by process name, of everything that serves."""
        seconds: dict[str, float] = {}
        for pid in self.family():
            with contextlib.suppress(OSError, ValueError, IndexError):
                head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
                name, fields = head.partition("(")[2], tail.split()
                seconds[name] = seconds.get(name, 0) + (int(fields[11]) + int(fields[12])) / _TICKS
        return seconds


def platform_server(
    name: str, objects: Iterable[Mapping[str, Any]], home: Path, variables: Mapping[str, str] | None = None
) -> Server:
    """The platform's own document and environment."""
    service = LocalService(objects, home, variables=variables)
    try:
        service.start()
    except BaseException:
        service.stop()
        raise
    endpoint = Endpoint(url=service.url, model=_served_name(service.plan.document), tokenizer=home / "tiny")
    return Server(name, endpoint, service.head.process.pid, service.stop)


def _served_name(document: Mapping[str, Any]) -> str:
    return str(document["applications"][0]["args"]["llm_configs"][0]["model_loading_config"]["model_id"])


def engine_arguments_of(objects: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The engine arguments of the first RayService among a stack's objects."""
    service = next(o for o in objects if o["kind"] == "RayService")
    document = yaml.safe_load(service["spec"]["serveConfigV2"])
    arguments: dict[str, Any] = document["applications"][0]["args"]["llm_configs"][0]["engine_kwargs"]
    return arguments


def bare_vllm(
    arguments: Mapping[str, Any],
    home: Path,
    name: str = "tiny",
    *,
    vllm: Path | None = None,
    weights: str | None = None,
) -> Server:
    """`vllm serve` with the same engine arguments, as people would run it without a platform."""
    port = free_ports(1)[0]
    model = weights or str(home / "tiny")
    command = [str(vllm or home / "bin" / "vllm"), "serve", model, "--served-model-name", name]
    command += ["--host", LOOPBACK, "--port", str(port), *_flags(arguments)]
    variables = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return _started("bare vLLM", command, port, name, home, variables)


def naive_server(home: Path, name: str = "tiny") -> Server:
    """The guides' FastAPI around generate."""
    port = free_ports(1)[0]
    program = str(Path(__file__).with_name("naive_app.py"))
    command = [str(home / "bin" / "python"), program, str(home / "tiny"), name, str(port)]
    server = _started("FastAPI + generate", command, port, name, home, {"HF_HUB_OFFLINE": "1"})
    server.streams = False
    return server


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    flags = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if name in _SWITCHES:
            flags.append(flag if value else f"--no-{flag.removeprefix('--')}")
        else:
            flags += [flag, str(value)]
    return flags


def _started(
    title: str, command: Sequence[str], port: int, name: str, home: Path, variables: Mapping[str, str]
) -> Server:
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    process = subprocess.Popen(
        [sys.executable, str(_SUPERVISOR), *command],
        env={**own, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def stop() -> None:
        process.terminate()
        process.wait()

    endpoint = Endpoint(url=f"http://{LOOPBACK}:{port}/v1", model=name, tokenizer=home / "tiny")
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            request_json(f"{endpoint.url}/models", timeout=2)
            return Server(title, endpoint, process.pid, stop)
        time.sleep(0.5)
    stop()
    raise LocalError(f"{title} did not start: {' '.join(command)}")
