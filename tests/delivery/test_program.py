"""The delivery program, previewed offline for dev and prod: what Pulumi Deployments would be told."""

import re
from copy import deepcopy

import pytest
import yaml

from guardrails.core import Severity
from guardrails.run import check
from preview.touched import paths_of
from tests.conftest import ROOT
from tests.delivery.offline import STACKS, deliver, settings


@pytest.fixture(scope="module")
def delivered():
    """Both stacks, previewed once."""
    return {stack: deliver(stack) for stack in STACKS}


def test_dev_follows_main_and_prod_follows_release(delivered) -> None:
    """A push to its branch updates the stack, and no two stacks share a branch: promotion is git."""
    branches = {stack: delivered[stack].one("DeploymentSettings")["sourceContext"]["git"] for stack in STACKS}

    assert branches == {"dev": {"branch": "refs/heads/main"}, "prod": {"branch": "refs/heads/release"}}


@pytest.mark.parametrize("stack", STACKS)
def test_settings_are_of_the_platforms_stack(stack: str, delivered) -> None:
    """The delivery of a stack sets up the stack of the same name in the platform's project."""
    given = delivered[stack].one("DeploymentSettings")

    assert ("acme", "llm-platform", stack) == (given["organization"], given["project"], given["stack"])


@pytest.mark.parametrize("stack", STACKS)
def test_a_push_deploys_when_it_changes_the_stack(stack: str, delivered) -> None:
    """Commits deploy by path: the program, its library and rules, and the stack's own files; no docs, no other stack."""
    github = delivered[stack].one("DeploymentSettings")["github"]

    assert github["deployCommits"] is True
    assert github["repository"] == "acme/llm-platform"
    assert list(paths_of(stack)) == github["paths"]
    assert f"Pulumi.{stack}.yaml" in github["paths"]
    assert "components/**" in github["paths"]
    assert [
        p
        for p in github["paths"]
        if p.startswith("Pulumi.") and p not in ("Pulumi.yaml", f"Pulumi.{stack}.yaml")
    ] == []


def test_pull_requests_are_previewed_by_deployments_in_dev_only(delivered) -> None:
    """A preview runs unreviewed code with the stack's role: in prod that is left to GitHub, behind a reviewer."""
    github = {stack: delivered[stack].one("DeploymentSettings")["github"] for stack in STACKS}

    assert {stack: github[stack]["previewPullRequests"] for stack in STACKS} == {"dev": True, "prod": False}
    assert [github[stack]["pullRequestTemplate"] for stack in STACKS] == [False, False]


@pytest.mark.parametrize("stack", STACKS)
def test_the_order_is_rules_then_preview_then_update(stack: str, delivered) -> None:
    """Before `pulumi up`: tools, environment, offline rules, and a preview that the policy pack can stop."""
    commands = delivered[stack].one("DeploymentSettings")["operationContext"]["preRunCommands"]
    pack = f"--policy-pack policies --policy-pack-config policies/config.{stack}.json"

    assert [
        "command -v aws || { python3 -m venv /opt/aws-cli && /opt/aws-cli/bin/pip install --quiet awscli==1.46.3 && ln -s /opt/aws-cli/bin/aws /usr/local/bin/aws; }",
        "make setup",
        f"case $PULUMI_CI_OPERATION in update|preview) .venv/bin/llmp preview --stack {stack};; esac",
        f"case $PULUMI_CI_OPERATION in update) pulumi preview --non-interactive --stack acme/llm-platform/{stack} {pack};; esac",
    ] == commands


@pytest.mark.parametrize("stack", STACKS)
def test_the_update_itself_has_the_pack_too(stack: str, delivered) -> None:
    """The pack and its config are options of every command of the deployment, and both are in the repository."""
    variables = delivered[stack].one("DeploymentSettings")["operationContext"]["environmentVariables"]

    assert {
        "PULUMI_OPTION_POLICY_PACK": "policies",
        "PULUMI_OPTION_POLICY_PACK_CONFIG": f"policies/config.{stack}.json",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    } == variables
    assert (ROOT / "policies" / "PulumiPolicy.yaml").is_file()
    assert (ROOT / "policies" / f"config.{stack}.json").is_file()


@pytest.mark.parametrize("stack", STACKS)
def test_the_runner_installs_only_what_make_setup_does(stack: str, delivered) -> None:
    """The runner's image is pinned to the CLI of requirements.txt and does not install requirements by itself."""
    given = delivered[stack].one("DeploymentSettings")
    pinned = re.search(
        r"^pulumi==(\S+)$", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert pinned

    assert f"pulumi/pulumi:{pinned[1]}" == given["executorContext"]["executorImage"]
    assert given["operationContext"]["options"]["skipInstallDependencies"] is True


@pytest.mark.parametrize("stack", STACKS)
def test_credentials_are_the_deployers_and_short(stack: str, delivered) -> None:
    """A deployment exchanges its token for the deployer's role; CloudTrail shows stack, operation and number."""
    given = delivered[stack].one("DeploymentSettings")["operationContext"]["oidc"]["aws"]

    assert {
        "roleARN": f"arn:aws:iam::111122223333:role/llm-platform-deployer-{stack}",
        "duration": "2h0m0s",
        "sessionName": "${stack.name}-${deployment.operation}-${deployment.version}",
    } == given
    assert delivered[stack].one("Role", "deployer")["maxSessionDuration"] == 2 * 3600


def test_runners_reach_the_cluster(delivered) -> None:
    """Prod has a pool of own runners, whose token is handed out; dev's come from networks that its endpoint lets in."""
    endpoint = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"][
        "llm-platform:platform"
    ]
    unknown = {"$unknown": True}

    assert unknown == delivered["prod"].one("DeploymentSettings")["agentPoolId"]
    assert delivered["prod"].one("AgentPool")["name"] == "llm-prod"
    assert unknown == delivered["prod"].outputs["poolToken"]
    assert "agentPoolId" not in delivered["dev"].one("DeploymentSettings")
    assert (
        settings("dev")["deployments"]["runners"]["cidrs"]
        == endpoint["cluster"]["create"]["endpointAccess"]["cidrs"]
    )


