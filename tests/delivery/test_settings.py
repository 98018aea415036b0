"""Mistakes in a delivery stack file, and disagreements with the stack that it delivers: each with its line."""

import json
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pulumi
import pytest
import yaml

from delivery.load import load_delivery
from tests.delivery.offline import KEY, copied, edit


def refusal(folder: Path, stack: str = "dev") -> list[str]:
    """Lines with which the program refuses the files of a folder; the engine hands over what can be read of them."""
    pulumi.runtime.config.set_config(KEY, json.dumps(_given(folder / "delivery" / f"Pulumi.{stack}.yaml")))
    with mock.patch.object(pulumi, "get_stack", return_value=stack), pytest.raises(pulumi.RunError) as error:
        load_delivery(folder)
    return str(error.value).splitlines()


def _given(file: Path) -> object:
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))["config"].get(KEY)
    except (OSError, yaml.YAMLError):
        return None


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    """The stack dev: `delivery` and `platform` are its files, `folder` is where they lie."""
    folder = copied(tmp_path)
    return SimpleNamespace(
        folder=folder, delivery=folder / "delivery/Pulumi.dev.yaml", platform=folder / "Pulumi.dev.yaml"
    )


def test_all_mistakes_are_said_at_once_with_their_lines(files) -> None:
    """A typo, a wrong value and a capital in the organization: three lines, no traceback."""
    edit(files.delivery, "organization: acme", "organization: Acme")
    edit(files.delivery, "previewPullRequests: true", "previewPullRequest: true")
    edit(files.delivery, "destroy: true", 'destroy: "yes"')

    assert refusal(files.folder) == [
        'delivery/Pulumi.dev.yaml:4: organization: "Acme" is not the name of a Pulumi organization in lower case, like acme',
        "delivery/Pulumi.dev.yaml:10: deployments.previewPullRequest: is not a setting; did you mean previewPullRequests?",
        'delivery/Pulumi.dev.yaml:11: deployments.destroy: "yes" is not true or false',
    ]


def test_a_setting_of_another_block_is_sent_home(files) -> None:
    """A key that belongs to the block below is said to belong there."""
    edit(files.delivery, "    branch: main\n", "    branch: main\n    session: 1h\n")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:7: session: is not a setting here; it belongs below deployments"
    ]


def test_a_setting_of_the_top_is_sent_home(files) -> None:
    """A key of the whole delivery that stands in a block is said to belong at the top."""
    edit(files.delivery, "      destroy: true\n", "      destroy: true\n      branch: main\n")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:12: deployments.branch: is not a setting here; it belongs directly below llm-platform-delivery:delivery"
    ]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "branch: main",
            "branch: refs heads",
            '6: branch: "refs heads" is not the name of a branch like main, without refs/heads/',
        ),
        (
            "repository: acme/llm-platform",
            "repository: https://github.com/acme/llm-platform",
            '5: repository: "https://github.com/acme/llm-platform" is not a repository like acme/llm-platform',
        ),
        (
            "identityProviders: create",
            "identityProviders: creates",
            '7: identityProviders: "creates" is not one of create, present; did you mean create?',
        ),
        (
            "{cidrs: [198.51.100.0/24]}",
            "{}",
            "9: deployments.runners: needs exactly one of pool (a pool made here, of runners that you start), poolId (one that is there) and cidrs (networks that the runners come from)",
        ),
        (
            "destroy: true",
            "session: 20h",
            '11: deployments.session: "20h" is not whole hours from 1h to 12h, the longest that AWS gives a role',
        ),
        (
            '"repo:acme@123456/llm-platform@456789"',
            "acme/llm-platform",
            "12: actions.subject: \"acme/llm-platform\" is not the start of GitHub's subject like repo:acme@123456/llm-platform@456789, as the repository's OIDC settings show it",
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_mistake_is_a_sentence(files, old: str, new: str, sentence: str) -> None:
    """Each wrong value is answered with what it is, what is allowed, and its line."""
    edit(files.delivery, old, new)

    assert [f"delivery/Pulumi.dev.yaml:{sentence}"] == refusal(files.folder)


def test_somebody_has_to_run_updates(files) -> None:
    """With neither Pulumi Deployments nor GitHub Actions nobody could update the stack."""
    edit(files.delivery, 'actions: {subject: "repo:acme@123456/llm-platform@456789"}', "actions: null")
    edit(files.delivery, "    deployments:\n", "    deployments: null\n")
    text = files.delivery.read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("      ")]
    files.delivery.write_text("\n".join(kept) + "\n", encoding="utf-8")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:3: needs deployments (Pulumi Deployments), actions (GitHub Actions), or both; nobody could run an update"
    ]


