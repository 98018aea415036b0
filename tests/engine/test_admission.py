"""Objects are judged by the real API server: what it takes, what it refuses and in which words."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from rehearsal import admission, crd_install
from rehearsal.control_plane import ControlPlane
from rehearsal.crd_install import strip_unknown
from rehearsal.plausible import NoPlausibleValueError, fill
from tools.crds import Collected

UNKNOWN = {"$unknown": True}
SECRET = {"$secret": True}

ROLE = "arn:aws:iam::123456789012:role/stand-in"


def _object(api_version: str, kind: str, namespace: str | None = "serving", **rest: Any) -> dict[str, Any]:
    metadata = {"name": "a", **({"namespace": namespace} if namespace else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _pod_template(restart: str = "Always") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"restartPolicy": restart, "containers": [{"name": "a", "image": "a:1"}]},
    }


SELECTOR = {"matchLabels": {"app": "a"}}
# One valid object of every kind that the stacks hold, cluster-scoped and namespaced.
GOOD = [
    _object("v1", "Namespace", None, metadata={"name": "serving"}),
    _object("v1", "ServiceAccount", metadata={"annotations": {"eks.amazonaws.com/role-arn": UNKNOWN}}),
    _object("v1", "Secret", stringData={"token": SECRET}),
    _object("v1", "ConfigMap", data={"bucket": UNKNOWN}),
    _object("v1", "Service", spec={"selector": {"app": "a"}, "ports": [{"port": 8000}]}),
    _object("apps/v1", "Deployment", spec={"selector": SELECTOR, "template": _pod_template()}),
    _object("apps/v1", "DaemonSet", spec={"selector": SELECTOR, "template": _pod_template()}),
    _object("batch/v1", "Job", spec={"template": _pod_template("Never")}),
    _object(
        "batch/v1",
        "CronJob",
        spec={"schedule": "0 7 * * 1-5", "jobTemplate": {"spec": {"template": _pod_template("Never")}}},
    ),
    _object(
        "v1",
        "PersistentVolume",
        None,
        spec={
            "capacity": {"storage": "1Ti"},
            "accessModes": ["ReadOnlyMany"],
            "csi": {
                "driver": "s3.csi.aws.com",
                "volumeHandle": "a",
                "volumeAttributes": {"bucketName": UNKNOWN},
            },
        },
    ),
    _object(
        "v1",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadOnlyMany"],
            "storageClassName": "",
            "volumeName": "a",
            "resources": {"requests": {"storage": "1Ti"}},
        },
    ),
    _object("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, "policyTypes": ["Ingress"]}),
    _object("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1.0, "selector": SELECTOR}),
    _object("networking.k8s.io/v1", "IngressClass", None, spec={"controller": "ingress.k8s.aws/alb"}),
    _object(
        "networking.k8s.io/v1",
        "Ingress",
        metadata={"annotations": {"alb.ingress.kubernetes.io/certificate-arn": UNKNOWN}},
        spec={"defaultBackend": {"service": {"name": "a", "port": {"number": 8000}}}},
    ),
    _object("scheduling.k8s.io/v1", "PriorityClass", None, value=1000.0),
    _object("storage.k8s.io/v1", "StorageClass", None, provisioner="ebs.csi.aws.com"),
    _object(
        "karpenter.k8s.aws/v1",
        "EC2NodeClass",
        None,
        spec={
            "role": UNKNOWN,
            "amiSelectorTerms": [{"alias": "bottlerocket@1.64.0"}],
            "subnetSelectorTerms": [{"id": UNKNOWN}],
            "securityGroupSelectorTerms": [{"id": UNKNOWN}],
        },
    ),
    _object(
        "karpenter.sh/v1",
        "NodePool",
        None,
        spec={
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                    ],
                }
            }
        },
    ),
    _object(
        "keda.sh/v1alpha1",
        "ScaledObject",
        spec={
            "scaleTargetRef": {"name": "a"},
            "triggers": [{"type": "cron", "metadata": {"start": "0 7 * * *", "desiredReplicas": "1"}}],
        },
    ),
    _object(
        "monitoring.coreos.com/v1", "PodMonitor", spec={"selector": SELECTOR, "podMetricsEndpoints": [{}]}
    ),
    _object("monitoring.coreos.com/v1", "PrometheusRule", spec={"groups": []}),
    _object(
        "ray.io/v1",
        "RayService",
        spec={
            "serveConfigV2": "applications: []",
            "rayClusterConfig": {"headGroupSpec": {"rayStartParams": {}, "template": _pod_template()}},
        },
    ),
    _object("elbv2.k8s.aws/v1beta1", "IngressClassParams", None, spec={"scheme": "internal"}),
]


def _by_kind(kind: str) -> dict[str, Any]:
    return copy.deepcopy(next(manifest for manifest in GOOD if manifest["kind"] == kind))


@pytest.mark.server
def test_every_kind_of_ours_is_accepted(plane: ControlPlane, collected: Collected) -> None:
    """A valid object of each kind that the stacks hold is accepted, unknown leaves filled."""
    verdicts = admission.check(plane.api, GOOD, collected)

    assert admission.refused(verdicts) == []
    assert [row.object for row in verdicts if row.not_checked] == ["IngressClassParams a"]
    filled = {row.object: row.filled for row in verdicts if row.filled}
    assert filled["EC2NodeClass a"] == (
        "spec.role",
        "spec.subnetSelectorTerms[0].id",
        "spec.securityGroupSelectorTerms[0].id",
    )


@pytest.mark.server
@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        ("Deployment", ("spec", "replcas"), 2, ".spec.replcas: field not declared in schema"),
        (
            "NodePool",
            ("spec", "template", "spec", "taint"),
            [],
            ".spec.template.spec.taint: field not declared in schema",
        ),
        ("EC2NodeClass", ("spec", "amiSelectorTerms"), [], "spec.amiSelectorTerms"),
        (
            "RayService",
            ("spec", "rayClusterConfig", "rayVersoin"),
            "2",
            "rayVersoin: field not declared in schema",
        ),
        (
            "PodDisruptionBudget",
            ("spec", "maxUnavailable"),
            1,
            "minAvailable and maxUnavailable cannot be both set",
        ),
        ("StorageClass", ("provisioner",), "", "provisioner: Required value"),
    ],
)
def test_mistakes_are_refused_in_the_servers_words(
    plane: ControlPlane, collected: Collected, kind: str, path: tuple[str, ...], value: Any, words: str
) -> None:
    """One changed field makes the server refuse the object, and the verdict holds what it said."""
    manifest = _by_kind(kind)
    place = manifest
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value

    (verdict,) = admission.check(plane.api, [manifest], collected)

    assert not verdict.accepted
    assert words in verdict.message


@pytest.mark.server
def test_nothing_but_namespaces_is_kept(plane: ControlPlane, collected: Collected) -> None:
    """A dry run leaves no object behind; the namespaces are real."""
    admission.check(plane.api, GOOD, collected)

    assert plane.api.get("/apis/apps/v1/namespaces/serving/deployments/a") is None
    assert plane.api.get("/api/v1/namespaces/serving") is not None


@pytest.mark.server
def test_a_kind_without_crd_is_refused(plane: ControlPlane, collected: Collected) -> None:
    """A kind that the server does not know is refused, unless its group is one of the few named ones."""
    (verdict,) = admission.check(plane.api, [_object("example.com/v1", "Thing")], collected)

    assert verdict.message == 'no matches for kind "Thing" in version "example.com/v1"'


@pytest.mark.server
def test_fields_newer_than_the_crd_are_left_out_and_named(plane: ControlPlane, collected: Collected) -> None:
    """Where KubeRay's CRD is an older one, its unknown fields are not sent, and the verdict lists them."""
    older = Collected(collected.folder, collected.sources, ("older",))
    manifest = _by_kind("RayService")
    manifest["spec"]["rayClusterConfig"]["notYet"] = {"mode": "token"}

    (verdict,) = admission.check(plane.api, [manifest], older)

    assert verdict.accepted
    assert verdict.left_out == ("spec.rayClusterConfig.notYet",)


