"""Where built tools lie: outside the checkout, one folder per pinned content, so that a changed pin is a new folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.table import Tool
from tools.terminal import say

VERSION_SECONDS = 20


def root() -> Path:
    """The cache of this project: $LLMP_CACHE, or llm-platform under the user's cache folder."""
    if own := os.environ.get("LLMP_CACHE"):
        return Path(own).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "llm-platform"


def digest(files: list[Path], *words: str) -> str:
    """A short hash of files' contents and of words. Files that do not exist count as absent."""
    hasher = hashlib.sha256()
    for path in files:
        content = path.read_bytes() if path.exists() else b""
        hasher.update(f"{path.name}:{len(content)}:".encode() + content)
    for word in words:
        hasher.update(f"\0{word}".encode())
    return hasher.hexdigest()[:16]


def sources(tool: Tool) -> list[Path]:
    """The pinned files that a tool is built from."""
    return [tool.folder / name for name in ("go.mod", "go.sum", "main.go")]


def folder(tool: Tool) -> Path:
    """The cache folder of a tool in exactly this pinned form for this kind of machine."""
    words = (tool.package, *tool.flags, *sorted(f"{k}={v}" for k, v in tool.env.items()))
    key = digest(sources(tool), *words, sys.platform, platform.machine())
    return root() / "tools" / f"{tool.name}-{key}"


def built(tool: Tool) -> Path | None:
    """The built binary, if it is in the cache."""
    path = folder(tool) / tool.binary
    return path if path.is_file() and os.access(path, os.X_OK) else None


def printed_version(tool: Tool, binary: Path) -> str:
    """What a binary says about its version, or an empty text when it cannot be asked."""
    if tool.stamped_module:
        return _stamped_version(tool, binary)
    try:
        done = subprocess.run(
            [str(binary), *tool.version_args],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _stamped_version(tool: Tool, binary: Path) -> str:
    """The version in Go's build information, which lies as text in every binary; empty for another program."""
    try:
        content = binary.read_bytes()
    except OSError:
        return ""
    if f"path\t{tool.package}\n".encode() not in content:
        return ""
    row = re.search(rf"(?:mod|dep)\t{re.escape(tool.stamped_module)}\tv([^\t\n]+)".encode(), content)
    return row.group(1).decode() if row else ""


def has_version(tool: Tool, text: str) -> bool:
    """Whether a version text names one of the versions that the table takes."""
    return any(re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", text) for version in tool.versions)


def on_path(tool: Tool) -> Path | None:
    """The tool on PATH, if it is there in a version that the table takes."""
    found = shutil.which(tool.binary)
    if found and has_version(tool, printed_version(tool, Path(found))):
        return Path(found).resolve()
    return None


def locate(tool: Tool) -> Path | None:
    """The tool's binary: from the cache (no process is started for that), else from PATH, else None."""
    return built(tool) or on_path(tool)


@contextlib.contextmanager
def locked(path: Path, waiting: str) -> Iterator[None]:
    """Hold an exclusive lock on a file; say `waiting` on stderr first when another process has it.

    The system drops the lock when the process ends in any way, so a killed build blocks nobody.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(waiting)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
