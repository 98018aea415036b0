"""Tools are found, built once, and never half; a stand-in for the Go client shows each case in a second."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.helpers import run_module, soon, start_module
from tools import cache, crds
from tools.table import KARPENTER, KUBERAY, KUBERNETES, KWOK, PROVIDER_MODULE, PULUMI, TOOLS, ToolsError, find

GO = """#!/bin/sh
# Stands in for the Go client: knows its version and "builds" a script that prints one.
case "$1" in
  env) echo {go_version} ;;
  build)
    echo "go: building" >&2
    while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
    sleep {seconds}
    [ {code} = 0 ] || {{ echo "main.go:1: undefined: x" >&2; exit {code}; }}
    mkdir -p "$(dirname "$out")"
    printf '#!/bin/sh\\necho etcd Version: {version}\\n' > "$out"
    chmod +x "$out" ;;
esac
"""

Go = Callable[..., dict[str, str]]


@pytest.fixture
def go(tmp_path: Path) -> Go:
    """An environment with a stand-in Go client and an empty cache."""

    def make(
        *, go_version: str = "go1.26.8", seconds: float = 0, code: int = 0, version: str = "3.7.3"
    ) -> dict[str, str]:
        script = tmp_path / "bin" / "go"
        script.parent.mkdir(exist_ok=True)
        script.write_text(GO.format(go_version=go_version, seconds=seconds, code=code, version=version))
        script.chmod(0o755)
        return {"PATH": f"{script.parent}:/usr/bin:/bin", "LLMP_CACHE": str(tmp_path / "cache")}

    return make


def _finished(env: dict[str, str]) -> list[str]:
    """Names of finished binaries in a cache."""
    return [path.name for path in Path(env["LLMP_CACHE"]).glob("tools/etcd-*/etcd")]


def test_builds_then_finds(go: Go) -> None:
    """The first call builds and prints the path; the second says nothing and starts no build."""
    env = go()
    code, out, err = run_module("-m", "tools", "build", "etcd", env=env)
    again = run_module("-m", "tools", "build", "etcd", env=go(code=1))
    path = run_module("-m", "tools", "path", "etcd", env=env)

    assert code == 0, err
    assert re.fullmatch(r"etcd /.*/cache/tools/etcd-[0-9a-f]{16}/etcd\n", out)
    assert "tools: building etcd (about 42 s on two cores)\n" in err
    assert again == (0, out, "")
    assert path == (0, out.removeprefix("etcd "), "")


def test_path_of_what_is_not_there(go: Go) -> None:
    """`path` of a tool that is not built says how to get it, and fails."""
    assert run_module("-m", "tools", "path", "etcd", env=go()) == (
        1,
        "",
        "tools: etcd is not built and not on PATH in version 3.7.3. Run `make tools` first.\n",
    )


def test_unknown_name_lists_the_names(go: Go) -> None:
    """A wrong name is answered with the right ones."""
    code, _, err = run_module("-m", "tools", "path", "etdc", env=go())

    assert code == 1
    assert err == (
        "tools: There is no tool named 'etdc'. The tools are: etcd, kube-apiserver, kube-controller-manager, "
        "pulumi, pulumi-kubernetes, kube-scheduler, kuberay, kwok, karpenter.\n"
    )


def test_failed_build_shows_the_compilers_words(go: Go) -> None:
    """A build that fails shows the end of Go's output and leaves no binary."""
    env = go(code=2)
    code, _, err = run_module("-m", "tools", "build", "etcd", env=env)

    assert code == 1
    assert "tools: building etcd failed with code 2. The end of /" in err
    assert "    main.go:1: undefined: x\n" in err
    assert _finished(env) == []


def test_wrong_version_is_not_kept(go: Go) -> None:
    """A binary that names another version than the table is refused."""
    env = go(version="3.6.0")
    code, _, err = run_module("-m", "tools", "build", "etcd", env=env)

    assert code == 1
    assert "etcd was built but names another version than 3.7.3: 'etcd Version: 3.6.0'." in err
    assert _finished(env) == []


def test_go_too_old(go: Go) -> None:
    """An older Go is named together with the one that is needed."""
    code, _, err = run_module("-m", "tools", "build", "etcd", env=go(go_version="go1.21.3"))

    assert (code, err) == (
        1,
        "tools: Go 1.26.0 or newer is needed to build the tools in etcd; found: 1.21.3.\n",
    )


