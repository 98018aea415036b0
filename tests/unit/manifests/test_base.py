"""Namespaces, priorities, bounds and secrets."""

from components.manifests import base
from tests.unit.manifests.stacks import model, platform


def _level(**changes: object) -> str:
    return base.enforced_level(platform(models=[model(**changes)]))


def test_the_namespace_is_as_strict_as_its_pods_allow() -> None:
    """Baseline, but where a model is cached on nodes (a host path) or debugged (SYS_PTRACE)."""
    assert _level() == "baseline"
    assert _level(loader="nvmeCache") == "privileged"
    assert _level(debug=True) == "privileged"


def test_namespace_says_what_it_enforces() -> None:
    """The label is what the API server reads."""
    labels = base.namespaces(platform())[0]["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["app.kubernetes.io/managed-by"] == "llm-platform"


def test_namespaces_of_present_operators_are_left_alone() -> None:
    """On a cluster that has everything only the stack's own namespace is made."""
    assert [one["metadata"]["name"] for one in base.namespaces(platform())] == ["llm-serving"]


def test_namespaces_of_installed_operators_are_made() -> None:
    """KEDA's only where headroom needs it."""
    operators = {"kuberay": "install", "monitoring": "install", "keda": "install"}
    cluster = {"existing": {"context": "test", "name": "test", "operators": operators}}
    headroom = {"model": "llama", "waitingRequests": 5}

    assert [one["metadata"]["name"] for one in base.namespaces(platform(cluster=cluster))] == [
        "llm-serving", "kuberay-system", "monitoring",
    ]  # fmt: skip
    assert base.namespaces(platform(cluster=cluster, headroom=headroom))[-1]["metadata"]["name"] == "keda"


def test_a_privileged_namespace_is_closed_again() -> None:
    """Of the node, pods get the cache's folder; nothing is made where the level is enough."""
    policy, binding = base.host_path_guard(platform(models=[model(loader="nvmeCache")]))

    assert "'/mnt/.ephemeral/models/'" in policy["spec"]["validations"][0]["expression"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert base.host_path_guard(platform()) == []


def test_headroom_goes_before_serving() -> None:
    """A pause pod has the lowest priority and displaces nobody."""
    serving, headroom = base.priority_classes()

    assert (serving["metadata"]["name"], serving["value"]) == ("llm-serving", 1000)
    assert (headroom["metadata"]["name"], headroom["value"]) == ("llm-headroom", -10)
    assert headroom["preemptionPolicy"] == "Never"
    assert not serving["globalDefault"]
    assert not headroom["globalDefault"]


def test_no_service_opens_a_way_of_its_own() -> None:
    """The stack's one load balancer reaches pods directly."""
    expected = {"services.loadbalancers": "0", "services.nodeports": "0"}

    assert expected == base.resource_quota(platform())["spec"]["hard"]


def test_a_secret_has_the_name_that_pods_read() -> None:
    """KubeRay reads the key auth_token."""
    secret = base.secret("rayAuthToken", "value", platform())

    assert secret["metadata"]["name"] == "ray-auth-token"
    assert secret["stringData"] == {"auth_token": "value"}
