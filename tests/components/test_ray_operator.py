"""KubeRay."""

from components.ray_operator import RayOperator, RayOperatorArgs
from components.settings.cluster import ImageSettings
from tests.components.infra import registered


def test_installs_the_pinned_chart() -> None:
    """With its CRDs, which Helm makes first; all or nothing."""
    inputs = registered(lambda: RayOperator("ray", RayOperatorArgs())).inputs("ray-operator")

    assert (inputs["chart"], inputs["version"], inputs["namespace"]) == (
        "kuberay-operator",
        "1.7.0",
        "kuberay-system",
    )
    assert inputs["atomic"] is True
    assert inputs["skipCrds"] is False
    assert inputs["values"]["image"] == {"repository": "quay.io/kuberay/operator", "tag": "v1.7.0"}


def test_one_of_two_operators_leads() -> None:
    """The loss of a system node does not stop reconciliation."""
    values = registered(lambda: RayOperator("ray", RayOperatorArgs())).inputs("ray-operator")["values"]

    assert (values["replicas"], values["leaderElectionEnabled"]) == (2, True)


def test_comes_from_the_mirror() -> None:
    """A cluster without internet pulls from its own registry."""
    args = RayOperatorArgs(images=ImageSettings(mirror="registry.example.com/all"))
    values = registered(lambda: RayOperator("ray", args)).inputs("ray-operator")["values"]

    assert values["image"]["repository"] == "registry.example.com/all/kuberay/operator"


def test_leaves_a_present_operator_alone() -> None:
    """Nothing is made on a cluster that has KubeRay."""
    assert registered(lambda: RayOperator("ray", RayOperatorArgs(install=False))).names() == ["ray"]
