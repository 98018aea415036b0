"""The real engine makes the AWS half of a stack in a moto server, through the stand-in providers.

Kubernetes objects and charts are left out (`aws_half/`), except in one test of a whole stack (`whole/`).
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rehearsal import charts, leftovers, stack_copy
from rehearsal.aws import eks_provider, inventory
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.row import Call
from rehearsal.aws.server import Aws, attached
from rehearsal.control_plane import ControlPlane
from rehearsal.engine import Engine, Result
from rehearsal.errors import EngineError
from rehearsal.parts import CLUSTER
from tests.engine.helpers import ROOT, alive
from tools import crds

pytestmark = pytest.mark.engine

PROGRAM = ROOT / "tests" / "engine" / "aws_half" / "__main__.py"
WHOLE = ROOT / "tests" / "engine" / "whole" / "__main__.py"
ACCOUNT, REGION = "111122223333", "us-west-2"
SECRETS = ("huggingFaceToken", "rayAuthToken", "redisPassword", "endpointKeys")
EMPTY = json.dumps({"apiVersion": "v1", "kind": "Config", "clusters": [], "contexts": [], "users": []})


class Half:
    """The AWS half of one stack, with its own account and engine state."""

    def __init__(self, folder: Path, aws: Aws, stack: str) -> None:
        self.folder, self.aws, self.stack = folder, aws, stack
        self.file = folder / f"Pulumi.{stack}.yaml"
        self.content = yaml.safe_load((ROOT / self.file.name).read_text(encoding="utf-8"))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(EMPTY)
        secrets = {f"llm-platform:{name}": stack_copy.STAND_IN_SECRET for name in SECRETS}
        engine = Engine(PROGRAM, stack, folder / "engine", kubeconfig, stack_file=self.file, secrets=secrets)
        self.engine = attached(engine, aws.endpoint, aws.folder, REGION)
        # What the documented way down asks for first.
        self.settings["deletion"] = {"protect": False, "keepWeights": False}
        self.settings["cluster"]["create"]["deletionProtection"] = False
        self.write()

    @property
    def settings(self) -> dict[str, Any]:
        """The platform's settings."""
        settings: dict[str, Any] = self.content["config"]["llm-platform:platform"]
        return settings

    @property
    def cloud(self) -> Cloud:
        """The account, seen from outside."""
        return self.aws.cloud(REGION)

    def write(self) -> None:
        """Write the changed stack file."""
        self.file.write_text(yaml.safe_dump(self.content))

    def existing(self) -> dict[str, int]:
        """How many of each kind exist."""
        return Counter(kind for kind, _ in inventory.existing(self.cloud))

    def find(self, operation: str, answer: str, **arguments: Any) -> Any:
        """Ask AWS something."""
        return self.cloud.call(Call(operation, arguments, answer), {})


def half(folder: Path, stack: str) -> Iterator[Half]:
    """A stack whose processes are ended whatever the test did."""
    with Aws(folder / "aws", ACCOUNT) as aws:
        yield Half(folder, aws, stack)
    assert alive(str(folder)) == {}


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Half]:
    """The dev stack."""
    yield from half(tmp_path, "dev")


@pytest.fixture(params=["prod", "multinode"])
def other(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Half]:
    """The other stacks that make their cluster."""
    yield from half(tmp_path, request.param)


def pack(folder: Path) -> Path:
    """The policy pack as an executable file, which needs no language host."""
    path = folder / "pack.sh"
    path.write_text(
        f'#!/bin/sh\ncd {ROOT / "policies"} && exec {sys.executable} -u -m pulumi.policy "$1" {ROOT / "policies"}\n'
    )
    path.chmod(0o755)
    return path


def operations(result: Result) -> set[str]:
    """What the engine did, beside leaving things as they are."""
    return {name for name, number in result.changes.items() if number} - {"same"}


def test_dev_up_up_changed_by_hand_refresh_newer_down(dev: Half) -> None:
    """Up; a second up changes nothing; a change by hand is seen and healed; newer Kubernetes replaces nothing; down."""
    dev.settings["cluster"]["create"]["kubernetesVersion"] = "1.35"
    dev.write()
    first, second, refreshed = dev.engine.up(), dev.engine.up(), dev.engine.refresh()
    made = dev.existing()
    assert operations(first) == {"create"}
    assert second.changes == {"same": first.changes["create"]} == refreshed.changes
    assert (made["VPC"], made["subnet"], made["EKS cluster"], made["bucket"], made["role"]) == (1, 4, 1, 1, 9)
    assert made["kept Addon"] == 8

    vpc = dev.find("ec2.describe_vpcs", "Vpcs[?!IsDefault].VpcId | [0]")
    dev.find("ec2.modify_vpc_attribute", "@", VpcId=vpc, EnableDnsHostnames={"Value": False})
    rule = dev.find("events.list_rules", "Rules[0].Name")
    targets = dev.find("events.list_targets_by_rule", "Targets[].Id", Rule=rule)
    dev.find("events.remove_targets", "@", Rule=rule, Ids=targets)
    seen, planned, healed = dev.engine.refresh(), dev.engine.preview(), dev.engine.up()
    assert {name: seen.changes[name] for name in ("update", "delete")} == {"update": 1, "delete": 1}
    assert {name: planned.changes[name] for name in ("update", "create")} == {"update": 1, "create": 1}
    assert operations(healed) == {"update", "create"}
    hostnames = "EnableDnsHostnames.Value"
    assert (
        dev.find("ec2.describe_vpc_attribute", hostnames, VpcId=vpc, Attribute="enableDnsHostnames") is True
    )

    dev.settings["cluster"]["create"]["kubernetesVersion"] = "1.36"
    dev.write()
    newer = dev.engine.up()
    assert operations(newer) == {"update"}
    assert "aws:eks/cluster:Cluster" in {row["type"] for row in newer.steps if row["operation"] == "update"}

    down = dev.engine.destroy()
    assert (operations(down), dev.existing(), len(down.resources)) == ({"delete"}, {}, 0)


