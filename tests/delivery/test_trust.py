"""Who may take the roles, and what they may do with them: as plain documents."""

import json
import re
from fnmatch import fnmatchcase

import pytest

from components.settings import stack_file
from delivery.permissions import SERVICES, Place, deployer_policy
from delivery.settings import Deployments
from delivery.trust import operations
from tests.conftest import ROOT
from tests.delivery.offline import STACKS, deliver

# Where the type of a Pulumi resource says its service, and IAM's actions call it otherwise.
ACTIONS_OF = {
    "cloudwatch/eventRule": "events",
    "cloudwatch/eventTarget": "events",
    "cloudwatch/logGroup": "logs",
    "vpc": "ec2",
}
WHOLE = re.compile(r"^[^*?]+$")


@pytest.fixture(scope="module")
def delivered():
    """Both stacks, previewed once."""
    return {stack: deliver(stack) for stack in STACKS}


def statement(document: dict, sid: str) -> dict:
    """The one statement with a sid."""
    (found,) = [each for each in document["Statement"] if each["Sid"] == sid]
    return found


@pytest.mark.parametrize(
    ("stack", "allowed"),
    [
        ("dev", ["update", "refresh", "preview", "destroy", "detect-drift"]),
        ("prod", ["update", "refresh", "detect-drift"]),
    ],
)
def test_deployments_of_one_stack_and_some_operations(stack: str, allowed: list[str], delivered) -> None:
    """The deployer trusts tokens of exactly this stack; in prod neither a preview of a pull request nor a destroy."""
    found = statement(delivered[stack].document("Role", "deployer"), "PulumiDeployments")
    whose = f"pulumi:deploy:org:acme:project:llm-platform:stack:{stack}"

    assert found["Principal"] == {"Federated": "arn:aws:iam::111122223333:oidc-provider/api.pulumi.com/oidc"}
    assert found["Action"] == "sts:AssumeRoleWithWebIdentity"
    assert {
        "StringEquals": {
            "api.pulumi.com/oidc:aud": "acme",
            "api.pulumi.com/oidc:sub": [f"{whose}:operation:{each}:scope:write" for each in allowed],
        }
    } == found["Condition"]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(("role", "environment"), [("deployer", "{}"), ("preview", "{}-preview")])
def test_jobs_of_one_github_environment(stack: str, role: str, environment: str, delivered) -> None:
    """GitHub's tokens fit one repository and one environment: that of updates, or that of previews."""
    found = statement(delivered[stack].document("Role", role), "GitHubActions")

    assert {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": [
                f"repo:acme@123456/llm-platform@456789:environment:{environment.format(stack)}"
            ],
        }
    } == found["Condition"]


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("role", ["deployer", "preview"])
def test_nobody_is_trusted_by_a_wildcard(stack: str, role: str, delivered) -> None:
    """Each web identity is compared whole, audience and subject; people come by named roles."""
    for each in delivered[stack].document("Role", role)["Statement"]:
        if each["Sid"] == "People":
            assert each["Principal"] == {"AWS": ["arn:aws:iam::111122223333:role/platform-admin"]}
            continue
        (comparison,) = each["Condition"].values()

        assert list(each["Condition"]) == ["StringEquals"]
        assert {key.rpartition(":")[2] for key in comparison} == {"aud", "sub"}
        assert all(WHOLE.match(json.dumps(value)) for value in comparison.values())


def test_people_take_the_deployers_role_only(delivered) -> None:
    """The role for previews of pull requests is for jobs alone."""
    assert [s["Sid"] for s in delivered["prod"].document("Role", "preview")["Statement"]] == ["GitHubActions"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ('{"runners": {"poolId": "p"}, "drift": null}', ("update", "refresh")),
        ('{"runners": {"poolId": "p"}, "destroy": true, "drift": null}', ("update", "refresh", "destroy")),
        (
            '{"runners": {"poolId": "p"}, "previewPullRequests": true, "drift": null}',
            ("update", "refresh", "preview"),
        ),
        (
            '{"runners": {"poolId": "p"}, "drift": {"remediate": true}}',
            ("update", "refresh", "detect-drift", "remediate-drift"),
        ),
    ],
)
def test_operations_follow_from_the_settings(given: str, wanted: tuple[str, ...]) -> None:
    """Only what the settings let Deployments do is trusted."""
    assert wanted == operations(Deployments.model_validate_json(given, by_alias=True, by_name=False))


def _policy(stack: str) -> dict:
    platform = stack_file.settings_of(stack_file.read(ROOT / f"Pulumi.{stack}.yaml"))
    return deployer_policy(Place(platform, "111122223333"))