def test_nothing_at_all_names_an_example(files) -> None:
    """An empty stack file is answered with where to look."""
    files.delivery.write_text("config: {}\n", encoding="utf-8")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:1: llm-platform-delivery:delivery: is missing; how the stack is delivered is written below it, see delivery/Pulumi.dev.yaml"
    ]


def test_text_that_is_not_yaml_has_its_line(files) -> None:
    """A bracket that is never closed is one sentence with the line."""
    edit(files.delivery, "{cidrs: [198.51.100.0/24]}", "{cidrs: [198.51.100.0/24}")
    found = refusal(files.folder)

    assert len(found) == 1
    assert found[0].startswith("delivery/Pulumi.dev.yaml:9: ")


def test_runners_from_elsewhere_are_named(files) -> None:
    """A network of runners that the cluster's endpoint does not let in would make every deployment time out."""
    edit(files.delivery, "198.51.100.0/24", "203.0.113.0/28")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:9: deployments.runners.cidrs.0: 203.0.113.0/28 is not among cluster.create.endpointAccess.cidrs of Pulumi.dev.yaml; add it there"
    ]


def test_a_part_of_an_allowed_network_will_do(files) -> None:
    """Runners in a part of a network that the endpoint lets in reach it; the next mistake is the only one."""
    edit(files.delivery, "198.51.100.0/24", "198.51.100.64/26")
    edit(files.delivery, "branch: main", "branch: 7")

    assert refusal(files.folder) == [
        'delivery/Pulumi.dev.yaml:6: branch: 7 is not text; write it in quotes: "7"'
    ]


def test_a_private_endpoint_needs_runners_inside(files) -> None:
    """Runners outside the VPC cannot reach a private endpoint, whatever their network."""
    edit(files.platform, "{public: true, cidrs: [198.51.100.0/24]}", "{public: false}")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:9: deployments.runners.cidrs: cannot reach the API endpoint of llm-dev, which is private in Pulumi.dev.yaml; name a pool of runners inside the VPC, or open the endpoint to these networks there"
    ]


def test_the_deployer_is_not_an_administrator_twice(files) -> None:
    """EKS makes the role that creates the cluster its administrator and refuses to be told again."""
    edit(files.platform, "role/platform-admin", "role/llm-platform-deployer-dev")

    assert refusal(files.folder) == [
        "delivery/Pulumi.dev.yaml:3: makes arn:aws:iam::111122223333:role/llm-platform-deployer-dev, which is among the administrators in Pulumi.dev.yaml; remove it there: EKS makes the role that creates a cluster an administrator and refuses a second entry for it"
    ]


def test_mistakes_in_the_platforms_file_are_said_as_its_own(files) -> None:
    """A stack that cannot be read cannot be delivered; the sentence names the platform's file."""
    edit(files.platform, "natGateways: single", "natGateway: single")

    assert refusal(files.folder) == [
        "Pulumi.dev.yaml:11: network.natGateway: is not a setting; did you mean natGateways?"
    ]


def test_a_stack_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A delivery of a stack that the platform does not have is answered with those it has."""
    copied(tmp_path)

    assert refusal(tmp_path, "staging") == ["Pulumi.staging.yaml: no such stack; there are: dev"]
