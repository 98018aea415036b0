"""`llmp stacks-touched`: which stacks the commits since a base touch, as a person runs it in a git checkout."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from llmp.__main__ import app
from preview.touched import delivered, paths_of, touched, touches
from tests.conftest import ROOT, STACKS
from tests.delivery.offline import STACKS as DELIVERED


def git(folder: Path, *arguments: str) -> str:
    """Run git as somebody."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small repository with four stacks and one commit, tagged `base`."""
    for stack in STACKS:
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(f"config: {{a:b: {stack}}}\n", encoding="utf-8")
    (tmp_path / "delivery").mkdir()
    for stack, branch in (("dev", "main"), ("prod", "release")):
        text = f"config:\n  llm-platform-delivery:delivery:\n    branch: {branch}\n"
        (tmp_path / "delivery" / f"Pulumi.{stack}.yaml").write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "base")
    git(tmp_path, "tag", "base")
    return tmp_path


@pytest.fixture
def llmp(checkout: Path) -> Callable[..., Result]:
    """The command, run on the checkout."""
    return lambda *arguments: CliRunner().invoke(
        app, ["stacks-touched", "--folder", str(checkout), *arguments]
    )


def change(checkout: Path, name: str, text: str = "changed\n") -> None:
    """Commit one changed file."""
    path = checkout / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "-m", name)


def test_a_stack_file_touches_its_stack(checkout: Path, llmp) -> None:
    """A change of one stack file touches that stack."""
    change(checkout, "Pulumi.dev.yaml")

    assert llmp("--base", "base").stdout == "dev\n"


def test_the_library_touches_every_stack(checkout: Path, llmp) -> None:
    """A change of a component touches all stacks; as JSON for a matrix."""
    change(checkout, "components/manifests/new.py")
    done = llmp("--base", "base", "--json")

    assert json.loads(done.stdout) == ["dev", "local", "multinode", "prod"]
    assert done.exit_code == 0


def test_docs_touch_none(checkout: Path, llmp) -> None:
    """A change of docs and tests touches no stack: nothing is said, and that is no failure."""
    change(checkout, "docs/new.md")
    change(checkout, "tests/test_new.py")

    assert (llmp("--base", "base").stdout, llmp("--base", "base").exit_code) == ("", 0)
    assert llmp("--base", "base", "--json").stdout == "[]\n"


def test_what_the_base_got_meanwhile_does_not_count(checkout: Path, llmp) -> None:
    """The comparison is with the commit where the branch began, not with what the base has become."""
    git(checkout, "checkout", "--quiet", "-b", "feature")
    change(checkout, "Pulumi.dev.yaml")
    git(checkout, "checkout", "--quiet", "main")
    change(checkout, "Pulumi.prod.yaml")
    git(checkout, "checkout", "--quiet", "feature")

    assert llmp("--base", "main").stdout == "dev\n"


def test_a_renamed_stack_counts_by_its_new_name(checkout: Path, llmp) -> None:
    """A stack file that was renamed touches the stack that is there now."""
    git(checkout, "mv", "Pulumi.local.yaml", "Pulumi.laptop.yaml")
    git(checkout, "commit", "--quiet", "-m", "renamed")

    assert llmp("--base", "base").stdout == "laptop\n"


@pytest.mark.parametrize(("branch", "found"), [("main", ["dev"]), ("release", ["prod"]), ("other", [])])
def test_a_branch_leaves_the_stacks_that_are_updated_from_it(
    checkout: Path, llmp, branch: str, found: list[str]
) -> None:
    """With a branch, only stacks that delivery/ updates from it are listed."""
    change(checkout, "__main__.py")

    assert found == json.loads(llmp("--base", "base", "--branch", branch, "--json").stdout)


def test_a_new_branch_touches_all(llmp) -> None:
    """GitHub names the commit before the first of a branch with zeros: everything is new."""
    assert llmp("--base", "0" * 40).stdout == "dev\nlocal\nmultinode\nprod\n"


def test_an_unknown_base_is_a_sentence(llmp) -> None:
    """A base that git does not know is said in git's words, with exit code 2."""
    done = llmp("--base", "nowhere")

    assert done.exit_code == 2
    assert done.stderr.startswith("--base nowhere: fatal: ")


def test_a_base_is_no_option(llmp) -> None:
    """What looks like an option of git is refused as an unknown commit."""
    done = llmp("--base", "--output=x")

    assert done.exit_code == 2
    assert not (ROOT / "x").exists()


@pytest.mark.slow
@pytest.mark.parametrize("stack", DELIVERED)
def test_everything_that_the_program_reads_is_in_the_paths(stack: str) -> None:
    """Each file of ours that `pulumi up` of a stack loads starts a deployment when it changes."""
    script = (
        "import sys, json; from pathlib import Path; from preview.build import build; "
        f"build({stack!r}); root = Path.cwd();"
        "print(json.dumps(sorted({str(Path(m.__file__).resolve().relative_to(root)) for m in list(sys.modules.values())"
        " if getattr(m, '__file__', None) and Path(m.__file__).resolve().is_relative_to(root)"
        " and '.venv' not in m.__file__})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    loaded = [path for path in json.loads(done.stdout) if not path.startswith("preview/")]
    missed = [path for path in loaded if not touches(path, stack)]

    assert len(loaded) > 50
    assert missed == []


def test_every_file_of_the_policy_pack_is_in_the_paths() -> None:
    """A change of a rule deploys; the bundle is for publishing and the catalogue for docs."""
    pack = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "policies").rglob("*.py")
        if path.name not in {"bundle.py", "catalogue.py"}
    ]

    assert [path for path in pack if not touches(path, "prod")] == []
    assert touched(["policies/config.dev.json"], ["dev", "prod"]) == ["dev"]


def test_ways_of_people_are_no_program() -> None:
    """Docs, tests, workflows, the report and delivery itself change no stack."""
    others = [
        "README.md",
        "docs/a.md",
        "tests/a.py",
        ".github/workflows/push.yaml",
        "preview/text.py",
        "llmp/x.py",
        "delivery/load.py",
    ]

    assert touched(others, STACKS) == []


def test_branches_are_read_from_delivery() -> None:
    """The branch of each stack is what delivery/ says, and only that."""
    assert delivered(ROOT) == {"dev": "main", "prod": "release"}
    assert paths_of("prod")[-2:] == ("Pulumi.prod.yaml", "policies/config.prod.json")