def test_go_missing(tmp_path: Path) -> None:
    """Without Go the message says what to install."""
    env = {"PATH": str(tmp_path), "LLMP_CACHE": str(tmp_path / "cache")}
    code, _, err = run_module("-m", "tools", "build", "etcd", env=env)

    assert code == 1
    assert err == (
        "tools: Go is needed to build the tools and is not on PATH. Install Go 1.26.0 or newer, then run this again.\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_build_leaves_nothing_finished(go: Go, number: signal.Signals) -> None:
    """A build that is interrupted in any way leaves no binary and no lock; the next one succeeds."""
    env = go(seconds=30)
    with start_module("-m", "tools", "build", "etcd", env=env) as process:
        assert soon(lambda: any(Path(env["LLMP_CACHE"]).glob("tools/etcd-*/build.log")))
        process.send_signal(number)
        _, err = process.communicate(timeout=60)

    assert process.returncode == {signal.SIGKILL: -9}.get(number, 130)
    assert number == signal.SIGKILL or "tools: interrupted; what was finished is kept" in err
    assert _finished(env) == []
    assert run_module("-m", "tools", "build", "etcd", env=go())[0] == 0
    assert [path.name for path in Path(env["LLMP_CACHE"]).glob("tools/etcd-*/building-*")] == []


def test_two_builds_side_by_side(go: Go) -> None:
    """The second of two builds waits for the first and builds nothing."""
    env = go(seconds=2)
    with start_module("-m", "tools", "build", "etcd", env=env) as first:
        assert soon(lambda: any(Path(env["LLMP_CACHE"]).glob("tools/etcd-*/build.log")))
        code, out, err = run_module("-m", "tools", "build", "etcd", env=env)
        first_out, _ = first.communicate(timeout=60)

    assert code == 0
    assert err == "tools: another process is building etcd; waiting for it.\n"
    assert out == first_out


def test_slow_build_says_how_far_it_is(go: Go) -> None:
    """A build that takes longer than 5 s says so on the way."""
    _, _, err = run_module("-m", "tools", "build", "etcd", env=go(seconds=5.5))

    assert re.search(r"tools: building etcd: [45] s of about 42 s\n", err)


def test_a_tool_on_path_is_used(go: Go) -> None:
    """A tool on PATH in the right version is taken as it is; one in another version is not."""
    env = go()
    tool = Path(env["PATH"].partition(":")[0]) / "etcd"
    tool.write_text("#!/bin/sh\necho etcd Version: 3.7.3\n")
    tool.chmod(0o755)
    right = run_module("-m", "tools", "path", "etcd", env=env)
    tool.write_text("#!/bin/sh\necho etcd Version: 13.7.3\n")
    wrong = run_module("-m", "tools", "path", "etcd", env=env)

    assert right == (0, f"{tool}\n", "")
    assert wrong[0] == 1


def test_a_changed_pin_is_a_new_folder(tmp_path: Path) -> None:
    """The cache folder depends on the contents of the pinned files."""
    first = tmp_path / "go.sum"
    first.write_text("a h1:x\n")
    before = cache.digest([first])
    first.write_text("a h1:y\n")

    assert cache.digest([first]) != before


def test_the_table_agrees_with_the_modules() -> None:
    """The versions in the table are those in go.mod and main.go, which cannot be read from one another."""
    for tool, pin in (
        ("etcd", "go.etcd.io/etcd/server/v3 v3.7.3"),
        ("kube-apiserver", f"k8s.io/kubernetes v{KUBERNETES}"),
        ("pulumi", f"github.com/pulumi/pulumi/pkg/v3 v{PULUMI}"),
        ("kuberay", f"github.com/ray-project/kuberay/ray-operator v{KUBERAY}"),
        ("kwok", f"sigs.k8s.io/kwok v{KWOK}"),
        ("karpenter", f"github.com/aws/karpenter-provider-aws v{KARPENTER}"),
    ):
        assert pin in (find(tool).folder / "go.mod").read_text()
    assert f'version = "{PROVIDER_MODULE}"' in (find("pulumi-kubernetes").folder / "main.go").read_text()


def test_a_version_can_be_read_off_a_binary(tmp_path: Path) -> None:
    """A program without a version flag is known by Go's build information: its own package, and the module's version."""
    tool, binary = find("karpenter"), tmp_path / "karpenter-kwok"

    def said(package: str, version: str) -> str:
        text = f"path\t{package}\nmod\texample.com/x\t(devel)\t\ndep\t{tool.stamped_module}\t{version}\th1:abc=\n"
        binary.write_bytes(b"\x7fELF\0" + text.encode() + b"\0")
        return cache.printed_version(tool, binary)

    assert cache.has_version(tool, said(tool.package, f"v{KARPENTER}"))
    assert not cache.has_version(tool, said(tool.package, "v1.14.10"))
    assert said("github.com/aws/karpenter-provider-aws/cmd/controller", f"v{KARPENTER}") == ""
    assert cache.printed_version(tool, tmp_path / "nothing") == ""


def test_missing_crd_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong LLMP_CRDS is an error and not silently the older CRDs."""
    monkeypatch.setenv("LLMP_CRDS", str(tmp_path / "nowhere"))

    with pytest.raises(ToolsError, match="which is not a folder"):
        crds.locate()


@pytest.mark.server
def test_older_crds_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no newer KubeRay CRDs are, the note says what is not checked; where they are, there is none."""
    monkeypatch.setenv("LLMP_CACHE", str(tmp_path / "cache"))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("LLMP_CRDS", str(empty))
    older = crds.ensure()
    newer = tmp_path / "newer"
    newer.mkdir()
    for name in ("ray.io_rayclusters.yaml", "ray.io_rayservices.yaml"):
        shutil.copy(older.folder / name, newer / name)
    monkeypatch.setenv("LLMP_CRDS", str(newer))

    assert older.notes == (crds.OLDER_NOTE,)
    assert older.sources["ray.io_rayservices.yaml"] == "github.com/ray-project/kuberay/ray-operator@v1.5.0"
    assert len(older.all_files) == 14
    assert len(older.files) == 12
    assert crds.ensure().notes == ()


@pytest.mark.alone
@pytest.mark.engine
def test_second_run_takes_under_a_second() -> None:
    """With everything built, `make tools` is done in a second."""
    started = time.monotonic()
    code, out, err = run_module("-m", "tools", "build")
    seconds = time.monotonic() - started

    assert code == 0, err
    assert len(out.splitlines()) == len(TOOLS) + 1
    assert seconds < 1.0


def test_environment_is_not_needed() -> None:
    """`python -m tools` uses the standard library only: it runs without site packages."""
    code, out, err = run_module("-S", "-m", "tools", "list", env={"PYTHONPATH": "", "PATH": os.defpath})

    assert code == 0, err
    assert [line.split()[0] for line in out.splitlines()] == [tool.name for tool in TOOLS]
