"""What the pages on the first stack, deployments and operations tell people to type and to write."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from components import conventions
from components.manifests import drain
from components.settings.places import keys_of, models_in
from delivery.settings import DeliverySettings
from llmp.__main__ import app
from tests.conftest import ROOT
from tests.delivery.offline import deliver

PAGES = [
    "docs/first-stack.md",
    "docs/deployments.md",
    *(f"docs/runbooks/{name}.md" for name in ("destroy", "rollback", "spot-loss", "upgrade")),
]


def code(page: str) -> str:
    """Everything on a page that is set as code, a line each."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))])


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_are_there(page: str) -> None:
    """Each `make` target that a page names is in the Makefile."""
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))

    assert set(re.findall(r"\bmake ([a-z-]+)", code(page))) - there == set()


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_llmp_are_there(page: str) -> None:
    """Each `llmp` command that a page names exists, with the options given."""
    for command, rest in set(re.findall(r"\bllmp ([a-z-]+)([^\n]*)", code(page))):
        done = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})

        assert done.exit_code == 0, command
        assert [option for option in re.findall(r"--[a-z-]+", rest) if option not in done.stdout] == [], (
            command
        )


@pytest.mark.parametrize("page", PAGES)
def test_files_are_there(page: str) -> None:
    """Each file or folder of ours that a page names exists."""
    names = re.findall(
        r"(?<![\w-])((?:docs|delivery|components|preview|policies|in_cluster|\.github)/[\w./<-]*)", code(page)
    )

    assert [name for name in names if "<" not in name and not (ROOT / name.rstrip(".")).exists()] == []


def test_secrets_are_those_of_the_program() -> None:
    """The secrets that the first stack sets are all that there are."""
    keys = re.findall(r"pulumi config set --secret (\S+)", code("docs/first-stack.md"))

    assert sorted(f"llm-platform:{name}" for name in conventions.SECRETS) == sorted(keys)


def test_each_setting_of_the_delivery_is_explained() -> None:
    """The page on deployments has every setting of the top and of the deployments."""
    text = (ROOT / "docs/deployments.md").read_text(encoding="utf-8")
    top = keys_of(DeliverySettings)
    (deployments,) = models_in(DeliverySettings.model_fields["deployments"].annotation)
    below = [f"deployments.{key}" for key in keys_of(deployments)]

    assert [
        key
        for key in (*top, *below)
        if key not in ("deployments", "actions") and f"`{key}`" not in text and f"{key}`" not in text
    ] == []
    assert "`actions.subject`" in text


def test_the_seconds_of_a_drain_are_the_programs() -> None:
    """The table of a spot loss has the graces that the manifests have."""
    text = (ROOT / "docs/runbooks/spot-loss.md").read_text(encoding="utf-8")

    assert (drain.SPOT.graceful_shutdown, drain.SPOT.ray_drain, drain.SPOT.pod_termination) == (80, 95, 110)
    assert [f"| {seconds} s |" in text for seconds in (80, 95, 110)] == [True, True, True]
    assert (
        drain.ON_DEMAND.graceful_shutdown,
        drain.ON_DEMAND.ray_drain,
        drain.ON_DEMAND.pod_termination,
    ) == (540, 560, 590)
    assert "540, 560 and 590 seconds" in text


def test_alerts_are_those_of_the_stack(preview_of) -> None:
    """Each alert that a runbook names is one that the stack has."""
    (rules,) = [
        manifest
        for manifest in preview_of("prod").objects
        if manifest["kind"] == "PrometheusRule" and manifest["metadata"]["name"] == "llm-platform"
    ]
    there = {rule["alert"] for group in rules["spec"]["groups"] for rule in group["rules"]}
    text = (ROOT / "docs/runbooks/spot-loss.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[Aa]lert `(\w+)`|or `(\w+)`;", text))

    assert {name for pair in named for name in pair if name} <= there
    assert "SpotInterruption" in there


def test_outputs_and_variables_are_those_of_the_files() -> None:
    """The page names the outputs of the delivery and the variables of the workflows, all of them."""
    text = (ROOT / "docs/deployments.md").read_text(encoding="utf-8")
    workflows = "".join(
        (ROOT / ".github/workflows" / f"{name}.yaml").read_text(encoding="utf-8")
        for name in ("pull-request", "push")
    )
    variables = set(re.findall(r"vars\.(\w+)", workflows))

    assert variables == {"AWS_OIDC", "AWS_REGION", "AWS_ROLE", "DEPLOY_BY", "PULUMI_ORGANIZATION", "RUNNER"}
    assert [name for name in sorted(variables) if f"`{name}`" not in text] == []
    assert [name for name in deliver("prod").outputs if f"`{name}`" not in text] == []


def test_kubernetes_versions_are_those_accepted() -> None:
    """The runbook names the versions that the settings accept, and the end of support."""
    from components import pins  # noqa: PLC0415 - beside its use

    text = Path(ROOT / "docs/runbooks/upgrade.md").read_text(encoding="utf-8")

    assert [f"`{version}`" in text for version in pins.KUBERNETES_SUPPORTED] == [True] * len(
        pins.KUBERNETES_SUPPORTED
    )
    assert all(day in text for day in pins.KUBERNETES_END_OF_SUPPORT.values())


def test_the_versions_to_have_are_the_pinned_ones() -> None:
    """The first stack asks for the CLI that requirements.txt pins."""
    pinned = re.search(
        r"^pulumi==(\S+)$", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert pinned

    assert f"Pulumi CLI {pinned[1]}" in (ROOT / "docs/first-stack.md").read_text(encoding="utf-8")


def test_the_profile_takes_the_deployers_role() -> None:
    """The profile in the first stack is for the role that the delivery makes."""
    role = deliver("dev").outputs["deployerRole"]

    assert f"role_arn = {role}" in (ROOT / "docs/first-stack.md").read_text(encoding="utf-8")
    assert yaml.safe_load((ROOT / "delivery/Pulumi.dev.yaml").read_text(encoding="utf-8"))["config"][
        "llm-platform-delivery:delivery"
    ]["people"]