@pytest.mark.long
def test_other_stacks_up_up_down(other: Half) -> None:
    """Prod and multinode: up, a second up and a refresh without a change, and nothing left after destroy."""
    first, second, refreshed = other.engine.up(), other.engine.up(), other.engine.refresh()
    down = other.engine.destroy()

    assert operations(first) == {"create"}
    assert second.changes == {"same": first.changes["create"]} == refreshed.changes
    assert (operations(down), other.existing()) == ({"delete"}, {})


@pytest.mark.long
def test_the_whole_dev_stack_with_its_charts(tmp_path: Path, collected: crds.Collected) -> None:
    """With the policy pack: up without a violation, up again without a change, down in an order that leaves nothing."""
    with Aws(tmp_path / "aws", ACCOUNT) as aws, ControlPlane(tmp_path / "plane", parts=CLUSTER) as plane:
        half = Half(tmp_path, aws, "dev")
        folder, used = charts.write(tmp_path / "charts", collected)
        env = {**half.engine.env, charts.FOLDER: str(folder), eks_provider.KUBECONFIG: str(plane.kubeconfig)}
        engine = dataclasses.replace(
            half.engine, program=WHOLE, kubeconfig=plane.kubeconfig, env=env, policy_packs=[pack(tmp_path)]
        )
        first, second = engine.up(), engine.up()
        stubs = [
            item["metadata"]["name"]
            for item in plane.api.items("/api/v1/configmaps", labelSelector=charts.LABEL)
        ]
        down = engine.destroy()
        left = (leftovers.find(plane.api), half.existing())

    assert (operations(first), first.violations) == ({"create"}, [])
    assert second.changes == {"same": first.changes["create"]}
    assert set(stubs) == {f"{name}-stub" for name in used} - {"keda-stub", "aws-efa-k8s-device-plugin-stub"}
    assert (operations(down), left) == ({"delete"}, ([], {}))


def test_another_account_is_refused(dev: Half) -> None:
    """A stack of another account touches nothing, and says which account it found."""
    dev.settings["accountId"] = "999988887777"
    dev.settings["cluster"]["create"]["administrators"] = ["arn:aws:iam::999988887777:role/platform-admin"]
    dev.write()
    with pytest.raises(
        EngineError, match=f"AWS account ID not allowed: {ACCOUNT} \\(allowed: 999988887777\\)"
    ):
        dev.engine.up()

    assert dev.existing() == {}


def with_program(half: Half, token: str, properties: str) -> Engine:
    """The same engine on a program of one resource."""
    program = half.folder / "program" / "__main__.py"
    program.parent.mkdir()
    (program.parent / "Pulumi.yaml").write_text((PROGRAM.parent / "Pulumi.yaml").read_text(encoding="utf-8"))
    program.write_text(
        "import pulumi\n"
        "aws = pulumi.ProviderResource('aws', 'aws', {'region': 'us-west-2'})\n"
        f"pulumi.CustomResource('{token}', 'one', {properties}, pulumi.ResourceOptions(provider=aws))\n"
    )
    return dataclasses.replace(half.engine, program=program)


def test_a_resource_that_is_half_made_is_not_lost(dev: Half) -> None:
    """When a step after the creation fails, the engine knows the resource, and a destroy takes it away."""
    engine = with_program(dev, "aws:ec2/internetGateway:InternetGateway", "{'vpcId': 'vpc-0'}")
    with pytest.raises(EngineError, match=r"InvalidVpcID\.NotFound"):
        engine.up()

    assert dev.existing() == {"internet gateway": 1}
    assert any(urn.endswith("::one") for urn in engine.recorded())
    engine.destroy()
    assert dev.existing() == {}


def test_a_property_that_aws_does_not_have_is_refused(dev: Half) -> None:
    """A misspelt or missing property stops the engine before anything is made, with its name."""
    engine = with_program(dev, "aws:ec2/subnet:Subnet", "{'cidrBlok': '10.0.0.0/24'}")
    with pytest.raises(EngineError) as caught:
        engine.up()

    assert "is no property of Subnet" in str(caught.value)
    assert "vpcId" in str(caught.value)
    assert dev.existing() == {}
