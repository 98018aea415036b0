"""The workflows' own commands, run in their order in a checkout of this repository with a change in it.

Stand-ins, each for what only GitHub or a cloud has: the actions named in ACTIONS, and `gh`. All other lines run as written.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.delivery.offline import deliver, edit
from tests.delivery.stand_ins import calls_of, fake_gh
from tests.delivery.workflows import Runner, checkout_of, commit, git, listed

pytestmark = pytest.mark.slow

OWN = "github.event.pull_request.head.repo.full_name == github.repository"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, made and compiled once."""
    return checkout_of(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def checkout(template: Path, tmp_path: Path) -> Path:
    """A checkout on the branch `feature`, at `origin/main` so far."""
    return shutil.copytree(template, tmp_path / "checkout", symlinks=True)


def runner_for(checkout: Path, *, fork: bool = False) -> Runner:
    """GitHub's runner for a pull request of `feature` into `main`, or a push."""
    outside = checkout.parent
    uploads: list[str] = []

    def upload(given: dict[str, str]) -> None:
        findings = json.loads((checkout / given["sarif_file"]).read_text(encoding="utf-8"))
        assert findings["version"] == "2.1.0"
        uploads.append(given["category"])

    def pulumi(given: dict[str, str]) -> None:
        assert (checkout / given["policyPacks"] / "PulumiPolicy.yaml").is_file()
        assert (checkout / given["policyPackConfigs"]).is_file()
        uploads.append(f"pulumi {given['command']} {given['stack-name']}")

    nothing = lambda _: None  # noqa: E731 - the checkout and its environment are there already
    environment = {
        **os.environ,
        "PATH": f"{fake_gh(outside, [])}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(outside / "summary.md"),
    }
    runner = Runner(
        folder=checkout,
        values={
            "github.base_ref": "main",
            "github.token": "a-token",
            "github.repository": "acme/llm-platform",
            "github.event.pull_request.number": "7",
            "github.ref_name": "main",
            "vars.AWS_ROLE": "arn:aws:iam::111122223333:role/llm-platform-deployer-dev",
            "vars.AWS_REGION": "us-west-2",
            "vars.PULUMI_ORGANIZATION": "acme",
        },
        conditions={OWN: not fork},
        actions={
            "actions/checkout": nothing,
            "actions/setup-python": nothing,
            "github/codeql-action/upload-sarif": upload,
            "aws-actions/configure-aws-credentials": nothing,
            "pulumi/auth-actions": nothing,
            "pulumi/actions": pulumi,
        },
        environment=environment,
    )
    runner.uploads = uploads  # type: ignore[attr-defined]
    return runner


def test_a_pull_request_that_changes_dev(checkout: Path) -> None:
    """The stacks are found, the report says what changes against the base, and comment and findings are written."""
    edit(checkout / "Pulumi.dev.yaml", "maxNumSeqs: 16", "maxNumSeqs: 24")
    commit(checkout, "more at once")
    runner = runner_for(checkout)

    assert runner.job("pull-request", "stacks"), runner.log
    assert listed(runner.values, "steps.touched.outputs.touched") == ["dev"]
    assert listed(runner.values, "steps.touched.outputs.delivered") == ["dev"]

    runner.values["matrix.stack"] = "dev"

    assert runner.job("pull-request", "report"), runner.log
    body = json.loads(calls_of(checkout.parent)[-1]["input"])["body"]
    assert body.startswith("<!-- llm-platform preview: dev -->\n## Stack `dev` can be deployed\n")
    assert "### Against the base: 0 added, 1 changed, 0 removed" in body
    assert body in (checkout.parent / "summary.md").read_text(encoding="utf-8")
    assert runner.uploads == ["llmp-dev"]

    assert runner.job("pull-request", "preview"), runner.log
    assert runner.uploads[-1] == "pulumi preview acme/llm-platform/dev"


def test_a_pull_request_that_breaks_a_rule_is_red_and_says_so(checkout: Path) -> None:
    """A mandatory finding fails the job, after the comment and the findings were written."""
    edit(checkout / "Pulumi.prod.yaml", "tensorParallel: 4", "tensorParallel: 8")
    commit(checkout, "too many GPUs")
    runner = runner_for(checkout)
    assert runner.job("pull-request", "stacks"), runner.log
    assert listed(runner.values, "steps.touched.outputs.touched") == ["prod"]
    assert listed(runner.values, "steps.touched.outputs.delivered") == []

    runner.values["matrix.stack"] = "prod"

    assert not runner.job("pull-request", "report")
    body = json.loads(calls_of(checkout.parent)[-1]["input"])["body"]
    assert "## Stack `prod` stops `pulumi up`" in body
    assert "Pulumi.prod.yaml:" in body
    assert runner.uploads == ["llmp-prod"]


def test_a_pull_request_with_a_typo_says_its_line(checkout: Path) -> None:
    """A stack file that cannot be read fails the job, and the comment says which line."""
    edit(checkout / "Pulumi.dev.yaml", "maxNumSeqs: 16", "maxNumSeq: 16")
    commit(checkout, "typo")
    runner = runner_for(checkout)
    runner.values["matrix.stack"] = "dev"

    assert not runner.job("pull-request", "report")
    body = json.loads(calls_of(checkout.parent)[-1]["input"])["body"]
    assert "## Stack `dev` cannot be previewed" in body
    assert "models.0.engine.maxNumSeq: is not a setting; did you mean maxNumSeqs?" in body


def test_a_fork_gets_its_report_in_the_summary(checkout: Path) -> None:
    """A fork's job may write nothing: no comment and no upload, but the report in the summary."""
    edit(checkout / "Pulumi.dev.yaml", "maxNumSeqs: 16", "maxNumSeqs: 24")
    commit(checkout, "from a fork")
    runner = runner_for(checkout, fork=True)
    runner.values["matrix.stack"] = "dev"

    assert runner.job("pull-request", "report"), runner.log
    assert calls_of(checkout.parent) == []
    assert runner.uploads == []
    assert "## Stack `dev` can be deployed" in (checkout.parent / "summary.md").read_text(encoding="utf-8")


def test_a_new_stack_has_no_base_to_compare_with(checkout: Path) -> None:
    """A stack that the base does not have is reported without a comparison."""
    (checkout / "Pulumi.lab.yaml").write_text(
        (checkout / "Pulumi.local.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    commit(checkout, "a stack more")
    runner = runner_for(checkout)
    runner.values["matrix.stack"] = "lab"

    assert runner.job("pull-request", "report"), runner.log
    body = json.loads(calls_of(checkout.parent)[-1]["input"])["body"]
    assert body.startswith("<!-- llm-platform preview: lab -->")
    assert "Against the base" not in body


def test_docs_alone_touch_no_stack(checkout: Path) -> None:
    """A change of docs ends after the first job."""
    edit(checkout / "README.md", "# llm-platform", "# The platform")
    commit(checkout, "words")
    runner = runner_for(checkout)

    assert runner.job("pull-request", "stacks"), runner.log
    assert listed(runner.values, "steps.touched.outputs.touched") == []


def test_a_push_updates_the_stacks_of_its_branch(checkout: Path) -> None:
    """A push to main of a change in the library touches every stack and updates dev: rules, preview, then up."""
    before = git(checkout, "rev-parse", "HEAD")
    edit(checkout / "components" / "conventions.py", "\n", "\n\n")
    commit(checkout, "library")
    runner = runner_for(checkout)
    runner.values["github.event.before"] = before

    assert runner.job("push", "stacks"), runner.log
    assert listed(runner.values, "steps.touched.outputs.delivered") == ["dev"]

    runner.values["matrix.stack"] = "dev"

    assert runner.job("push", "update"), runner.log
    assert runner.uploads == ["pulumi preview acme/llm-platform/dev", "pulumi up acme/llm-platform/dev"]


def test_a_push_that_breaks_a_rule_stops_before_credentials(checkout: Path) -> None:
    """An update that a rule refuses ends at the offline preview: no role is taken, Pulumi is not called."""
    edit(checkout / "Pulumi.dev.yaml", "pool: g5\n", "pool: g5\n        tensorParallel: 8\n")
    commit(checkout, "too many GPUs")
    runner = runner_for(checkout)
    runner.values["matrix.stack"] = "dev"

    assert not runner.job("push", "update")
    assert "aws-actions/configure-aws-credentials" not in runner.log
    assert runner.uploads == []


def deployment(checkout: Path, operation: str) -> tuple[list[int], list[str]]:
    """Exit codes of what Pulumi Deployments runs before an operation of dev, and the calls of `pulumi`."""
    tools, calls = checkout.parent / "tools", checkout.parent / "pulumi-calls"
    tools.mkdir(exist_ok=True)
    calls.write_text("", encoding="utf-8")
    for name, text in (("aws", "exit 0"), ("pulumi", f'echo "$@" >> {calls}')):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PULUMI_CI_OPERATION": operation,
    }
    commands = deliver("dev").one("DeploymentSettings")["operationContext"]["preRunCommands"]
    codes = [subprocess.run(["bash", "-c", each], cwd=checkout, env=environment, capture_output=True, timeout=120, check=False).returncode for each in commands]  # fmt: skip
    return codes, calls.read_text(encoding="utf-8").splitlines()


def test_a_deployment_previews_before_it_updates(checkout: Path) -> None:
    """The commands before an update run as they stand, and the last is a preview with the pack."""
    codes, calls = deployment(checkout, "update")

    assert codes == [0, 0, 0, 0]
    assert calls == [
        "preview --non-interactive --stack acme/llm-platform/dev --policy-pack policies --policy-pack-config policies/config.dev.json"
    ]


def test_a_deployment_of_a_broken_stack_fails_before_the_update(checkout: Path) -> None:
    """A stack that breaks a mandatory rule fails in the third command: Pulumi Deployments goes no further."""
    edit(checkout / "Pulumi.dev.yaml", "pool: g5\n", "pool: g5\n        tensorParallel: 8\n")

    assert deployment(checkout, "update")[0][:3] == [0, 0, 1]


def test_a_destroy_is_not_judged(checkout: Path) -> None:
    """What is taken away need not keep the rules: before a destroy only the tools are set up."""
    edit(checkout / "Pulumi.dev.yaml", "pool: g5\n", "pool: g5\n        tensorParallel: 8\n")

    assert deployment(checkout, "destroy") == ([0, 0, 0, 0], [])
