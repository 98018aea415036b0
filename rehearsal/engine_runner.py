"""One operation of the real Pulumi engine on a program, in a process of its own.

There is no Go module of the Python language host, so the program runs "inline": the Automation API serves it to the
CLI from here. A process for each operation, because the SDK keeps global state and because the environment (PATH
with the provider, KUBECONFIG, backend) must be the engine's and not that of whoever rehearses.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulumi import automation as auto
from pulumi.automation import EngineEvent
from pulumi.automation.errors import CommandError

from rehearsal import charts, substitution
from rehearsal.processes import adopt_orphans, end_descendants
from tools import terminal

PROGRESS_SECONDS = 5.0
OPERATIONS = ("up", "preview", "refresh", "destroy")
ERROR_LINES = 30
STACK_TYPE = "::pulumi:pulumi:Stack::"


class Watcher:
    """Collects what the engine reports, and says every few seconds how far it is."""

    def __init__(self, operation: str) -> None:
        """Start the clock."""
        self.operation = operation
        self.steps: list[dict[str, str]] = []
        self.changes: dict[str, int] = {}
        self.diagnostics: list[dict[str, str]] = []
        self.violations: list[dict[str, str]] = []
        self.started = self.told = time.monotonic()
        self.busy: dict[str, float] = {}

    def see(self, event: EngineEvent) -> None:
        """Take one event."""
        if event.resource_pre_event:
            self.busy[event.resource_pre_event.metadata.urn] = time.monotonic()
        elif event.res_outputs_event:
            step = event.res_outputs_event.metadata
            self.busy.pop(step.urn, None)
            self.steps.append({"operation": step.op.value, "type": step.type, "urn": step.urn})
        elif event.summary_event:
            self.changes = {
                str(key): int(value) for key, value in event.summary_event.resource_changes.items()
            }
        elif event.diagnostic_event and event.diagnostic_event.severity in ("error", "warning"):
            row = event.diagnostic_event
            self.diagnostics.append(
                {"severity": row.severity, "message": plain(row.message), "urn": row.urn or ""}
            )
        elif event.policy_event:
            found = event.policy_event
            self.violations.append(
                {
                    "policy": found.policy_name,
                    "level": found.enforcement_level,
                    "message": plain(found.message),
                    "urn": found.resource_urn or "",
                }
            )
        self.tell()

    def tell(self) -> None:
        """Say how far the engine is, if the last word was some seconds ago."""
        now = time.monotonic()
        if now - self.told < PROGRESS_SECONDS:
            return
        self.told = now
        busy = [urn for urn in self.busy if STACK_TYPE not in urn]
        waiting = sorted(busy, key=lambda urn: self.busy[urn])[:3]
        names = ", ".join("::".join(urn.split("::")[-2:]).rpartition("$")[2] for urn in waiting)
        ending = f", waiting for {names}" if names else ""
        text = f"{self.operation}: {len(self.steps)} steps done after {now - self.started:.0f} s{ending}"
        terminal.say(text, "rehearsal")


def plain(text: str) -> str:
    """A message of the engine without its colour marks."""
    return re.sub(r"<\{%.*?%\}>", "", text).strip()


def _ticking(watcher: Watcher, done: threading.Event) -> None:
    while not done.wait(PROGRESS_SECONDS):
        watcher.tell()


def _end_with_parent() -> None:
    """Wait for the end of standard input, a pipe from whoever started this; then end the engine and its providers.

    They would go on without us: the CLI to the end of its steps, a provider for ever.
    """
    while os.read(sys.stdin.fileno(), 100):
        pass
    end_descendants()
    os._exit(1)


def _hold_lock(work: Path) -> int:
    """Wait until an earlier run in the same folder has ended; the lock is held to the end of this process."""
    descriptor = os.open(work / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _program(path: Path) -> None:
    """Run the program after what the rehearsal changes in it: where charts come from, and what serves the models."""
    charts.redirect()
    substitution.register()
    runpy.run_path(str(path), run_name="__main__")


def _set_secrets(stack: auto.Stack, secrets: dict[str, str]) -> None:
    if secrets:
        values = {key: auto.ConfigValue(value, secret=True) for key, value in secrets.items()}
        stack.set_all_config(values, path=True)


def _run(
    stack: auto.Stack, operation: str, watcher: Watcher, arguments: argparse.Namespace
) -> dict[str, Any]:
    common: dict[str, Any] = {
        "on_event": watcher.see,
        "on_output": _log(arguments.work / "engine.log"),
        "color": "never",
    }
    packs = {"policy_packs": arguments.policy_pack} if arguments.policy_pack else {}
    if operation == "preview":
        stack.preview(**common, **packs)
    elif operation == "up":
        result = stack.up(**common, **packs, suppress_progress=True)
        return {key: "(secret)" if out.secret else out.value for key, out in result.outputs.items()}
    elif operation == "refresh":
        stack.refresh(**common, suppress_progress=True, clear_pending_creates=True)
    elif operation == "destroy":
        stack.destroy(**common, suppress_progress=True)
    return {}


def _log(path: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        with path.open("a") as sink:
            sink.write(text if text.endswith("\n") else f"{text}\n")

    return write


def _resources(stack: auto.Stack) -> list[dict[str, str]]:
    """What the engine's state holds."""
    deployment = stack.export_stack().deployment or {}
    return [
        {"urn": row["urn"], "type": row["type"], "id": row.get("id", "")}
        for row in deployment.get("resources") or []
    ]


def main() -> int:
    """Run one operation and write the result as JSON; the exit code is 0 when the engine was content."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--stack", required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--secrets", type=json.loads, default={})
    parser.add_argument("--policy-pack", action="append", default=[])
    parser.add_argument("--unlock", action="store_true")
    arguments = parser.parse_args()
    # Ctrl-C is for the engine, which then ends in order; this process waits for that.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    adopt_orphans()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _hold_lock(arguments.work)
    sys.path.insert(0, str(arguments.program.parent))
    watcher = Watcher(arguments.operation)
    done = threading.Event()
    threading.Thread(target=_ticking, args=(watcher, done), daemon=True).start()
    content: dict[str, Any] = {"ok": False, "outputs": {}, "resources": [], "error": ""}
    try:
        stack = auto.create_or_select_stack(
            stack_name=arguments.stack,
            project_name=arguments.project,
            program=lambda: _program(arguments.program),
            opts=auto.LocalWorkspaceOptions(work_dir=str(arguments.work)),
        )
        if arguments.unlock:
            stack.cancel()
        _set_secrets(stack, arguments.secrets)
        content["outputs"] = _run(stack, arguments.operation, watcher, arguments)
        content["resources"] = _resources(stack)
        content["ok"] = True
    except CommandError as error:
        content["error"] = "\n".join(str(error).strip().splitlines()[-ERROR_LINES:])
    finally:
        done.set()
        end_descendants()  # a CLI that was killed has left its providers
    content |= {
        "changes": watcher.changes,
        "steps": watcher.steps,
        "diagnostics": watcher.diagnostics,
        "violations": watcher.violations,
        "seconds": time.monotonic() - watcher.started,
        "substituted": list(dict.fromkeys(substitution.SAID)),
    }
    arguments.result.write_text(json.dumps(content, default=str))
    return 0 if content["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