@pytest.mark.parametrize(("stack", "cron"), [("dev", "0 6 * * *"), ("prod", "0 6 * * 1-5")])
def test_drift_is_looked_for_and_not_undone(stack: str, cron: str, delivered) -> None:
    """Drift is reported on a schedule; a fix by hand is not undone behind people's backs."""
    given = delivered[stack].one("DriftSchedule")

    assert (cron, False, stack) == (given["scheduleCron"], given["autoRemediate"], given["stack"])


def test_identity_providers_are_made_once_in_an_account(delivered) -> None:
    """AWS allows one provider per address: dev makes them, prod in the same account uses them, and both are protected."""
    made = [r for r in delivered["dev"].registrations if r.type.endswith("OpenIdConnectProvider")]

    assert sorted(r.inputs["url"] for r in made) == [
        "https://api.pulumi.com/oidc",
        "https://token.actions.githubusercontent.com",
    ]
    assert sorted(r.inputs["clientIdLists"] for r in made) == [["acme"], ["sts.amazonaws.com"]]
    assert [r.request.protect for r in made] == [True, True]
    assert delivered["prod"].names("OpenIdConnectProvider") == []


def test_only_the_stacks_account_is_touched(delivered) -> None:
    """The AWS provider refuses another account than that of the platform's stack file."""
    provider = next(r.inputs for r in delivered["prod"].registrations if r.type == "pulumi:providers:aws")

    assert (provider["allowedAccountIds"], provider["region"]) == ('["111122223333"]', "us-west-2")


@pytest.mark.parametrize("stack", STACKS)
def test_children_hang_below_components(stack: str, delivered) -> None:
    """Each resource but the provider belongs to a component, and no URN is registered twice."""
    alone = [r.type for r in delivered[stack].registrations if not r.parent]
    urns = [r.urn for r in delivered[stack].registrations]

    assert sorted(alone) == [
        "llm:platform:DeliveryAccess",
        "llm:platform:StackDeployment",
        "pulumi:providers:aws",
    ]
    assert len(set(urns)) == len(urns)


@pytest.mark.parametrize("stack", STACKS)
def test_keeps_our_own_rules(stack: str, delivered) -> None:
    """The rules of the platform find no error in the delivery's roles and policies."""
    resources = [{"type": r.type, "name": r.name, "props": r.inputs} for r in delivered[stack].registrations]

    assert [found for found in check(resources, env=stack) if found.severity is Severity.ERROR] == []


def test_without_deployments_only_access_is_made() -> None:
    """People who update by GitHub Actions get the roles, and no settings of Pulumi Deployments."""
    given = settings("prod")
    del given["deployments"]
    found = deliver("prod", given)

    assert [found.names(kind) for kind in ("DeploymentSettings", "DriftSchedule", "AgentPool")] == [
        [],
        [],
        [],
    ]
    assert found.names("Role") == ["access-deployer", "access-preview"]
    assert [s["Sid"] for s in found.document("Role", "deployer")["Statement"]] == ["GitHubActions", "People"]


def test_without_actions_there_is_no_preview_role() -> None:
    """People who use Pulumi Deployments alone trust GitHub with nothing."""
    given = settings("dev")
    del given["actions"]
    found = deliver("dev", given)

    assert found.names("Role") == ["access-deployer"]
    assert found.names("OpenIdConnectProvider") == ["access-issuer-pulumi"]
    assert "previewRole" not in found.outputs


def test_a_boundary_and_more_policies_are_passed_on() -> None:
    """A permissions boundary caps both roles; a policy for the own state bucket is attached to the deployer."""
    given = deepcopy(settings("dev"))
    given["permissions"] = {
        "boundary": "arn:aws:iam::111122223333:policy/ceiling",
        "policies": ["arn:aws:iam::111122223333:policy/state"],
    }
    found = deliver("dev", given)

    assert [found.one("Role", name)["permissionsBoundary"] for name in ("deployer", "preview")] == [
        "arn:aws:iam::111122223333:policy/ceiling"
    ] * 2
    assert (
        found.one("RolePolicyAttachment", "deployer-state")["policyArn"]
        == "arn:aws:iam::111122223333:policy/state"
    )


def test_pins_equal_the_platforms() -> None:
    """Every requirement is exact, and what the platform pins too is the same version."""
    lines = [
        line
        for line in (ROOT / "delivery/requirements.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    platform = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if line not in platform] == ["pulumi-pulumiservice==1.5.0"]
