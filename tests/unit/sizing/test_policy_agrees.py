"""The simulated queue policy against the one that runs in the cluster."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.sizing.autoscaling import Decision, Scaling, Seen, queue_wanted

FILE = Path(__file__).resolve().parents[3] / "in_cluster" / "scaling_policy.py"


@pytest.fixture
def policy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The policy of the cluster as it is without Ray, with the thresholds of the defaults."""
    monkeypatch.setitem(sys.modules, "ray", None)
    spec = importlib.util.spec_from_file_location("policy_of_the_cluster", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.VllmQueuePolicy(model="m", waiting_per_replica=5, kv_cache_target=0.85)


def test_the_simulation_decides_as_the_policy_in_the_cluster(policy: Any) -> None:
    """Over a thousand random states both want the same number of replicas."""
    rng = random.Random(11)
    scaling = Scaling(target_ongoing_requests=40, waiting_per_replica=5, kv_cache_target=0.85)
    for _ in range(1000):
        running, usage = rng.randint(0, 8), rng.random()
        waiting = rng.choice((0, rng.randint(0, 80)))
        requests = rng.randint(0, 400) + waiting
        target = max(running, rng.randint(0, 8))
        policy.prometheus_metrics = {policy.waiting_query: 0.0, policy.kv_query: usage, policy.age_query: 1.0}
        context = SimpleNamespace(
            current_num_replicas=running,
            target_num_replicas=target,
            total_num_requests=requests,
            total_queued_requests=waiting,
            policy_state={},
            config=SimpleNamespace(get_target_ongoing_requests=lambda: 40),
        )
        assert policy(context)[0] == queue_wanted(scaling, Seen(running, target, requests, waiting, usage))


def test_the_simulation_goes_down_as_the_policy_in_the_cluster(policy: Any) -> None:
    """Through an hour of random load both hold the same wish, by Ray Serve's delay as the simulation has it."""
    rng, state = random.Random(12), {}
    simulated = Decision(Scaling(downscale_delay_s=60), target=1)
    in_cluster = Decision(Scaling(downscale_delay_s=60, hold_largest=False), target=1)
    wishes = 1
    for now in range(0, 3600, 5):
        wishes = rng.randint(1, 8) if rng.random() < 0.05 else wishes
        context = SimpleNamespace(
            current_num_replicas=8,
            target_num_replicas=in_cluster.target,
            total_num_requests=40 * wishes,
            total_queued_requests=0,
            policy_state=state,
            config=SimpleNamespace(get_target_ongoing_requests=lambda: 40),
        )
        wanted, state = policy(context)

        assert simulated.update(now, wishes) == in_cluster.update(now, wanted)
