"""The workflows as files: pinned, least permissions, and in step with the delivery program."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from preview.touched import delivered
from tests.conftest import ROOT
from tests.delivery.workflows import FILES, steps, workflow

# Each pin was looked up in several public repositories that name commit and version together.
PINS = {
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/setup-python": ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7.0.0"),
    "aws-actions/configure-aws-credentials": ("e1253824e5c10ff9df46874f81ed3ec929e19cfd", "v6.3.0"),
    "github/codeql-action/upload-sarif": ("cdf488f595d80d6e07e03d4674febd5ab45fa938", "v4.37.9"),
    "pulumi/actions": ("8e5e406f4007fca908480587cb9893c07090f58d", "v7.0.0"),
    "pulumi/auth-actions": ("141415910c3beb54e03b48e9057c204c97b956f2", "v2.1.0"),
}
PERMISSIONS = {
    ("pull-request", "stacks"): {"contents": "read"},
    ("pull-request", "report"): {"contents": "read", "pull-requests": "write", "security-events": "write"},
    ("pull-request", "preview"): {"contents": "read", "id-token": "write"},
    ("push", "stacks"): {"contents": "read"},
    ("push", "update"): {"contents": "read", "id-token": "write"},
}
# Inputs of pulumi/actions at its pin that we use (action.yml of v7.0.0).
PULUMI_INPUTS = {
    "command",
    "stack-name",
    "pulumi-version",
    "policyPacks",
    "policyPackConfigs",
    "comment-on-summary",
}


@pytest.mark.parametrize("name", FILES)
def test_actions_are_pinned_by_commit(name: str) -> None:
    """Every action stands by its whole commit, with the version beside it, and nothing else is used."""
    text = (ROOT / ".github" / "workflows" / f"{name}.yaml").read_text(encoding="utf-8")
    used = re.findall(r"uses: (\S+)@(\S+) # (\S+)$", text, re.MULTILINE)

    assert len(used) == text.count("uses: ") - text.count("`uses: ")
    assert [
        (action, commit, version) for action, commit, version in used if PINS[action] != (commit, version)
    ] == []
    assert all(re.fullmatch(r"[0-9a-f]{40}", commit) for _, commit, _ in used)


@pytest.mark.parametrize("name", FILES)
def test_permissions_are_the_least(name: str) -> None:
    """Nothing is permitted to a whole workflow; each job has what it uses."""
    content = workflow(name)

    assert content["permissions"] == {}
    assert {job: PERMISSIONS[name, job] for job in content["jobs"]} == {
        job: given["permissions"] for job, given in content["jobs"].items()
    }


@pytest.mark.parametrize("name", FILES)
def test_commands_hold_no_expression(name: str) -> None:
    """What comes from outside reaches a shell as a variable, never as part of its text; so a person can run it too."""
    assert [step["run"] for _, step in steps(name) if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize("name", FILES)
def test_no_token_stays_in_the_checkout(name: str) -> None:
    """The checkout keeps no token, and no job runs with the rights of the base branch."""
    checkouts = [
        step["with"] for _, step in steps(name) if step.get("uses", "").startswith("actions/checkout@")
    ]

    assert [given["persist-credentials"] for given in checkouts] == [False] * len(checkouts)
    assert "pull_request_target" not in workflow(name)["on"]


@pytest.mark.parametrize("name", FILES)
def test_jobs_end(name: str) -> None:
    """Each job has a time limit and a runner image of one version."""
    jobs = workflow(name)["jobs"]

    assert [job for job, given in jobs.items() if not 1 <= given["timeout-minutes"] <= 120] == []
    assert [
        job
        for job, given in jobs.items()
        if "ubuntu-24.04" not in given["runs-on"] or "latest" in given["runs-on"]
    ] == []


def test_pushes_are_those_of_the_delivery() -> None:
    """The branches that update stacks are the ones that delivery/ names."""
    assert sorted(set(delivered(ROOT).values())) == sorted(workflow("push")["on"]["push"]["branches"])


def test_an_update_is_previewed_first() -> None:
    """In a push the offline rules come first, then a preview with the pack, then the update with the pack."""
    found = [
        step.get("run", "") or step["with"]["command"]
        for job, step in steps("push")
        if job == "update"
        and ("llmp preview" in step.get("run", "") or step.get("uses", "").startswith("pulumi/actions@"))
    ]

    assert found == ['.venv/bin/llmp preview --stack "$STACK"', "preview", "up"]


@pytest.mark.parametrize("name", FILES)
def test_pulumi_runs_with_the_pack_and_the_pinned_cli(name: str) -> None:
    """Every command of Pulumi has the policy pack with the stack's config, and the CLI of requirements.txt."""
    pinned = re.search(
        r"^pulumi==(\S+)$", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    given = [step["with"] for _, step in steps(name) if step.get("uses", "").startswith("pulumi/actions@")]
    assert pinned

    for inputs in given:
        assert set(inputs) <= PULUMI_INPUTS
        assert (inputs["policyPacks"], inputs["pulumi-version"]) == ("policies", pinned[1])
        assert inputs["policyPackConfigs"] == "policies/config.${{ matrix.stack }}.json"
        assert inputs["stack-name"] == "${{ vars.PULUMI_ORGANIZATION }}/llm-platform/${{ matrix.stack }}"
    assert [(ROOT / "policies" / f"config.{stack}.json").is_file() for stack in delivered(ROOT)] == [
        True,
        True,
    ]
    assert given != []


def test_environments_are_those_that_the_roles_trust() -> None:
    """Updates run in the environment of the stack's name, previews of pull requests in another with reviewers."""
    assert workflow("push")["jobs"]["update"]["environment"] == "${{ matrix.stack }}"
    assert workflow("pull-request")["jobs"]["preview"]["environment"] == "${{ matrix.stack }}-preview"


def test_updates_wait_for_each_other() -> None:
    """A push waits for the one before it and is never cut off; a newer pull request run replaces the older."""
    assert workflow("push")["concurrency"] == {
        "group": "push-${{ github.ref_name }}",
        "cancel-in-progress": False,
    }
    assert workflow("pull-request")["concurrency"]["cancel-in-progress"] is True


def test_forks_get_no_credentials_and_write_nothing() -> None:
    """A pull request from a fork is reported in the job's summary; comment, findings and AWS are for the own branches."""
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    writing = [
        step
        for job, step in steps("pull-request")
        if "upload-sarif" in step.get("uses", "") or "llmp comment" in step.get("run", "")
    ]

    assert len(writing) == 2
    assert [own in step["if"] for step in writing] == [True, True]
    assert own in workflow("pull-request")["jobs"]["preview"]["if"]


def test_the_setup_is_makes() -> None:
    """Each job sets up by `make setup` with a Python that the program takes."""
    allowed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "requires-python"
    ]
    for name in FILES:
        versions = {
            step["with"]["python-version"]
            for _, step in steps(name)
            if "setup-python@" in step.get("uses", "")
        }
        commands = [(job, step["run"]) for job, step in steps(name) if "run" in step]

        assert versions == {"3.12"}
        assert {job for job, _ in commands} == {job for job, run in commands if run == "make setup"}
    assert allowed == ">=3.11,<3.14"


def test_zizmor_finds_nothing() -> None:
    """An audit by others of what goes wrong in workflows: injection, loose permissions, stale tokens."""
    zizmor = shutil.which("zizmor", path=str(Path(sys.executable).parent)) or shutil.which("zizmor")
    if not zizmor:
        pytest.skip("zizmor is not installed (requirements-dev.txt)")
    command = [zizmor, "--offline", "--persona=auditor", "--no-progress", str(ROOT / ".github" / "workflows")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
