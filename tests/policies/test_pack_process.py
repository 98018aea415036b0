"""The policy pack in a process of its own, driven by gRPC as the engine drives it."""

from __future__ import annotations

import json
import time

import pytest
from google.protobuf import empty_pb2

from components.settings import stack_file
from tests.conftest import ROOT
from tests.policies.pack import ADVISORY, MANDATORY, Pack, Resource, resource, running

PROD = json.loads((ROOT / "policies" / "config.prod.json").read_text(encoding="utf-8"))
DEV = json.loads((ROOT / "policies" / "config.dev.json").read_text(encoding="utf-8"))
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.fixture(scope="module")
def pack():
    with running() as started:
        started.configure(PROD)
        yield started


def registered(preview) -> list[Resource]:
    return [
        Resource(item.type, item.name, item.request.object, item.urn, item.parent or "", item.dependencies)
        for item in preview.registrations
    ]


def stack_config(stack: str) -> dict[str, str]:
    file = stack_file.read(ROOT / f"Pulumi.{stack}.yaml")
    return {stack_file.PLATFORM_KEY: json.dumps(file.platform, default=str)}


def pod(**container) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "engine", "namespace": "llm"},
        "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai:v0.33.0", **container}]},
    }


@pytest.mark.parametrize("stack", ["prod", "dev", "multinode", "local"])
def test_our_stacks_pass_in_time(preview_of, stack):
    """From start to verdict on every resource of a stack in 3 s, and no mandatory rule is broken or left undecided."""
    resources = registered(preview_of(stack))
    started = time.monotonic()
    with running(stack_config=stack_config(stack)) as pack:
        pack.configure(DEV if stack == "dev" else PROD)
        found = [diagnostic for item in resources for diagnostic in pack.analyze(item)]
        found += pack.analyze_stack(resources)
    seconds = time.monotonic() - started

    assert [item.message for item in found if item.enforcementLevel == MANDATORY] == []
    assert [item.message for item in found if "can't run policy" in item.message] == []
    undecided = {
        item.message.partition("[")[2].partition("]")[0]
        for item in found
        if "could not be decided" in item.message
    }
    # What an AWS policy document says is known only with the names of what it is about.
    assert undecided <= {"iam-wildcard", "resource-policy-public", "bucket-without-tls-rule"}
    assert seconds < 3


def test_says_whom_it_enforces(pack: Pack):
    """Errors are mandatory and warnings advisory, for single objects and for the stack."""
    info = pack.stub.GetAnalyzerInfo(empty_pb2.Empty())

    assert info.name == "llm-platform"
    assert {policy.name: policy.enforcementLevel for policy in info.policies} == {
        "guardrails-resource": MANDATORY,
        "guardrails-resource-warnings": ADVISORY,
        "guardrails": MANDATORY,
        "guardrails-warnings": ADVISORY,
    }


def test_stops_an_object_before_it_is_made(pack: Pack):
    """A fault of one object is mandatory and named with its place, rule and remedy."""
    found = pack.analyze(resource("kubernetes:core/v1:Pod", "engine", pod(image="vllm/vllm-openai:latest")))

    assert [
        (item.enforcementLevel, item.message) for item in found if item.enforcementLevel == MANDATORY
    ] == [
        (
            MANDATORY,
            "An object can work and breaks no rule.\n"  # noqa: ISC004 - one sentence
            "Pod llm/engine: spec.containers[0].image: container vllm: tag latest of vllm/vllm-openai names no version, "
            "date or content [image-floating]; use a version tag or a digest (@sha256:…)",
        )
    ]


def test_sees_between_objects(pack: Pack):
    """A fault between two objects is found on the stack, with the URN of the object that has it."""
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "limits": {"nvidia.com/gpu": "8"},
            "template": {
                "metadata": {"labels": {"pool": "gpu"}},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                    "taints": [{"key": "team", "value": "research", "effect": "NoSchedule"}],
                    "requirements": [
                        {
                            "key": "node.kubernetes.io/instance-type",
                            "operator": "In",
                            "values": ["g5.2xlarge"],
                        }
                    ],
                },
            },
        },
    }
    engine = pod(resources={"limits": {"nvidia.com/gpu": "1"}})
    engine["spec"]["nodeSelector"] = {"pool": "gpu"}
    given = [
        resource("kubernetes:karpenter.sh/v1:NodePool", "gpu", pool),
        resource("kubernetes:core/v1:Pod", "engine", engine),
    ]
    found = [item for item in pack.analyze_stack(given) if "taint-untolerated" in item.message]

    assert [(item.enforcementLevel, item.urn) for item in found] == [(MANDATORY, given[1].urn)]
    assert (
        "Pod llm/engine: no toleration for taint team=research:NoSchedule of NodePool gpu" in found[0].message
    )


def test_sees_through_chart_values(pack: Pack):
    """A floating image and a token inside Helm values are found."""
    values = {"image": {"repository": "example.com/router", "tag": "latest"}, "hfToken": "hf_" + "a" * 34}
    found = pack.analyze(
        resource(
            "kubernetes:helm.sh/v3:Release",
            "router",
            {"chart": "router", "version": "1.2.3", "values": values},
        )
    )

    rules = {
        item.message.partition("[")[2].partition("]")[0]
        for item in found
        if item.enforcementLevel == MANDATORY
    }
    assert rules == {"image-floating", "secret-in-plain-text"}


def test_says_what_it_could_not_decide(pack: Pack):
    """An unknown value is never taken for a missing one: the rule says what it waits for, and is advisory."""
    found = pack.analyze(resource("kubernetes:core/v1:Pod", "engine", pod(image=UNKNOWN)))

    assert [item for item in found if item.enforcementLevel == MANDATORY] == []
    sentences = [item.message for item in found if "image-floating" in item.message]
    assert len(sentences) == 1
    assert (
        "Pod llm/engine: spec.containers[0].image: could not be decided: spec.containers[0].image is not known"
        in sentences[0]
    )


def test_dev_may_lower_a_rule():
    """A stack's config lowers a rule with a reason, and switches another off."""
    reason = "the image is built on the same day"
    rules = {
        "image-floating": {"severity": "warn", "reason": reason},
        "privileged-engine": {"severity": "off", "reason": reason},
    }
    config = {name: {**entry, "rules": rules} for name, entry in PROD.items()}
    broken = resource(
        "kubernetes:core/v1:Pod",
        "engine",
        pod(image="vllm/vllm-openai:latest", securityContext={"privileged": True}),
    )
    with running() as pack:
        pack.configure(config)
        found = pack.analyze(broken)

    assert [item for item in found if item.enforcementLevel == MANDATORY] == []
    assert any("image-floating" in item.message for item in found)
    assert not any("privileged-engine" in item.message for item in found)


def test_asks_the_settings_again():
    """The stack's settings, which the engine hands over, are checked too."""
    config = stack_config("prod")
    platform = json.loads(config[stack_file.PLATFORM_KEY])
    platform["models"][0]["tensorParallel"] = 64
    with running(stack_config={stack_file.PLATFORM_KEY: json.dumps(platform)}) as pack:
        pack.configure(PROD)
        found = pack.analyze_stack([])

    broken = [item.message for item in found if item.enforcementLevel == MANDATORY]
    assert any("[parallel-exceeds-node]" in message for message in broken)
    assert any(
        "models[0].tensorParallel: tensor parallel size 64 needs 64 GPUs on one node" in message
        for message in broken
    )
