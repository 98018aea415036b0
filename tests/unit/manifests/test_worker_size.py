"""How much of a node a worker takes."""

from components.manifests.worker_size import worker_resources
from tests.unit.manifests.stacks import the_model, the_pool


def test_takes_the_node_but_for_what_others_need() -> None:
    """A worker with all GPUs of a g5.12xlarge leaves 2 CPUs, 10 GiB and the kubelet's part."""
    expected = {"cpu": "45", "memory": "166Gi", "nvidia.com/gpu": "4"}

    assert expected == worker_resources(the_model(), the_pool())["requests"]


def test_limits_equal_requests() -> None:
    """Ray takes its own size from the limits, so they are what the pod really has."""
    resources = worker_resources(the_model(), the_pool())

    assert resources["requests"] == resources["limits"]


def test_a_part_of_the_gpus_takes_that_part_of_the_node() -> None:
    """One of four GPUs brings a quarter of CPU and memory, so that four workers fit."""
    expected = {"cpu": "11", "memory": "41Gi", "nvidia.com/gpu": "1"}

    assert expected == worker_resources(the_model(tensorParallel=1), the_pool())["requests"]


def test_fits_the_smallest_type_of_the_pool() -> None:
    """Karpenter may start any type of the pool, so the worker is as large as the smallest allows."""
    pool = the_pool(instanceTypes=["g5.24xlarge", "g5.12xlarge"])

    assert (
        worker_resources(the_model(), pool)["requests"]
        == worker_resources(the_model(), the_pool())["requests"]
    )


def test_a_larger_type_counts_only_with_the_workers_share() -> None:
    """Half of a g5.48xlarge is larger than a whole g5.12xlarge, which therefore decides."""
    pool = the_pool(instanceTypes=["g5.48xlarge", "g5.12xlarge"])

    assert worker_resources(the_model(), pool)["requests"]["memory"] == "166Gi"


def test_several_nodes_with_efa_take_its_interfaces() -> None:
    """A worker of a model over several nodes asks for the EFA devices, one on a single node does not."""
    pool = the_pool(name="p4d", instanceTypes=["p4d.24xlarge"], efa={"interfaces": 4})
    over_two, on_one = the_model(tensorParallel=8, pipelineParallel=2), the_model(tensorParallel=8)

    assert worker_resources(over_two, pool)["limits"]["vpc.amazonaws.com/efa"] == "4"
    assert "vpc.amazonaws.com/efa" not in worker_resources(on_one, pool)["limits"]


def test_a_node_too_small_still_gives_a_size() -> None:
    """Where the reserve is larger than the node, the size is 1 and a rule, not an exception, refuses the stack."""
    pool = the_pool(instanceTypes=["g5.xlarge"], reserveMemory="64Gi", reserveCpu=8)

    assert worker_resources(the_model(tensorParallel=1), pool)["requests"]["memory"] == "1Gi"
    assert worker_resources(the_model(tensorParallel=1), pool)["requests"]["cpu"] == "1"


def test_a_cpu_model_takes_what_its_settings_say() -> None:
    """Without a pool the size is cpuWorker's."""
    expected = {"cpu": "2", "memory": "8Gi"}

    assert expected == worker_resources(the_model(pool=None), None)["requests"]
