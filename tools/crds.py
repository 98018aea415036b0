"""Collects the CRD files of the operators out of their Go modules, so that a real API server knows their kinds.

They are not kept in git: the modules are pinned in `tools/crds/` like every tool. KubeRay's newest Go module is
1.5.0 while the charts pin 1.7.0; where a folder with newer files exists (`../shared/crds` beside the checkout, or
$LLMP_CRDS) those replace the older ones, and elsewhere the result says what is not checked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools import build, cache
from tools.table import HERE, ToolsError
from tools.terminal import say

MODULE = HERE / "crds"
SOURCES_NAME = "sources.json"


@dataclass(frozen=True)
class CrdSource:
    """Files of one module. `kinds` are file names without `.yaml`; only what a stack can use is installed."""

    module: str
    folder: str
    kinds: tuple[str, ...]


SOURCES: tuple[CrdSource, ...] = (
    CrdSource(
        "github.com/aws/karpenter-provider-aws",
        "pkg/apis/crds",
        (
            "karpenter.k8s.aws_ec2nodeclasses",
            "karpenter.sh_nodeclaims",
            "karpenter.sh_nodeoverlays",
            "karpenter.sh_nodepools",
            "autoscaling.x-k8s.io_capacitybuffers",
        ),
    ),
    CrdSource(
        "github.com/kedacore/keda/v2",
        "config/crd/bases",
        (
            "keda.sh_scaledobjects",
            "keda.sh_triggerauthentications",
            "keda.sh_clustertriggerauthentications",
        ),
    ),
    CrdSource(
        "github.com/prometheus-operator/prometheus-operator",
        "example/prometheus-operator-crd",
        (
            "monitoring.coreos.com_podmonitors",
            "monitoring.coreos.com_servicemonitors",
            "monitoring.coreos.com_prometheusrules",
        ),
    ),
    CrdSource(
        "github.com/ray-project/kuberay/ray-operator",
        "config/crd/bases",
        ("ray.io_rayclusters", "ray.io_rayservices", "ray.io_rayjobs"),
    ),
)

# Kinds that no stack holds but an operator wants when it runs. Ray's are the largest CRDs there are (the API server
# takes seconds and 100 MB for each), so they are not installed without their operator.
OPERATOR_ONLY = frozenset({"ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml"})

# Files that a newer folder may replace, and what is said when there is none.
NEWER_KINDS = ("ray.io_rayclusters", "ray.io_rayservices")
OLDER_NOTE = (
    "KubeRay's CRDs are those of its Go module, 1.5.0: fields that 1.7.0 added are not checked "
    "(and listed by the test). Set LLMP_CRDS to a folder with ray.io_rayservices.yaml of 1.7.0 to check them too."
)


@dataclass(frozen=True)
class Collected:
    """The folder of collected CRD files, where each came from, and what the reader should know."""

    folder: Path
    sources: dict[str, str]
    notes: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """The CRD files of the kinds that stacks hold, named `<group>_<plural>.yaml`."""
        return tuple(path for path in self.all_files if path.name not in OPERATOR_ONLY)

    @property
    def all_files(self) -> tuple[Path, ...]:
        """The same, and those that operators want beside them."""
        return tuple(self.folder / name for name in sorted(self.sources))


def newer_folder() -> Path | None:
    """The folder with newer CRDs, when this machine has one."""
    own = os.environ.get("LLMP_CRDS")
    folder = Path(own).expanduser() if own else HERE.parent.parent / "shared" / "crds"
    if folder.is_dir():
        return folder.resolve()
    if own:
        message = f"LLMP_CRDS names {own}, which is not a folder."
        raise ToolsError(message)
    return None


def locate() -> Collected | None:
    """The collected CRDs when they are in the cache, else None. Raises ToolsError for a wrong LLMP_CRDS."""
    folder = _folder(newer_folder())
    index = folder / SOURCES_NAME
    return _read(folder) if index.is_file() else None


def ensure() -> Collected:
    """The collected CRDs, taken out of the modules when they are not in the cache. Raises ToolsError."""
    if found := locate():
        return found
    newer = newer_folder()
    folder = _folder(newer)
    with cache.locked(folder.parent / f".{folder.name}.lock", "another process collects the CRDs; waiting."):
        if not (folder / SOURCES_NAME).is_file():
            _collect(folder, newer)
    return _read(folder)


def _folder(newer: Path | None) -> Path:
    files = [MODULE / "go.mod", MODULE / "go.sum"]
    if newer:
        files += [newer / f"{kind}.yaml" for kind in NEWER_KINDS]
    return cache.root() / f"crds-{cache.digest(files, *(f'{s.folder}:{s.kinds}' for s in SOURCES))}"


def _read(folder: Path) -> Collected:
    content = json.loads((folder / SOURCES_NAME).read_text())
    return Collected(folder, content["sources"], tuple(content["notes"]))


def _collect(folder: Path, newer: Path | None) -> None:
    env = build.go_environment({})
    build.require_go(MODULE, env)
    folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        sources = _copy_from_modules(work, env)
        replaced = _copy_newer(work, newer)
        sources |= dict.fromkeys(replaced, "a newer file from LLMP_CRDS or ../shared/crds")
        notes = [] if len(replaced) == len(NEWER_KINDS) else [OLDER_NOTE]
        (work / SOURCES_NAME).write_text(json.dumps({"sources": sources, "notes": notes}, indent=1))
        work.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        work.replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _copy_from_modules(work: Path, env: dict[str, str]) -> dict[str, str]:
    modules = _download(work, env)
    sources: dict[str, str] = {}
    for source in SOURCES:
        version, directory = modules[source.module]
        for kind in source.kinds:
            name = f"{kind}.yaml"
            shutil.copyfile(directory / source.folder / name, work / name)
            sources[name] = f"{source.module}@{version}"
    return sources


def _copy_newer(work: Path, newer: Path | None) -> list[str]:
    names = [f"{kind}.yaml" for kind in NEWER_KINDS if newer and (newer / f"{kind}.yaml").is_file()]
    for name in names:
        shutil.copyfile((newer or work) / name, work / name)
    return names


def _download(work: Path, env: dict[str, str]) -> dict[str, tuple[str, Path]]:
    """Module path -> version and folder. go.sum holds the modules' hashes, so the client checks them."""
    say("downloading the modules that hold the CRDs (about 30 s)")
    module = work / "module"
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copy(MODULE / name, module / name)
    done = subprocess.run(
        ["go", "mod", "download", "-json"], cwd=module, env=env, capture_output=True, text=True, check=False
    )
    shutil.rmtree(module)
    found = {row["Path"]: row for row in _documents(done.stdout)}
    missing = [source.module for source in SOURCES if "Dir" not in found.get(source.module, {})]
    if missing:
        reasons = [found[name].get("Error", "") for name in missing if name in found] or [done.stderr.strip()]
        message = f"The Go client could not fetch {', '.join(missing)}: {'; '.join(reasons)}"
        raise ToolsError(message)
    return {name: (row["Version"], Path(row["Dir"])) for name, row in found.items()}


def _documents(text: str) -> list[dict[str, str]]:
    """JSON objects written one after another, as the Go client does."""
    decoder, rows, position = json.JSONDecoder(), [], 0
    while text[position:].strip():
        position += len(text[position:]) - len(text[position:].lstrip())
        row, position = decoder.raw_decode(text, position)
        rows.append(row)
    return rows
