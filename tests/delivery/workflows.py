"""The workflows as data, and their commands run in order in a checkout with stand-ins for what only GitHub has."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import ROOT

FILES = ("pull-request", "push")
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
Step = dict[str, Any]


def workflow(name: str) -> dict[str, Any]:
    """One workflow. YAML 1.1 reads the key `on` as true."""
    content = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yaml").read_text(encoding="utf-8"))
    return {("on" if key is True else key): value for key, value in content.items()}


def steps(name: str) -> Iterator[tuple[str, Step]]:
    """Every step of a workflow, with its job."""
    for job, content in workflow(name)["jobs"].items():
        for step in content["steps"]:
            yield job, step


@dataclass
class Runner:
    """Runs the steps of a job as GitHub's runner does, as far as our workflows need it.

    ``values`` are the contexts by their whole expression (`github.base_ref`), ``conditions`` those of `if:` beside the
    status; what is not in there is an error, so that a new expression needs a decision. ``actions`` stand in for the
    actions of others, by name.
    """

    folder: Path
    values: dict[str, str]
    conditions: Mapping[str, bool]
    actions: Mapping[str, Callable[[dict[str, str]], None]]
    environment: dict[str, str]
    log: list[str] = field(default_factory=list)

    def job(self, name: str, job: str) -> bool:
        """Run one job; whether all its steps passed."""
        content = workflow(name)
        shared = {**content.get("env", {}), **content["jobs"][job].get("env", {})}
        passed = True
        for step in content["jobs"][job]["steps"]:
            if self._wanted(step.get("if"), passed=passed):
                passed = self._step(step, shared) and passed
        return passed

    def _step(self, step: Step, shared: Mapping[str, str]) -> bool:
        if "uses" in step:
            action = step["uses"].partition("@")[0]
            self.actions[action]({key: self._fill(str(value)) for key, value in step.get("with", {}).items()})
            self.log.append(action)
            return True
        variables = {key: self._fill(value) for key, value in {**shared, **step.get("env", {})}.items()}
        outputs = self.folder / "github-output"
        outputs.write_text("", encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder,
            env={**self.environment, **variables, "GITHUB_OUTPUT": str(outputs)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.log.append(f"$ {step['run'].strip()}\n{done.stdout}{done.stderr}")
        for line in outputs.read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            self.values[f"steps.{step['id']}.outputs.{key}"] = value
        return done.returncode == 0

    def _wanted(self, condition: str | None, *, passed: bool) -> bool:
        if condition is None:
            return passed
        text = _EXPRESSION.sub(r"\1", condition)
        always, _, rest = text.partition(" && ")
        if always != "!cancelled()":
            always, rest = "", text
        known = all(self._condition(part) for part in rest.split(" && ") if part)
        return known and (passed or bool(always))

    def _condition(self, text: str) -> bool:
        file = re.fullmatch(r"hashFiles\('(.+)'\) != ''", text)
        return (self.folder / file[1]).is_file() if file else self.conditions[text]

    def _fill(self, text: str) -> str:
        return _EXPRESSION.sub(lambda found: self.values[found[1]], text)


def listed(values: Mapping[str, str], key: str) -> list[str]:
    """A list among the outputs of a job."""
    return json.loads(values[key])


def checkout_of(folder: Path) -> Path:
    """A checkout of what this repository holds now, with an environment that runs the checkout's own `llmp`.

    `make setup` finds it up to date, so that the tests need no package index.
    """
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in names.stdout.split("\n"):
        source, target = ROOT / name, folder / name
        if name and source.is_file() and not name.startswith(("tests/", "bench/", "tools/")):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    environment = folder / ".venv" / "bin"
    environment.mkdir(parents=True)
    for name, arguments in (("python", ""), ("llmp", " -m llmp")):
        (environment / name).write_text(
            f'#!/bin/sh\nexec {sys.executable}{arguments} "$@"\n', encoding="utf-8"
        )
        (environment / name).chmod(0o755)
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "components", "policies", "preview", "llmp"],
        cwd=folder,
        check=True,
    )
    (folder / ".venv" / ".runtime").touch()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder, "base")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "checkout", "--quiet", "-b", "feature")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, message: str) -> str:
    """Commit everything; the commit."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", message)
    return git(folder, "rev-parse", "HEAD")
