"""Builds a tool from its pinned Go module into the cache, with progress, and never half.

The build runs on a copy of the pinned files in a folder of its own and the binary is renamed into place as the
last step: an interrupted build leaves nothing that looks finished, and the checkout is never written to.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import cache
from tools.table import Tool, ToolsError
from tools.terminal import say

PROGRESS_SECONDS = 5.0
TAIL_LINES = 20
LOG_NAME = "build.log"


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, indented."""
    if not path.exists():
        return "    (no output)"
    kept = path.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"    {line}" for line in kept) or "    (no output)"


def ensure(tool: Tool) -> Path:
    """The tool's binary, built when it is neither in the cache nor on PATH. Raises ToolsError."""
    if found := cache.locate(tool):
        return found
    home = cache.folder(tool)
    waiting = f"another process is building {tool.name}; waiting for it."
    with cache.locked(home.parent / f".{home.name}.lock", waiting):
        return cache.built(tool) or _build(tool, home)


def _build(tool: Tool, home: Path) -> Path:
    env = go_environment(tool.env)
    require_go(tool.folder, env)
    home.mkdir(parents=True, exist_ok=True)
    for stale in home.glob("building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = home / f"building-{os.getpid()}"
    work.mkdir()
    try:
        for path in cache.sources(tool):
            if path.exists():
                shutil.copy(path, work / path.name)
        log = home / LOG_NAME
        log.unlink(missing_ok=True)
        if tool.schema_module:
            _write_schema(tool, work, env, log)
        output = work / "out" / tool.binary
        command = ["go", "build", *tool.flags, "-o", str(output), tool.package]
        run_logged(command, work, env, log=log, what=f"building {tool.name}", minutes=tool.minutes)
        _check_version(tool, output)
        output.replace(home / tool.binary)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return home / tool.binary


def _check_version(tool: Tool, binary: Path) -> None:
    text = cache.printed_version(tool, binary)
    if not cache.has_version(tool, text):
        wanted = " or ".join(tool.versions)
        message = (
            f"{tool.name} was built but names another version than {wanted}: {text.strip()[:200]!r}. "
            f"The table in tools/table.py and tools/{tool.module}/go.mod do not agree."
        )
        raise ToolsError(message)


def go_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment for the Go client: the user's, without a workspace file that would change the pins."""
    return {**os.environ, "GOWORK": "off", **extra}


def require_go(module: Path, env: Mapping[str, str]) -> None:
    """Raise ToolsError when Go is missing or older than the module's go.mod asks."""
    wanted_match = re.search(r"^go (\d+\.\d+(?:\.\d+)?)$", (module / "go.mod").read_text(), re.MULTILINE)
    wanted = wanted_match.group(1) if wanted_match else "1.26"
    if shutil.which("go", path=env.get("PATH")) is None:
        message = f"Go is needed to build the tools and is not on PATH. Install Go {wanted} or newer, then run this again."
        raise ToolsError(message)
    done = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=module, env=dict(env), capture_output=True, text=True, check=False
    )
    found = re.search(r"go(\d+(?:\.\d+)*)", done.stdout)
    if done.returncode == 0 and found and _numbers(found.group(1)) >= _numbers(wanted):
        return
    seen = found.group(1) if found else done.stderr.strip() or "an unknown version"
    message = f"Go {wanted} or newer is needed to build the tools in {module.name}; found: {seen}."
    raise ToolsError(message)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def run_logged(
    command: Sequence[str], cwd: Path, env: Mapping[str, str], *, log: Path, what: str, minutes: float
) -> None:
    """Run a command with its output in a log and a line on stderr every 5 s. Raises ToolsError with the log's tail."""
    say(f"{what} (about {_duration(minutes * 60)} on two cores)")
    started = time.monotonic()
    with log.open("ab") as sink:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(env),
            stdout=sink,
            stderr=sink,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = _wait(process, started, what, minutes)
        except BaseException:
            stop_group(process)
            raise
    if code != 0:
        message = f"{what} failed with code {code}. The end of {log}:\n{tail(log)}"
        raise ToolsError(message)
    say(f"{what}: done in {_duration(time.monotonic() - started)}")


def _wait(process: subprocess.Popen[bytes], started: float, what: str, minutes: float) -> int:
    while True:
        try:
            return process.wait(timeout=PROGRESS_SECONDS - 0.5)
        except subprocess.TimeoutExpired:
            passed = time.monotonic() - started
            say(f"{what}: {_duration(passed)} of about {_duration(minutes * 60)}")


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its children; go build starts compilers that would go on otherwise."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"  # noqa: PLR2004 - a minute


def _write_schema(tool: Tool, work: Path, env: Mapping[str, str], log: Path) -> None:
    """Put the provider's schema files beside main.go, minified, with the version that main.go reports.

    They are 11 MB in the module and are derived, so they are made here and not kept in git.
    """
    run_logged(
        ["go", "mod", "download", tool.schema_module],
        work,
        env,
        log=log,
        what=f"downloading {tool.schema_module}",
        minutes=0.5,
    )
    done = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", tool.schema_module],
        cwd=work,
        env=dict(env),
        capture_output=True,
        text=True,
        check=False,
    )
    source = Path(done.stdout.strip()) / "cmd" / tool.binary
    if done.returncode != 0 or not (source / "schema.json").exists():
        message = (
            f"The module {tool.schema_module} has no {tool.binary} schema: {done.stderr.strip() or source}"
        )
        raise ToolsError(message)
    for name in ("schema.json", "terraform-mapping.json"):
        content = json.loads((source / name).read_text())
        if name == "schema.json":
            content["version"] = tool.versions[0]
        (work / name).write_text(json.dumps(content, separators=(",", ":")))
