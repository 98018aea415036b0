"""The stand-in's table: whole, true to the SDK's types, and which changes of a stack make new resources."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pulumi_aws
import pulumi_eks
import pytest

from components import pins
from preview.build import Preview, build
from rehearsal.aws import eks_provider, provider, sdk_types
from rehearsal.aws.resources import changed_names, replacing
from rehearsal.aws.row import Row
from rehearsal.aws.table import ROWS, held_types

ROOT = Path(__file__).resolve().parent.parent.parent.parent
STACKS = ("prod", "dev", "multinode", "local")
# What the EKS component makes under the program's feet.
CHILDREN = {
    "aws:eks/cluster:Cluster",
    "aws:eks/accessEntry:AccessEntry",
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
}


@pytest.mark.parametrize("stack", STACKS)
def test_every_type_and_property_of_the_stacks_has_a_row(
    preview_of: Callable[[str], Preview], stack: str
) -> None:
    """Nothing that a stack asks of AWS is unknown to the stand-in."""
    resources = [row for row in preview_of(stack).registrations if row.type.startswith(("aws:", "eks:"))]
    missing = {row.type for row in resources} - set(ROWS) - {eks_provider.CLUSTER}
    unknown = [
        f"{row.name}: {name}"
        for row in resources
        if row.type in ROWS
        for name in row.inputs
        if not ROWS[row.type].knows(name)
    ]

    assert missing == set()
    assert unknown == []


def test_the_component_of_the_stacks_is_made(preview_of: Callable[[str], Preview]) -> None:
    """The stand-in for pulumi-eks refuses no argument of the program, and knows the types of its children."""
    clusters = [
        row.inputs
        for stack in STACKS
        for row in preview_of(stack).registrations
        if row.type == eks_provider.CLUSTER
    ]

    assert len(clusters) == 3
    assert [word for inputs in clusters for word in eks_provider.refused(inputs)] == []
    assert set(ROWS) >= CHILDREN


def test_the_component_refuses_what_it_would_leave_out() -> None:
    """An argument that would make children that are not here is refused in words."""
    words = eks_provider.refused({"name": "x", "fargate": True, "createOidcProvider": True})

    assert "fargate is not in the stand-in for pulumi-eks" in words
    assert "createOidcProvider must be false: the stand-in makes no such children" in words


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_rows_name_only_properties_of_the_sdk(row: Row) -> None:
    """Every property in a row is one of its type in the SDK, and every row says where its replacements come from."""
    inputs, outputs = sdk_types.inputs(row.token), sdk_types.outputs(row.token)
    named = {path.partition(".")[0] for path in row.replaces.split()} | row.taken() | set(row.settings)
    named |= {*row.reads, *row.own.split(), *(row.kept - {"*", "tagsAll"})} | (
        {row.autoname} if row.autoname else set()
    )

    assert named - set(inputs) == set()
    assert set(row.outputs) - set(outputs) == set()
    assert re.fullmatch(r"internal/service/\w+/\w+\.go", row.source)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_every_property_that_is_taken_can_change(row: Row) -> None:
    """A property that a creation takes can be changed later, or makes a new resource: nothing changes unseen."""
    replaced = {path.partition(".")[0] for path in row.replaces.split()}
    stuck = row.taken() - set(row.settings) - replaced - row.kept

    assert stuck <= KNOWN_STUCK.get(row.token, set())


# Changes that the program never makes; the stand-in refuses them in words.
KNOWN_STUCK = {
    "aws:ec2/vpc:Vpc": {"instanceTenancy"},
    "aws:ec2/internetGateway:InternetGateway": {"vpcId"},
    "aws:ec2/routeTableAssociation:RouteTableAssociation": {"routeTableId"},
    "aws:iam/role:Role": {"maxSessionDuration"},
    "aws:elasticache/replicationGroup:ReplicationGroup": {
        "automaticFailoverEnabled",
        "multiAzEnabled",
        "transitEncryptionEnabled",
    },
}


def test_the_sdk_says_the_same_about_replacement() -> None:
    """Where the SDK's own words say that a change makes a new resource, the row says so too."""
    said: list[str] = []
    for token, row in ROWS.items():
        arguments = sdk_types.classes(token)[1]
        replaced = {path.partition(".")[0] for path in row.replaces.split()}
        for attribute, name in _names(arguments).items():
            words = " ".join((getattr(arguments, attribute).__doc__ or "").split()).lower()
            forced = "forces new resource" in words or "forces a new resource" in words
            if forced and name not in replaced and row.knows(name) and (token, name) not in ONLY_FOR_GATEWAYS:
                said.append(f"{token}: {name}")

    assert said == []


# "If the type is anything other than Interface": the program sets it on interface endpoints only.
ONLY_FOR_GATEWAYS = {("aws:ec2/vpcEndpoint:VpcEndpoint", "privateDnsEnabled")}


def _names(arguments: type) -> Mapping[str, str]:
    from pulumi import _types  # noqa: PLC0415

    return _types.input_type_py_to_pulumi_names(arguments)


def test_versions_are_those_of_the_requirements() -> None:
    """The stand-ins call themselves by the versions of the SDKs whose types they check."""
    wanted = (ROOT / "requirements.txt").read_text(encoding="utf-8") + (ROOT / "constraints.txt").read_text(
        encoding="utf-8"
    )

    assert f"{pulumi_aws.__name__.replace('_', '-')}=={provider.VERSION}" in wanted.replace("_", "-")
    assert f"{pulumi_eks.__name__.replace('_', '-')}=={eks_provider.VERSION}" in wanted.replace("_", "-")


def test_what_is_kept_is_what_moto_has_no_api_for() -> None:
    """The output names exactly these as kept by the stand-in."""
    assert held_types() == [
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:eks/addon:Addon",
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        "aws:elasticache/subnetGroup:SubnetGroup",
    ]


def _stack(folder: Path, kubernetes: str) -> Preview:
    text = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    (folder / "Pulumi.dev.yaml").write_text(
        text.replace("name: llm-dev\n", f'name: llm-dev\n        kubernetesVersion: "{kubernetes}"\n')
    )
    (folder / "__main__.py").write_text((ROOT / "__main__.py").read_text(encoding="utf-8"))
    return build("dev", folder)


def test_new_versions_replace_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer Kubernetes, Karpenter and KubeRay: the same URNs, changes, and no new cluster, pool, bucket or role."""
    before = _stack(tmp_path, "1.35")
    for name in ("KARPENTER", "KARPENTER_CRDS", "KUBERAY"):
        monkeypatch.setattr(pins, name, dataclasses.replace(getattr(pins, name), version="9.9.9"))
    after = _stack(tmp_path, "1.36")
    old = {row.urn: row for row in before.registrations}
    new = {row.urn: row for row in after.registrations}
    replaced = [
        f"{urn}: {paths}"
        for urn, row in new.items()
        if row.type in ROWS and (paths := replacing(ROWS[row.type], old[urn].inputs, row.inputs))
    ]
    changed = {row.name for urn, row in new.items() if changed_names(old[urn].inputs, row.inputs)}

    assert set(old) == set(new)
    assert replaced == []
    assert changed >= {
        "cluster-eks",
        "cluster-system",
        "cluster-addon-kube-proxy",
        "karpenter-chart",
        "ray-operator",
    }
    assert replacing(ROWS["aws:eks/cluster:Cluster"], {"version": "1.35"}, {"version": "1.36"}) == []
