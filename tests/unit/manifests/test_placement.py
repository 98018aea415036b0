"""Taints, tolerations and labels, which nodes and pods must agree on."""

from components.manifests.placement import gpu_tolerations, pool_labels, pool_selector
from tests.unit.manifests.stacks import platform, the_pool


def test_gpu_pods_tolerate_any_value_of_the_taint() -> None:
    """Charts and AMIs write the taint with different values."""
    expected = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]

    assert expected == gpu_tolerations()


def test_a_gpu_pool_is_selected_by_workload_name_and_gpu() -> None:
    """Pods ask for what the pool's nodes are labelled with."""
    expected = {
        "llm-platform.dev/workload": "serving-gpu",
        "llm-platform.dev/pool": "g5",
        "llm-platform.dev/accelerator": "a10g",
    }

    assert expected == pool_selector(the_pool())


def test_a_pool_of_two_gpus_has_no_accelerator_label() -> None:
    """A label with one of the two would keep pods off half of the nodes."""
    assert "llm-platform.dev/accelerator" not in pool_selector(
        the_pool(instanceTypes=["g5.xlarge", "g6.xlarge"])
    )


def test_own_labels_do_not_replace_the_platforms() -> None:
    """A label of the user with our key loses, since pods select by ours."""
    labels = pool_labels(the_pool(labels={"team": "a", "llm-platform.dev/pool": "other"}))

    assert labels["team"] == "a"
    assert labels["llm-platform.dev/pool"] == "g5"


def test_the_cpu_pool_is_selected_by_its_workload() -> None:
    """Heads and ingress run on the CPU pool."""
    pool = platform().cpu_pool
    assert pool is not None

    assert pool_selector(pool) == {"llm-platform.dev/workload": "serving-cpu"}
