"""Rules about the repository itself: import direction, pins, tests that are collected."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

FACTS = {"components.conventions", "components.pins", "components.quantities", "components.facts"}
# What the modules of a layer may import of the project, beside their own layer. Longest prefix wins.
ALLOWED = {
    **dict.fromkeys(FACTS, FACTS),
    "components.settings": FACTS,
    "components.sizing": FACTS | {"components.settings"},
    "components.manifests": FACTS | {"components.settings"},
    "guardrails": FACTS | {"components.settings", "components.sizing", "components.manifests"},
    "components": {"components", "guardrails"},
    "preview": {"components", "guardrails"},
    "rehearsal": {"components", "guardrails", "preview", "tools"},
    "bench": {"components", "guardrails", "preview", "tools"},
    "llmp": {"components", "guardrails", "preview", "rehearsal", "bench", "tools"},
    "tools": set(),
}
OURS = ("components", "guardrails", "preview", "rehearsal", "bench", "llmp", "tools")
FREE_OF_PULUMI = ("components.conventions", "components.pins", "components.settings", "components.sizing",
                  "components.manifests", "components.facts", "components.quantities", "guardrails")  # fmt: skip
PULUMI_ALLOWED = {"components.settings.load"}


def _modules() -> Iterator[tuple[str, Path]]:
    for folder, base in (("components", ROOT), ("preview", ROOT), ("rehearsal", ROOT), ("bench", ROOT), ("llmp", ROOT),
                         ("tools", ROOT), ("guardrails", ROOT / "policies")):  # fmt: skip
        for path in sorted((base / folder).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _within(module: str, packages: set[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _layer(module: str) -> str:
    return max((layer for layer in ALLOWED if _within(module, {layer})), key=len)


@pytest.mark.parametrize(
    ("module", "path"), list(_modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_imports_point_down(module: str, path: Path) -> None:
    """A module imports its own layer and those below it, as DESIGN section 3 draws them."""
    layer = _layer(module)
    parents = {"components", "components.settings"} if layer != "components" else set()
    upward = [
        name
        for name in _imports(path)
        if name.partition(".")[0] in OURS
        and not _within(name, ALLOWED[layer] | {layer})
        and name not in parents  # `from components import pins` names the package too
    ]

    assert upward == []


@pytest.mark.parametrize(
    ("module", "path"), list(_modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_lower_layers_do_not_know_pulumi(module: str, path: Path) -> None:
    """Settings, sizing, manifests and rules run where no Pulumi is installed."""
    if not _within(module, set(FREE_OF_PULUMI)) or module in PULUMI_ALLOWED:
        return

    assert [name for name in _imports(path) if name.partition(".")[0].startswith("pulumi")] == []


def test_facts_need_only_the_standard_library() -> None:
    """Conventions, pins, quantities and facts import nothing that must be installed."""
    allowed = sys.stdlib_module_names | {"components"}
    foreign = {
        (module, name)
        for module, path in _modules()
        if _within(module, FACTS) and ".refresh" not in module
        for name in _imports(path)
        if name.partition(".")[0] not in allowed
    }

    assert set() == foreign


def test_every_test_file_is_collected() -> None:
    """A file with a test function has a name that pytest collects."""
    missed = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"^(async )?def test_", path.read_text(encoding="utf-8"), re.MULTILINE)
        and not path.name.startswith("test_")
    ]

    assert missed == []


def test_every_test_says_its_behaviour() -> None:
    """Each test function has a docstring."""
    silent = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert silent == []


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "requirements-dev.txt",
        "constraints.txt",
        "policies/requirements.txt",
        "delivery/requirements.txt",
    ],
)
def test_every_requirement_is_exact(name: str) -> None:
    """Every requirement is pinned with ==."""
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    loose = [line for line in lines if line and not line.startswith(("-c ", "-r ")) and "==" not in line]

    assert loose == []


def test_no_file_names_a_machine_or_an_index() -> None:
    """No tracked file holds an absolute path of a machine or the host of a package index."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    forbidden = re.compile("|".join(["/" + "work/", "/" + r"root/(?!\.cache)", "files" + ".pythonhosted", "pypi" + r"\.org", "proxy" + r"\.golang",
                                     "registry" + r"\.npmjs"]))  # fmt: skip
    found = []
    for name in files.stdout.split():
        path = ROOT / name
        if (
            path.is_file()
            and path.suffix != ".png"
            and forbidden.search(path.read_text(encoding="utf-8", errors="ignore"))
        ):
            found.append(name)

    assert found == []
