"""`llmp comment`: one comment a stack, made once and then kept up to date; `gh` is a stand-in that writes down its calls."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from llmp.__main__ import app
from preview.comment import MOST_CHARACTERS, body_of, ours, shortened
from tests.delivery.stand_ins import calls_of, fake_gh

MARKER = "<!-- llm-platform preview: dev -->"


def comment(identity: int, body: str, kind: str = "Bot") -> dict:
    """A comment as GitHub lists it."""
    return {"id": identity, "body": body, "user": {"type": kind}}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, with some comments there already."""

    def invoke(*arguments: str, there: list[dict] | None = None) -> Result:
        if there is not None:
            fake_gh(tmp_path, there)
        monkeypatch.setenv("PATH", f"{tmp_path / 'gh-bin'}{os.pathsep}{os.environ['PATH']}")
        whose = ["--stack", "dev", "--repository", "acme/llm", "--pull-request", "7"]
        return CliRunner().invoke(app, ["comment", *whose, *arguments])

    return invoke


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report as `llmp preview --markdown` writes it."""
    path = tmp_path / "comment.md"
    path.write_text(f"{MARKER}\n## Stack `dev` can be deployed\n", encoding="utf-8")
    return path


def test_the_first_report_makes_the_comment(tmp_path: Path, report: Path, run) -> None:
    """Without a comment of ours one is made, with the report as it is."""
    done = run("--file", str(report), there=[comment(1, "LGTM", "User")])
    calls = calls_of(tmp_path)

    assert done.exit_code == 0, done.stderr
    assert calls[-1]["arguments"] == [
        "api",
        "--method",
        "POST",
        "repos/acme/llm/issues/7/comments",
        "--input",
        "-",
    ]
    assert {"body": report.read_text(encoding="utf-8")} == json.loads(calls[-1]["input"])


def test_the_next_report_replaces_it(tmp_path: Path, report: Path, run) -> None:
    """The comment with the stack's marker is changed; those of other stacks and of people stay."""
    there = [
        comment(1, "<!-- llm-platform preview: prod -->"),
        comment(2, MARKER, "User"),
        comment(3, f"{MARKER}\nold"),
    ]
    done = run("--file", str(report), there=there)
    calls = calls_of(tmp_path)

    assert done.exit_code == 0, done.stderr
    assert calls[-1]["arguments"][2:4] == ["PATCH", "repos/acme/llm/issues/comments/3"]
    assert len(calls) == 2


def test_a_stack_that_cannot_be_previewed_says_why(tmp_path: Path, run) -> None:
    """Without a report the comment holds what the preview said on standard error, under the same marker."""
    problems = tmp_path / "problems.txt"
    problems.write_text(
        "Pulumi.dev.yaml:3: regoin: is not a setting; did you mean region?\n", encoding="utf-8"
    )
    done = run("--file", str(tmp_path / "none.md"), "--problems", str(problems), there=[])
    body = json.loads(calls_of(tmp_path)[-1]["input"])["body"]

    assert done.exit_code == 0, done.stderr
    assert body.startswith(f"{MARKER}\n## Stack `dev` cannot be previewed\n")
    assert "Pulumi.dev.yaml:3: regoin: is not a setting" in body


def test_neither_report_nor_reason_is_refused(tmp_path: Path, run) -> None:
    """With nothing to say, nothing is written and the exit code is 2."""
    done = run("--file", "none.md", there=[])

    assert (
        done.exit_code,
        done.stderr,
    ) == (2, "--file none.md: there is no report, and --problems says no reason\n")
    assert calls_of(tmp_path) == []


def test_a_refusal_of_github_is_said(tmp_path: Path, report: Path, run) -> None:
    """What `gh` says when GitHub refuses is shown, with exit code 1."""
    gh = fake_gh(tmp_path, []) / "gh"
    gh.write_text(
        "#!/bin/sh\necho 'HTTP 403: Resource not accessible by integration' >&2\nexit 1\n", encoding="utf-8"
    )
    done = run("--file", str(report))

    assert done.exit_code == 1
    assert done.stderr.strip().endswith("HTTP 403: Resource not accessible by integration")


def test_the_marker_is_the_reports() -> None:
    """The marker by which the comment is found is the first line of every report."""
    from preview.markdown import MARKER as TEMPLATE  # noqa: PLC0415 - needs the rules on the path, which conftest puts there

    assert TEMPLATE.format(stack="dev") == MARKER
    assert body_of(MARKER, "dev", f"{MARKER}\nreport", "ignored") == f"{MARKER}\nreport"


def test_a_long_report_is_cut_at_a_line() -> None:
    """GitHub takes 65,536 characters: the text is cut at a line, open folds and fences are closed, and that is said."""
    text = f"{MARKER}\n<details><summary>all</summary>\n```mermaid\n" + "a line of it\n" * 10_000
    body = shortened(text)

    assert len(body) <= MOST_CHARACTERS
    assert body.startswith(MARKER)
    assert body.endswith("a line of it\n```\n</details>\n\n_The rest is in the summary of the job._\n")


def test_a_short_report_is_left_as_it_is() -> None:
    """A report within the limit is not touched."""
    assert shortened("short\n") == "short\n"


def test_only_a_bots_comment_is_ours() -> None:
    """A person who quotes the marker keeps their comment."""
    assert ours([comment(5, f"{MARKER} quoted", "User")], MARKER) is None
    assert ours([comment(5, f"see {MARKER}"), comment(6, MARKER)], MARKER) == 6
