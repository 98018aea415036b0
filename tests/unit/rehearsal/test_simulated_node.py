"""What a simulated kubelet says of a pod."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.simulated_node import pod_status


def pod(labels: dict[str, str]) -> dict[str, Any]:
    """A pod that is not restarted when it ends."""
    return {
        "metadata": {"name": "a", "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "a:1"}]},
    }


@pytest.mark.parametrize(
    ("labels", "phase"),
    [({"batch.kubernetes.io/job-name": "once"}, "Succeeded"), ({"ray.io/node-type": "worker"}, "Running")],
)
def test_only_a_jobs_pod_ends(labels: dict[str, str], phase: str) -> None:
    """KubeRay gives pods of an autoscaled cluster the restart policy Never; they run all the same."""
    assert pod_status(pod(labels), "10.0.0.1")["phase"] == phase
