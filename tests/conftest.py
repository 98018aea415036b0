"""What all tests share: one preview of each stack per session, golden files, and tiers that may not be skipped in CI."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from components import guard  # noqa: F401 - puts the rules on the path
from preview.build import Preview, build

ROOT = Path(__file__).resolve().parent.parent
STACKS = ("prod", "dev", "multinode", "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files after a wanted change"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """A tier named in LLMP_REQUIRE_TIERS (server, engine, serving, serving_real) that is skipped counts as failed: CI has its parts."""
    report = yield
    required = set(os.environ.get("LLMP_REQUIRE_TIERS", "").split(",")) & {
        mark.name for mark in item.iter_markers()
    }
    if report.skipped and required:
        report.outcome = "failed"
        report.longrepr = (
            f"tier {', '.join(sorted(required))} is required here but was skipped: {report.longrepr}"
        )
    return report


@pytest.fixture(scope="session")
def preview_of() -> Callable[[str], Preview]:
    """The preview of a stack; each is made once."""
    made: dict[str, Preview] = {}

    def get(stack: str) -> Preview:
        if stack not in made:
            made[stack] = build(stack, ROOT)
        return made[stack]

    return get


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, dict[str, str]], None]:
    """Compare a folder of texts with the kept one below tests/golden, or rewrite it with --update-golden."""

    def compare(folder: str, files: dict[str, str]) -> None:
        kept = ROOT / "tests" / "golden" / folder
        if request.config.getoption("--update-golden"):
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            for name, text in files.items():
                (kept / name).write_text(text, encoding="utf-8")
        there = (
            {path.name: path.read_text(encoding="utf-8") for path in kept.glob("*")} if kept.is_dir() else {}
        )
        hint = "run `make golden` if this change is wanted"

        assert sorted(files) == sorted(there), hint
        for name, text in files.items():
            assert text == there[name], f"{folder}/{name}: {hint}"

    return compare
