"""Policy documents of AWS resources: what they allow, and to whom."""

import json
from collections.abc import Iterator, Mapping

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.values import get, items, listed, mappings, text, texts
from guardrails.world import World

IAM_WILDCARD = Rule(
    id="iam-wildcard",
    severity=Severity.ERROR,
    sentence="A policy does not allow every action, or a service's every action on everything.",
    why="A stolen role then owns the account.",
    remedy="name the actions and the resources",
    source="AWS IAM best practices, least privilege",
    framework="AWS FSBP IAM.1, IAM.21",
    reads=(
        "aws:iam/policy:Policy:policy", "aws:iam/rolePolicy:RolePolicy:policy", "aws:s3/bucketPolicy:BucketPolicy:policy",
        "aws:sqs/queuePolicy:QueuePolicy:policy", "aws:iam/role:Role:assumeRolePolicy",
    ),
)  # fmt: skip
POLICY_PUBLIC = Rule(
    id="resource-policy-public",
    severity=Severity.ERROR,
    sentence="A resource's policy allows named principals, or everyone under a condition.",
    why="Principal * without a condition is the whole internet.",
    remedy="name the principals, or add a condition",
    source="AWS IAM best practices",
    framework="AWS FSBP S3.6, SQS.3",
    reads=("aws:s3/bucketPolicy:BucketPolicy:policy", "aws:sqs/queuePolicy:QueuePolicy:policy"),
)
BUCKET_TLS = Rule(
    id="bucket-without-tls-rule",
    severity=Severity.WARN,
    sentence="A bucket's policy refuses requests without TLS.",
    why="A client with an http:// endpoint sends weights in clear text.",
    remedy="deny s3:* where aws:SecureTransport is false",
    source="AWS S3 security best practices",
    framework="AWS FSBP S3.5",
    reads=("aws:s3/bucketPolicy:BucketPolicy:policy",),
)
POLICIES: Mapping[str, str] = {
    "aws:iam/policy:Policy": "policy", "aws:iam/rolePolicy:RolePolicy": "policy", "aws:iam/userPolicy:UserPolicy": "policy",
    "aws:iam/groupPolicy:GroupPolicy": "policy", "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy", "aws:sqs/queue:Queue": "policy", "aws:kms/key:Key": "policy",
    "aws:iam/role:Role": "assumeRolePolicy", "aws:ecr/repositoryPolicy:RepositoryPolicy": "policy",
}  # fmt: skip
RESOURCE_POLICIES = frozenset(
    {"aws:s3/bucketPolicy:BucketPolicy", "aws:sqs/queuePolicy:QueuePolicy", "aws:sqs/queue:Queue",
     "aws:ecr/repositoryPolicy:RepositoryPolicy", "aws:iam/role:Role"}
)  # fmt: skip


# ---------------------------------------------------------------------- policy documents


def _documents(world: World) -> Iterator[tuple[Subject, Path, Mapping[str, object]]]:
    """Policy documents that can be read."""
    for token, key in POLICIES.items():
        for subject in world.typed(token):
            written = subject.get(key)
            body = _json(written) if isinstance(written, str) else written
            if isinstance(body, dict):
                yield subject, (key,), body
    for subject in world.typed("aws:iam/role:Role"):
        for index, inline in mappings(subject.get("inlinePolicies")):
            written = inline.get("policy")
            body = _json(written) if isinstance(written, str) else written
            if isinstance(body, dict):
                yield subject, ("inlinePolicies", index, "policy"), body


def _json(written: str) -> object:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None


def _statements(body: Mapping[str, object]) -> list[dict[str, object]]:
    found = body.get("Statement")
    return [found] if isinstance(found, dict) else [item for item in items(found) if isinstance(item, dict)]


def iam_wildcard(world: World) -> Iterator[Hit]:
    """Statements that allow everything."""
    for subject, path, body in _documents(world):
        if subject.api == "aws:kms/key:Key":
            continue  # a key policy's * is the key itself
        for statement in _statements(body):
            if text(statement.get("Effect")) != "Allow" or "NotAction" in statement:
                continue
            actions, resources = texts(statement.get("Action")), texts(statement.get("Resource"))
            everything = [action for action in actions if action in ("*", "*:*")]
            service = [action for action in actions if action.endswith(":*")]
            if everything:
                yield Hit(subject, path, f"{subject.kind} {subject.name} allows every action")
            elif service and "*" in resources and not statement.get("Condition"):
                yield Hit(
                    subject, path, f"{subject.kind} {subject.name} allows {listed(service)} on every resource"
                )


def _is_everyone(principal: object) -> bool:
    if principal == "*":
        return True
    return isinstance(principal, dict) and any("*" in texts(value) for value in principal.values())


def policy_public(world: World) -> Iterator[Hit]:
    """Policies for everyone."""
    for subject, path, body in _documents(world):
        if subject.api not in RESOURCE_POLICIES:
            continue
        for statement in _statements(body):
            allows = text(statement.get("Effect")) == "Allow"
            if allows and _is_everyone(statement.get("Principal")) and not statement.get("Condition"):
                yield Hit(
                    subject,
                    path,
                    f"{subject.kind} {subject.name} allows {listed(texts(statement.get('Action')))} to everyone",
                )


def _words(value: object) -> list[str]:
    """A condition's values as text: IAM takes false and "false", alone and in a list."""
    return [(text(item) or "").lower() for item in (value if isinstance(value, list) else [value])]


def bucket_tls(world: World) -> Iterator[Hit]:
    """Bucket policies that allow clear text."""
    policies = [
        (subject, path, body)
        for subject, path, body in _documents(world)
        if subject.api == "aws:s3/bucketPolicy:BucketPolicy"
    ]
    for subject, path, body in policies:
        denies = any(
            text(statement.get("Effect")) == "Deny"
            and "false" in _words(get(statement, "Condition", "Bool", "aws:SecureTransport"))
            for statement in _statements(body)
        )
        if not denies:
            yield Hit(subject, path, f"bucket policy {subject.name} does not refuse requests without TLS")


RULES: Table = (
    (IAM_WILDCARD, iam_wildcard),
    (POLICY_PUBLIC, policy_public),
    (BUCKET_TLS, bucket_tls),
)
