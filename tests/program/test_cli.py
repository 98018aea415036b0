"""`llmp preview` as a person runs it: a process of its own, its words and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def _llmp(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmp", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def _copy_of(stack: str, folder: Path, old: str, new: str) -> Path:
    text = (ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8")
    assert old in text
    (folder / f"Pulumi.{stack}.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
    (folder / "__main__.py").write_text((ROOT / "__main__.py").read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def test_json_has_everything(tmp_path: Path) -> None:
    """The JSON holds resources, Kubernetes objects, models and findings, in the documented shape."""
    target = tmp_path / "out" / "prod.json"
    done = _llmp("preview", "--stack", "prod", "--json", str(target))
    content = json.loads(target.read_text(encoding="utf-8"))

    assert done.returncode == 0, done.stderr
    assert content["stack"] == "prod"
    assert {"urn", "type", "name", "parent", "dependencies", "inputs"} == set(content["resources"][0])
    assert [model["name"] for model in content["models"]] == ["llama-70b-awq", "llama-70b", "llama-8b"]
    assert content["models"][0]["instanceTypes"] == ["g5.12xlarge"]
    assert "RayService" in {manifest["kind"] for manifest in content["kubernetes"]}


def test_bad_config_names_every_line_and_exits_2(tmp_path: Path) -> None:
    """Two mistakes in the stack file: both lines are named, and there is no traceback."""
    folder = _copy_of("prod", tmp_path, "tensorParallel: 4", "tensorParalel: 4")
    _ = (folder / "Pulumi.prod.yaml").write_text(
        (folder / "Pulumi.prod.yaml")
        .read_text(encoding="utf-8")
        .replace("maxModelLen: 32768", "maxModelLen: lots"),
        encoding="utf-8",
    )
    done = _llmp("preview", "--stack", "prod", "--folder", str(folder))

    assert done.returncode == 2
    assert "models.0.tensorParalel: is not a setting; did you mean tensorParallel?" in done.stderr
    assert "models.1.engine.maxModelLen" in done.stderr
    assert done.stderr.count("Pulumi.prod.yaml:") == 2
    assert "Traceback" not in done.stderr


def test_broken_rule_exits_1_with_its_line(tmp_path: Path) -> None:
    """More GPUs than the pool's nodes have: the report says so with the line, and the exit code is 1."""
    folder = _copy_of("prod", tmp_path, "tensorParallel: 4", "tensorParallel: 8")
    done = _llmp("preview", "--stack", "prod", "--folder", str(folder))

    assert done.returncode == 1
    assert "Pulumi.prod.yaml:" in done.stdout
    assert "No resource was registered" in done.stdout


def test_unknown_stack_lists_those_there() -> None:
    """A stack that does not exist is answered with those that do."""
    done = _llmp("preview", "--stack", "production")

    assert done.returncode == 2
    assert (
        done.stderr.strip() == "Pulumi.production.yaml: no such stack; there are: dev, local, multinode, prod"
    )


@pytest.mark.parametrize("content", ["", "[]", "{", '{"resources": 3}'])
def test_bad_base_is_named(tmp_path: Path, content: str) -> None:
    """A --base that is not a preview's JSON is a sentence, not a traceback."""
    base = tmp_path / "base.json"
    base.write_text(content, encoding="utf-8")
    done = _llmp("preview", "--stack", "local", "--base", str(base), "--markdown", "-")

    assert done.returncode == 2
    assert "is not what `llmp preview --json` writes" in done.stderr
    assert "Traceback" not in done.stderr
