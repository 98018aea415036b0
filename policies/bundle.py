"""Makes the self-contained pack that `pulumi policy publish` uploads, since that packs only its own folder.

    python policies/bundle.py OUT

The pack's files, the modules of `components/` that they need (found by their imports), their tables, and a
PulumiPolicy.yaml without the local virtual environment: `pulumi install` in OUT makes one from requirements.txt.
"""

import argparse
import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NEEDED = "components"
LEFT_OUT = ("bundle.py", "refresh.py")


def modules_of(path: Path) -> Iterator[str]:
    """Modules that a file imports, wherever in it; those for type checkers only are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def file_of(module: str) -> Path | None:
    """The file of a module of `components`, or None for anything else."""
    if module.partition(".")[0] != NEEDED:
        return None
    path = ROOT.joinpath(*module.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


def closure(files: list[Path]) -> set[Path]:
    """Files of `components` that some files need, directly or through each other."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        for module in modules_of(waiting.pop()):
            path = file_of(module)
            if path is not None and path not in found:
                found.add(path)
                waiting.append(path)
    packages = {parent / "__init__.py" for path in found for parent in path.parents if ROOT in parent.parents}
    return found | {path for path in packages if path.is_file()}


def bundle(out: Path) -> list[Path]:
    """Write the bundle and give its files, relative to it."""
    if out.exists():
        shutil.rmtree(out)
    own = [path for path in sorted(HERE.rglob("*")) if path.is_file() and _belongs(path)]
    needed = sorted(closure([path for path in own if path.suffix == ".py"]))
    tables = [table for path in needed for table in sorted((path.parent / "data").glob("*.json"))]
    for path in own:
        _copy(path, out / path.relative_to(HERE))
    for path in dict.fromkeys([*needed, *tables]):
        _copy(path, out / path.relative_to(ROOT))
    project = (HERE / "PulumiPolicy.yaml").read_text(encoding="utf-8")
    (out / "PulumiPolicy.yaml").write_text(without_environment(project), encoding="utf-8")
    return sorted(path.relative_to(out) for path in out.rglob("*") if path.is_file())


def _belongs(path: Path) -> bool:
    return "__pycache__" not in path.parts and path.name not in LEFT_OUT


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def without_environment(project: str) -> str:
    """A PulumiPolicy.yaml whose environment is made beside it."""
    return re.sub(r"(\n\s+virtualenv:)[^\n]*", r"\1 venv", project)


def main() -> None:
    """Bundle into the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write; one that is there is replaced")
    out = parser.parse_args().out
    print(f"{len(bundle(out))} files written to {out}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