@pytest.mark.parametrize("stack", ["prod", "dev", "multinode"])
def test_every_resource_of_the_stack_can_be_made(stack: str, preview_of) -> None:
    """The deployer may use the service of each AWS resource that the stack registers."""
    services = set()
    for registration in preview_of(stack).registrations:
        package, where, _ = [*registration.type.split(":"), ""][:3]
        if package == "aws":
            services.add(
                ACTIONS_OF.get(where) or ACTIONS_OF.get(where.partition("/")[0]) or where.partition("/")[0]
            )

    assert services - {*SERVICES, "iam", "s3"} == set()


@pytest.mark.parametrize("stack", ["prod", "dev", "multinode"])
@pytest.mark.parametrize("kind", ["role", "policy"])
def test_identities_of_the_stack_are_within_reach(stack: str, kind: str, preview_of) -> None:
    """Each role and policy that the stack registers has a name that the deployer may manage."""
    allowed = statement(_policy(stack), "Identities")["Resource"]
    names = [
        r.inputs.get("name") or f"{r.name}-1a2b3c4"
        for r in preview_of(stack).registrations
        if r.type == f"aws:iam/{kind}:{kind.capitalize()}"
    ]
    outside = [
        name
        for name in names
        if not any(fnmatchcase(f"arn:aws:iam::111122223333:{kind}/{name}", each) for each in allowed)
    ]

    assert names != []
    assert outside == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_deployer_cannot_change_itself(stack: str, delivered) -> None:
    """Its own role, the preview's and the identity providers are out of its reach, also where a name would fit."""
    found = statement(delivered[stack].document("RolePolicy", "deployer-policy"), "NotItself")

    assert (found["Effect"], found["Action"]) == ("Deny", ["iam:*"])
    assert found["Resource"] == [
        "arn:aws:iam::111122223333:role/llm-platform-*",
        "arn:aws:iam::111122223333:oidc-provider/*",
    ]


@pytest.mark.parametrize("stack", STACKS)
def test_the_deployer_is_bounded(stack: str, delivered) -> None:
    """One region, one bucket, roles passed to three services: nothing but looking is allowed everywhere."""
    document = delivered[stack].document("RolePolicy", "deployer-policy")
    wide = [s["Sid"] for s in document["Statement"] if s["Effect"] == "Allow" and s["Resource"] == "*"]

    assert wide == ["Stack", "Look"]
    assert statement(document, "Stack")["Condition"] == {"StringEquals": {"aws:RequestedRegion": "us-west-2"}}
    assert all(
        action.split(":")[1].startswith(("Get", "List", "Describe"))
        for action in statement(document, "Look")["Action"]
    )
    passed = statement(document, "PassElsewhere")
    assert (passed["Effect"], passed["Action"]) == ("Deny", ["iam:PassRole"])
    assert passed["Condition"]["StringNotEquals"]["iam:PassedToService"] == [
        "eks.amazonaws.com",
        "pods.eks.amazonaws.com",
        "ec2.amazonaws.com",
    ]


def test_the_bucket_is_the_one_that_the_settings_name(delivered) -> None:
    """Where the stack names its bucket, the deployer may touch that one; where Pulumi does, those with its prefix."""
    buckets = {
        stack: statement(delivered[stack].document("RolePolicy", "deployer-policy"), "Weights")["Resource"]
        for stack in STACKS
    }

    assert buckets["prod"] == [
        "arn:aws:s3:::llm-prod-weights-111122223333",
        "arn:aws:s3:::llm-prod-weights-111122223333/*",
    ]
    assert buckets["dev"] == ["arn:aws:s3:::storage-bucket-*", "arn:aws:s3:::storage-bucket-*/*"]


@pytest.mark.parametrize("stack", STACKS)
def test_the_preview_only_looks(stack: str, delivered) -> None:
    """A pull request's preview reads how things are set, and no object, log line or secret."""
    document = delivered[stack].document("RolePolicy", "preview-policy")
    actions = [action for each in document["Statement"] for action in each["Action"]]
    verbs = {re.match(r"[A-Z][a-z]+", action.split(":")[1])[0] for action in actions}

    assert verbs == {"Describe", "List", "Get"}
    assert not {"s3:GetObject", "logs:Get*", "logs:GetLogEvents", "secretsmanager:*", "kms:Decrypt"} & set(
        actions
    )
    assert [action for action in actions if action.startswith(("s3:GetObject", "logs:Get", "ec2:Get"))] == []


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("role", ["deployer", "preview"])
def test_documents_fit_and_are_known_at_preview(stack: str, role: str, delivered) -> None:
    """An inline policy has at most 10,240 characters; all documents are plain text, so that rules can read them."""
    policy = delivered[stack].one("RolePolicy", f"{role}-policy")["policy"]

    assert len(re.sub(r"\s", "", policy)) < 10_240
    assert isinstance(delivered[stack].one("Role", role)["assumeRolePolicy"], str)
