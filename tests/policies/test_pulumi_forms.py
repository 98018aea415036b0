"""A Kubernetes object is judged alike as YAML and as a resource of the Pulumi provider, whatever the SDK writes into it."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2

from guardrails import EngineDefaults, Profile, check
from tests.policies.test_rules import CASES, TODAY, changed

ONE_OBJECT = [case for case in CASES if not {"stack", "intent"} & {*case["with"], *case.get("objects", {})}]


def as_resource(body: Any) -> Any:
    """The resource that makes an object; `apiVersion` and `kind` are left out, numbers are floats."""
    if not (isinstance(body, dict) and "apiVersion" in body and "kind" in body):
        return body
    api, kind = body["apiVersion"], body["kind"]
    props = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    struct = struct_pb2.Struct()
    json_format.ParseDict(props, struct)
    token = f"kubernetes:{api if '/' in api else f'core/{api}'}:{kind}"
    return {"type": token, "name": "resource", "props": json_format.MessageToDict(struct)}


def found(case: dict[str, Any], objects: list[Any]) -> list[tuple[str, str, str]]:
    """Findings of every rule."""
    findings = check(
        objects,
        engine=EngineDefaults(vllm=case.get("engine")),
        profile=Profile.HOUSE,
        env=case.get("env", "prod"),
        today=TODAY,
    )
    return sorted((finding.rule, finding.object, finding.message) for finding in findings)


@pytest.mark.parametrize("case", ONE_OBJECT, ids=lambda case: case.get("id", case["rule"]))
def test_a_resource_is_judged_as_its_object(case):
    """The same findings in both forms."""
    objects = list(changed(case, case["change"]).values())

    assert found(case, [as_resource(item) for item in objects]) == found(case, objects)
