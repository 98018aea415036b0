"""The real Pulumi engine on a program of this repo, with its state in a folder and no account anywhere.

    engine = Engine(program=ROOT / "__main__.py", stack="local", state=folder, kubeconfig=plane.kubeconfig)
    engine.up().changes     # {"create": 12}

The tools (CLI and Kubernetes provider) come from `tools/`; the provider is found on PATH, whose version the engine
does not compare. The user's Pulumi home, login and stack files are not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal import stack_copy
from rehearsal.control_plane import ROOT, tool_paths
from rehearsal.errors import EngineError, RehearsalError
from rehearsal.processes import tail

TOOLS = ("pulumi", "pulumi-kubernetes")
PASSPHRASE = "rehearsal"  # noqa: S105 - it guards stand-ins only
# What the engine says after an error that it has already reported, whatever it was.
NOISE = (
    "update failed",
    "preview failed",
    "Resource monitor has terminated, shutting down",
    "an unhandled error occurred: ",
)
BACKEND = "backend"  # of the state folder: where the engine keeps its stacks
INTERRUPT_SECONDS = 90.0
UNCHANGED = frozenset({"same", "read"})


@dataclass(frozen=True)
class Result:
    """What one operation did.

    `changes` counts resources by the engine's own operation names (create, update, delete, replace, same); `resources`
    are the engine's state after it. `substituted` says what the rehearsal itself changed in the objects
    (`substitution.py`).
    """

    operation: str
    changes: Mapping[str, int]
    steps: Sequence[Mapping[str, str]]
    outputs: Mapping[str, Any]
    resources: Sequence[Mapping[str, str]]
    diagnostics: Sequence[Mapping[str, str]]
    violations: Sequence[Mapping[str, str]]
    seconds: float
    substituted: Sequence[str] = ()

    @property
    def changed(self) -> int:
        """How many resources were or would be changed."""
        return sum(count for operation, count in self.changes.items() if operation not in UNCHANGED)


@dataclass
class Engine:
    """One stack of one program. Each call is one run of the CLI; all raise EngineError with its diagnostics."""

    program: Path
    stack: str
    state: Path
    kubeconfig: Path
    stack_file: Path | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    policy_packs: Sequence[Path] = ()

    @property
    def project_file(self) -> Path:
        """The program's Pulumi.yaml."""
        return self.program.parent / "Pulumi.yaml"

    @property
    def work(self) -> Path:
        """Where the engine's copies of the project and stack files lie."""
        return self.state / "work"

    @property
    def backend(self) -> Path:
        """The folder of the engine's state."""
        return self.state / BACKEND

    def up(self) -> Result:
        """Make the cluster as the program says."""
        return self._run("up")

    def preview(self) -> Result:
        """Say what `up` would do."""
        return self._run("preview")

    def refresh(self) -> Result:
        """Take over into the state what the cluster really holds; forget creations that never ended."""
        return self._run("refresh")

    def destroy(self) -> Result:
        """Delete everything that the state holds."""
        return self._run("destroy")

    def recover(self) -> bool:
        """After a run that was killed: refresh if it cut operations short. True when it had."""
        if not self._checkpoint().get("pending_operations"):
            return False
        self.refresh()
        return True

    def recorded(self) -> list[str]:
        """The URNs in the engine's state, read without starting it."""
        return [str(row["urn"]) for row in self._checkpoint().get("resources") or []]

    def _checkpoint(self) -> dict[str, Any]:
        path = self.backend / ".pulumi" / "stacks" / project_name(self.project_file) / f"{self.stack}.json"
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            return {}
        latest = content.get("checkpoint", {}).get("latest")
        return latest if isinstance(latest, dict) else {}

    def environment(self) -> dict[str, str]:
        """The environment of the CLI: own home and backend, no downloads, the tools first on PATH."""
        tools = tool_paths(TOOLS)
        folders = dict.fromkeys(str(path.parent) for path in tools.values())
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **kept,
            "PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": os.pathsep.join(python_path),
            "KUBECONFIG": str(self.kubeconfig),
            "PULUMI_HOME": str(self.state / "home"),
            # Without the side files for metadata, which are not written in one step: a killed run would leave one
            # empty, and the state could not be read any more ("failed to load checkpoint: EOF").
            "PULUMI_BACKEND_URL": f"{self.backend.resolve().as_uri()}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **self.env,
        }

    def _prepare(self) -> dict[str, str]:
        """Renew the copies of the project and stack files; gives back the secrets to set."""
        for folder in (self.work, self.backend, self.state / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.project_file.is_file():
            message = f"{self.program.parent} has no Pulumi.yaml."
            raise RehearsalError(message)
        shutil.copyfile(self.project_file, self.work / "Pulumi.yaml")
        source = self.stack_file or self.program.parent / f"Pulumi.{self.stack}.yaml"
        copied = stack_copy.read(source)
        (self.work / f"Pulumi.{self.stack}.yaml").write_text(copied.text)
        return {**copied.secrets, **self.secrets}

    def _run(self, operation: str) -> Result:
        environment = self.environment()
        secrets = self._prepare()
        result = self.work / "result.json"
        result.unlink(missing_ok=True)
        command = [
            sys.executable, "-m", "rehearsal.engine_runner", operation,
            "--program", str(self.program.resolve()), "--work", str(self.work.resolve()),
            "--stack", self.stack, "--project", project_name(self.project_file),
            "--result", str(result.resolve()), "--secrets", json.dumps(secrets),
            *(f"--policy-pack={pack}" for pack in self.policy_packs),
        ]  # fmt: skip
        if any(self.backend.glob("**/locks/**/*.json")):
            # Whoever uses this folder holds its lock (`rehearsal.commands`), so this one was left by a killed run.
            command.append("--unlock")
        log = self.work / "runner.log"
        # The pipe tells the process when this one is gone.
        with (
            log.open("wb") as sink,
            subprocess.Popen(
                command,
                cwd=self.program.parent,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=sink,
                start_new_session=True,
            ) as process,
        ):
            _wait(process)
        if not result.is_file():
            message = f"The engine's process ended with code {process.returncode} and no result.\n{tail(log)}"
            raise EngineError(message)
        return _result(operation, json.loads(result.read_text()))


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait; on Ctrl-C let the engine end its running steps and save its state, and only then go on."""
    try:
        process.wait()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout=INTERRUPT_SECONDS)
        except subprocess.TimeoutExpired:
            if process.stdin:
                process.stdin.close()
            process.wait()
        raise


def has_state(state: Path) -> bool:
    """Whether a stack was ever brought up with its engine's state in this folder."""
    return any((state / BACKEND).glob("**/stacks/**/*.json"))


def project_name(project_file: Path) -> str:
    """The name in a Pulumi.yaml."""
    for line in project_file.read_text().splitlines():
        if line.startswith("name:"):
            return line.partition(":")[2].strip().strip("\"'")
    message = f"{project_file} names no project."
    raise RehearsalError(message)


def _result(operation: str, content: Mapping[str, Any]) -> Result:
    if not content["ok"]:
        raise EngineError(_failure(operation, content))
    return Result(
        operation=operation,
        changes=content["changes"],
        steps=content["steps"],
        outputs=content["outputs"],
        resources=content["resources"],
        diagnostics=content["diagnostics"],
        violations=content["violations"],
        seconds=content["seconds"],
        substituted=content.get("substituted", ()),
    )


def _failure(operation: str, content: Mapping[str, Any]) -> str:
    """The engine's own errors, one paragraph each with the resource they are about; else the end of its output."""
    errors = [row for row in content["diagnostics"] if row["severity"] == "error"]
    rows = [row for row in errors if not row["message"].startswith(NOISE)] or errors
    lines = [f"{_short(row['urn'])}{row['message']}" for row in rows]
    lines += [
        f"{_short(row['urn'])}policy {row['policy']}: {row['message']}"
        for row in content["violations"]
        if row["level"] == "mandatory"
    ]
    text = "\n".join(dict.fromkeys(lines)) or content["error"]
    return f"pulumi {operation} failed:\n{text}"


def _short(urn: str) -> str:
    return (
        "::".join(urn.split("::")[-2:]).rpartition("$")[2] + ": "
        if urn and "pulumi:pulumi:Stack" not in urn
        else ""
    )
