"""Node software for GPU models."""

from typing import Any

from components.addons import Addons, AddonsArgs
from components.cluster import cluster_for
from tests.components.infra import EXISTING, STACK, Graph, existing, inside, once, registered, settings

EFA_POOL = {
    "name": "p4d", "instanceTypes": ["p4d.24xlarge"], "zones": ["us-west-2a"], "limits": {"gpus": 16}, "efa": {"interfaces": 4},
}  # fmt: skip
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@once
def addons(stack: Any = STACK, **changes: Any) -> Graph:
    """What the add-ons register, with some of the stack's settings changed."""
    wanted = settings(stack, **changes)

    def program() -> None:
        cluster = cluster_for(wanted)
        Addons("addons", AddonsArgs(settings=wanted, cluster=cluster), inside(cluster))

    return registered(program)


def test_gpu_metrics() -> None:
    """The exporter runs on GPU nodes in spite of their taint, and waits for no monitoring."""
    graph = addons()
    values = graph.inputs("addons-dcgm")["values"]

    assert values["tolerations"] == [GPU_TOLERATION]
    assert values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] == {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}]}
        ]
    }
    assert values["serviceMonitor"] == {"enabled": False}
    assert graph.inputs("addons-dcgm")["version"] == "4.8.2"
    assert "cluster-system" in graph.dependencies("addons-dcgm")


def test_efa_plugin_is_for_pools_with_efa() -> None:
    """The plugin runs on the instance types of pools with EFA only, in spite of their taint."""
    graph = addons(gpuPools=[*STACK["gpuPools"], EFA_POOL])
    values = graph.inputs("addons-efa")["values"]

    assert values["tolerations"] == [GPU_TOLERATION]
    assert values["supportedInstanceLabels"] == {
        "keys": ["node.kubernetes.io/instance-type"],
        "values": ["p4d.24xlarge"],
    }
    assert "addons-efa" not in addons()


def test_default_storage_class_is_encrypted() -> None:
    """Volumes that name no class are encrypted gp3 in the zone of their pod."""
    storage_class = addons().inputs("addons-storage-class")

    assert storage_class["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (storage_class["provisioner"], storage_class["parameters"], storage_class["volumeBindingMode"]) == (
        "ebs.csi.aws.com", {"type": "gp3", "encrypted": "true"}, "WaitForFirstConsumer",
    )  # fmt: skip


def test_existing_cluster_keeps_its_own() -> None:
    """Where everything is present nothing is made, and no default storage class is put beside another."""
    assert addons(EXISTING).names(child_of="addons") == []


def test_s3_driver_of_an_existing_cluster() -> None:
    """The driver is installed with a role where the cluster has it not."""
    graph = addons(EXISTING, cluster=existing(s3Csi="install"))
    addon = graph.inputs("addons-addon-aws-mountpoint-s3-csi-driver")

    assert (addon["clusterName"], addon["podIdentityAssociations"][0]["serviceAccount"]) == (
        "theirs",
        "s3-csi-driver-sa",
    )
    assert graph.document("addons-s3-csi", "assumeRolePolicy")["Statement"][0]["Condition"]["StringEquals"][
        "aws:RequestTag/eks-cluster-name"
    ] == "theirs"  # fmt: skip


def test_made_cluster_has_the_s3_driver() -> None:
    """On a cluster made here the driver is the cluster's own, and its role is told on."""
    wanted, roles = settings(), []

    def program() -> None:
        cluster = cluster_for(wanted)
        made = Addons("addons", AddonsArgs(settings=wanted, cluster=cluster), inside(cluster))
        roles.append((made.s3_csi_role, cluster.s3_csi_role))

    graph = registered(program)

    assert roles[0][0] is roles[0][1]
    assert [name for name in graph.names(":Addon") if name.startswith("addons-")] == []


def test_no_gpus_no_exporter() -> None:
    """A stack without GPU pools has no GPU metrics."""
    models = [{
        "name": "tiny", "source": {"kind": "path", "path": "/opt/tiny"}, "architecture": "tiny", "loader": "local",
        "engine": {"maxModelLen": 512},
    }]  # fmt: skip

    assert "addons-dcgm" not in addons(gpuPools=[], models=models)
