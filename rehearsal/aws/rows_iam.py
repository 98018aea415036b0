"""Roles and policies."""

from __future__ import annotations

from typing import Any

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call, Holder, Row, Tagging, Values

VERSIONS = 5  # IAM keeps no more of one policy
ROLE = {"RoleName": "{id}"}
POLICY = {"PolicyArn": "{id}"}


def _document(cloud: Cloud, values: Values) -> Any:
    call = Call(
        "iam.get_policy_version",
        {**POLICY, "VersionId": values["seen"]["DefaultVersionId"]},
        "PolicyVersion.Document",
    )
    return cloud.call(call, values)


def _other_versions(cloud: Cloud, values: Values) -> list[str]:
    answer = "Versions[?!IsDefaultVersion].VersionId"
    return list(cloud.call(Call("iam.list_policy_versions", POLICY, answer), values))


def _delete_version(cloud: Cloud, values: Values, version: str) -> None:
    cloud.call(Call("iam.delete_policy_version", {**POLICY, "VersionId": version}), values)


def _new_version(cloud: Cloud, values: Values) -> None:
    """Change the document: a new version, and the oldest goes when there are too many."""
    others = _other_versions(cloud, values)
    if len(others) + 1 >= VERSIONS:
        _delete_version(cloud, values, min(others, key=lambda name: int(name.removeprefix("v"))))
    arguments = {**POLICY, "PolicyDocument": "{policy}", "SetAsDefault": True}
    cloud.call(Call("iam.create_policy_version", arguments), values)


def _delete_versions(cloud: Cloud, values: Values) -> None:
    for version in _other_versions(cloud, values):
        _delete_version(cloud, values, version)


PUT_ROLE_POLICY = Call(
    "iam.put_role_policy", {"RoleName": "{role}", "PolicyName": "{name}", "PolicyDocument": "{policy}"}
)

ROWS = (
    Row(
        "aws:iam/role:Role",
        source="internal/service/iam/role.go",
        replaces="name namePrefix path",
        create=Call(
            "iam.create_role",
            {"RoleName": "{name}", "AssumeRolePolicyDocument": "{assumeRolePolicy}"},
            "Role.RoleName",
            takes="description path maxSessionDuration",
        ),
        read=Call("iam.get_role", ROLE, "Role"),
        delete=(Call("iam.delete_role", ROLE),),
        settings={
            "assumeRolePolicy": Call(
                "iam.update_assume_role_policy", {**ROLE, "PolicyDocument": "{assumeRolePolicy}"}
            ),
            "description": Call("iam.update_role", {**ROLE, "Description": "{description}"}),
        },
        reads={"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"},
        outputs={"uniqueId": "RoleId"},
        autoname="name",
        holders=(
            Holder(
                "it has the policies",
                Call("iam.list_attached_role_policies", ROLE, "AttachedPolicies[].PolicyName"),
            ),
            Holder("it has the inline policies", Call("iam.list_role_policies", ROLE, "PolicyNames")),
            Holder(
                "it is in the instance profiles",
                Call("iam.list_instance_profiles_for_role", ROLE, "InstanceProfiles[].InstanceProfileName"),
            ),
        ),
        tagging=Tagging(
            add=Call("iam.tag_role", {**ROLE, "Tags": "{tagsAll}"}),
            remove=Call("iam.untag_role", {**ROLE, "TagKeys": "{tagKeys}"}),
        ),
    ),
    Row(
        "aws:iam/policy:Policy",
        source="internal/service/iam/policy.go",
        replaces="name namePrefix path description",
        create=Call(
            "iam.create_policy",
            {"PolicyName": "{name}", "PolicyDocument": "{policy}"},
            "Policy.Arn",
            takes="description path",
        ),
        read=Call("iam.get_policy", POLICY, "Policy"),
        delete=(_delete_versions, Call("iam.delete_policy", POLICY)),
        settings={"policy": _new_version},
        reads={"name": "PolicyName", "policy": _document},
        autoname="name",
        holders=(
            Holder(
                "it is attached to", Call("iam.list_entities_for_policy", POLICY, "PolicyRoles[].RoleName")
            ),
        ),
        tagging=Tagging(
            add=Call("iam.tag_policy", {**POLICY, "Tags": "{tagsAll}"}),
            remove=Call("iam.untag_policy", {**POLICY, "TagKeys": "{tagKeys}"}),
        ),
    ),
    Row(
        "aws:iam/rolePolicy:RolePolicy",
        source="internal/service/iam/role_policy.go",
        replaces="name namePrefix role",
        create=PUT_ROLE_POLICY,
        read=Call("iam.get_role_policy", {"RoleName": "{role}", "PolicyName": "{name}"}),
        delete=(Call("iam.delete_role_policy", {"RoleName": "{role}", "PolicyName": "{name}"}),),
        identity="{role}:{name}",
        settings={"policy": PUT_ROLE_POLICY},
        reads={"role": "RoleName", "name": "PolicyName", "policy": "PolicyDocument"},
        autoname="name",
    ),
    Row(
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        source="internal/service/iam/role_policy_attachment.go",
        replaces="role policyArn",
        create=Call("iam.attach_role_policy", {"RoleName": "{role}", "PolicyArn": "{policyArn}"}),
        read=Call(
            "iam.list_attached_role_policies",
            {"RoleName": "{role}"},
            "AttachedPolicies[?PolicyArn=='{policyArn}'] | [0]",
        ),
        delete=(Call("iam.detach_role_policy", {"RoleName": "{role}", "PolicyArn": "{policyArn}"}),),
        identity="{role}/{policyArn}",
    ),
)
