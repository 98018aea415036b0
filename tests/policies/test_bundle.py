"""The self-contained pack: it starts where there is nothing beside it, and finds what the pack finds."""

from __future__ import annotations

import pytest
from bundle import bundle
from google.protobuf import empty_pb2

from tests.policies.pack import MANDATORY, resource, running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("elsewhere") / "pack"
    bundle(out)
    return out


def test_runs_alone(folder):
    """The bundle starts outside of the repository and enforces its rules."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "engine"},
        "spec": {"containers": [{"name": "vllm", "image": "vllm/vllm-openai"}]},
    }
    with running(folder) as pack:
        info = pack.stub.GetAnalyzerInfo(empty_pb2.Empty())
        found = pack.analyze(resource("kubernetes:core/v1:Pod", "engine", pod))

    assert info.name == "llm-platform"
    assert [item.enforcementLevel for item in found if "image-untagged" in item.message] == [MANDATORY]


def test_needs_no_local_environment(folder):
    """Its project file names an environment of its own, not the repository's."""
    assert "virtualenv: venv" in (folder / "PulumiPolicy.yaml").read_text(encoding="utf-8")


def test_holds_no_component_that_makes_resources(folder):
    """Only facts, settings and sizing come along: none of the modules that need a cloud SDK."""
    names = {path.name for path in (folder / "components").iterdir()}

    assert {"conventions.py", "pins.py", "quantities.py", "facts", "settings", "sizing"} <= names
    assert not names & {"cluster.py", "network.py", "vllm_ray_service.py", "karpenter.py"}
