"""`make bench-check`: the time to check 1,000 manifest files, and that of checkov on the same files, in one run.

checkov (package index, own environment below ~/.cache/llm-platform) is the usual checker of Kubernetes manifests; it
looks at single objects, so the findings are not the same, only the files are.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHECKOV = "checkov==3.3.30"
BASES = ROOT / "tests" / "policies" / "rules" / "bases.yaml"
KINDS = (
    "deployment",
    "pool",
    "node-class",
    "ray",
    "volume",
    "claim",
    "scaled",
    "service",
    "ingress",
    "budget",
)
LIMIT_SECONDS = 5.0


def write_manifests(folder: Path, count: int) -> int:
    """Manifest files of ten kinds; gives their bytes."""
    bases = yaml.safe_load(BASES.read_text(encoding="utf-8"))
    bases["ray"]["spec"]["serveConfigV2"] = yaml.safe_dump(bases["ray"]["spec"]["serveConfigV2"])
    size = 0
    for index in range(count):
        body = json.loads(json.dumps(bases[KINDS[index % len(KINDS)]]))
        body["metadata"]["name"] += f"-{index}"
        text = yaml.safe_dump(body, sort_keys=False)
        (folder / f"{index:04}.yaml").write_text(text, encoding="utf-8")
        size += len(text)
    return size


def seconds(command: list[str], runs: int) -> float:
    """Median wall time of a command; its findings are no failure."""
    taken = []
    for _ in range(runs):
        started = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        taken.append(time.monotonic() - started)
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr.decode()[-2000:])
    return statistics.median(taken)


def checkov() -> Path:
    """The checkov executable in an environment of its own, made on first use."""
    folder = (
        Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        / "llm-platform"
        / CHECKOV.replace("==", "-")
    )
    program = folder / "bin" / "checkov"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", CHECKOV], check=True)
    return program


def main() -> int:
    """Print both times as JSON; exit 1 above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--without-checkov", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        size = write_manifests(Path(name), arguments.count)
        own = seconds([sys.executable, "-m", "llmp", "check", name, "--format", "json"], arguments.runs)
        result = {"files": arguments.count, "bytes": size, "llmp_check_seconds": round(own, 2)}
        if not arguments.without_checkov:
            command = [
                str(checkov()),
                "-d",
                name,
                "--framework",
                "kubernetes",
                "--quiet",
                "--compact",
                "-o",
                "json",
            ]
            result["checkov"] = CHECKOV
            result["checkov_seconds"] = round(seconds(command, 1), 2)
    print(json.dumps(result, indent=1))
    return int(own > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