@pytest.mark.server
def test_crds_are_found_by_manifest(plane: ControlPlane) -> None:
    """The CRD of a custom kind is found on the server; a built-in kind has none."""
    crd = crd_install.find_crd(plane.api, _by_kind("RayService"))

    assert crd is not None
    assert crd["metadata"]["name"] == "rayservices.ray.io"
    assert crd_install.find_crd(plane.api, _by_kind("ConfigMap")) is None


CRD = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "versions": [
            {
                "name": "v1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "known": {"type": "string"},
                                    "list": {
                                        "type": "array",
                                        "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                                    },
                                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "pod": {
                                        "type": "object",
                                        "x-kubernetes-embedded-resource": True,
                                        "properties": {"spec": {"type": "object", "properties": {}}},
                                    },
                                },
                            }
                        },
                    }
                },
            }
        ]
    },
}


def test_strip_unknown_follows_the_schema() -> None:
    """Only fields outside the schema go: lists, maps, free-form and embedded objects are understood."""
    manifest = _object(
        "example.com/v1",
        "Thing",
        spec={
            "known": "x",
            "newer": {"a": 1},
            "list": [{"a": "1"}, {"a": "2", "b": "3"}],
            "map": {"any": "x"},
            "free": {"any": {"deep": 1}},
            "pod": {"metadata": {"labels": {}}, "spec": {"newer": 1}},
        },
    )
    before = copy.deepcopy(manifest)

    kept, dropped = strip_unknown(manifest, CRD)

    assert dropped == ["spec.newer", "spec.list[1].b", "spec.pod.spec.newer"]
    assert kept["spec"]["list"] == [{"a": "1"}, {"a": "2"}]
    assert kept["spec"]["free"] == {"any": {"deep": 1}}
    assert manifest == before


