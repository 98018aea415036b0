"""PodDisruptionBudgets of a model."""

from components.manifests.disruption import disruption_budgets
from components.settings.models import Ingress, Scaling, ServingMode
from tests.unit.manifests.serving_samples import model, platform


def test_one_worker_and_one_ingress_pod_may_go() -> None:
    """Of three workers two stay, of two ingress pods one: whole numbers, by our own labels."""
    worker, ingress = disruption_budgets(model(scaling=Scaling(min_replicas=3)), platform())

    assert worker["metadata"]["name"] == "chat-worker"
    assert worker["spec"] == {
        "minAvailable": 2,
        "selector": {
            "matchLabels": {
                "app.kubernetes.io/instance": "chat",
                "app.kubernetes.io/component": "ray-worker",
            }
        },
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    assert (ingress["metadata"]["name"], ingress["spec"]["minAvailable"]) == ("chat-ingress", 1)


def test_a_single_pod_has_no_budget() -> None:
    """It would allow no eviction, and only delay a drain until its end by force."""
    single = model(scaling=Scaling(min_replicas=1), ingress=Ingress(replicas=1))

    assert disruption_budgets(single, platform()) == []


def test_a_model_at_zero_has_no_budget() -> None:
    """There may be no pod at all."""
    budgets = disruption_budgets(model(scaling=Scaling(min_replicas=0)), platform())

    assert [budget["metadata"]["name"] for budget in budgets] == ["chat-ingress"]


def test_direct_mode_has_no_ingress_pods() -> None:
    """There is nothing to protect."""
    budgets = disruption_budgets(model(serving=ServingMode.DIRECT), platform())

    assert [budget["metadata"]["name"] for budget in budgets] == ["chat-worker"]


def test_a_pipeline_counts_by_replicas() -> None:
    """Only the first pod of a replica is ever Ready, and the others are not free to go."""
    worker, _ = disruption_budgets(model(pipeline_parallel=2, scaling=Scaling(min_replicas=2)), platform())

    assert worker["spec"]["minAvailable"] == 1
    assert worker["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