def test_fill_leaves_the_known_alone() -> None:
    """Only marked leaves change, whole floats become integers, and the manifest given is not touched."""
    manifest = _object(
        "v1", "ServiceAccount", metadata={"annotations": {"eks.amazonaws.com/role-arn": UNKNOWN}}, n=2.0
    )
    before = copy.deepcopy(manifest)

    filled, paths = fill(manifest)

    assert filled["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE}
    assert filled["n"] == 2
    assert isinstance(filled["n"], int)
    assert paths == ["metadata.annotations.eks.amazonaws.com/role-arn"]
    assert manifest == before


def test_a_leaf_without_a_row_is_an_error() -> None:
    """An unknown image is not guessed: policies must be able to read it in preview."""
    manifest = _object(
        "apps/v1", "Deployment", spec={"template": {"spec": {"containers": [{"image": UNKNOWN}]}}}
    )

    with pytest.raises(NoPlausibleValueError) as caught:
        fill(manifest)

    assert str(caught.value) == (
        "Deployment spec.template.spec.containers[0].image is not known before the update, and rehearsal/plausible.py "
        "has no value for it. Make it known in preview (policies cannot read what is unknown), or add a row if only "
        "AWS can know it."
    )


def test_crd_names_follow_from_file_names() -> None:
    """The file name of controller-gen gives the object's name."""
    assert crd_install.crd_name(Path("ray.io_rayservices.yaml")) == "rayservices.ray.io"
    assert (
        crd_install.crd_name(Path("karpenter.k8s.aws_ec2nodeclasses.yaml"))
        == "ec2nodeclasses.karpenter.k8s.aws"
    )


@pytest.mark.server
def test_a_loosened_crd_takes_newer_fields(folder: Path, collected: Collected) -> None:
    """An older KubeRay CRD is opened for newer fields, because an engine applies whole objects; known ones stay typed."""
    manifest = {**_by_kind("RayService"), "metadata": {"name": "a", "namespace": "default"}}
    manifest["spec"]["rayClusterConfig"]["notYet"] = {"mode": "token"}
    files = [collected.folder / "ray.io_rayservices.yaml"]
    with ControlPlane(folder) as plane:
        plane.apply_crds(files)
        before = plane.api.dry_run(manifest)
        crd_install.loosen(plane.api)
        after = plane.api.dry_run(manifest)
        manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"] = "text"
        wrong = plane.api.dry_run(manifest)

    assert len(before) == 1
    assert "notYet: field not declared in schema" in before[0]
    assert after == []
    assert len(wrong) == 1
