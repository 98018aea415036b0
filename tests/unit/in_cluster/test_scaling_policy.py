"""The scaling policy, without Ray: what Ray would give it is put in its place."""

import importlib.util
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[3] / "in_cluster" / "scaling_policy.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scaling_policy_under_test", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The policy's file where there is no Ray."""
    monkeypatch.setitem(sys.modules, "ray", None)
    return _load()


def _policy(
    module: ModuleType, waiting: float | None = None, kv: float | None = None, age: float = 2.0
) -> Any:
    policy = module.VllmQueuePolicy(model="chat", waiting_per_replica=5, kv_cache_target=0.8)
    queries = (policy.waiting_query, policy.kv_query, policy.age_query)
    seen = {
        query: value for query, value in zip(queries, (waiting, kv, age), strict=True) if value is not None
    }
    policy.prometheus_metrics = seen or None
    return policy


def _context(
    running: int = 2,
    target: int | None = None,
    requests: float = 0,
    queued: float = 0,
    state: dict[str, Any] | None = None,
) -> SimpleNamespace:
    config = SimpleNamespace(get_target_ongoing_requests=lambda: 40)
    return SimpleNamespace(
        current_num_replicas=running,
        target_num_replicas=running if target is None else target,
        total_num_requests=requests,
        total_queued_requests=queued,
        policy_state=state or {},
        config=config,
    )


def test_requests_in_flight_decide_without_metrics(module: ModuleType) -> None:
    """Where Prometheus says nothing, replicas are requests over the target for one."""
    policy = _policy(module, waiting=None, kv=None)

    assert policy.wanted(_context(running=2, requests=121)) == 4


def test_metrics_that_are_too_old_count_as_none(module: ModuleType) -> None:
    """A queue of a minute ago starts no replica."""
    policy = _policy(module, waiting=100, kv=0.99, age=60)

    assert policy.wanted(_context(running=2, requests=40)) == 1


def test_one_missing_metric_is_enough_to_fall_back(module: ModuleType) -> None:
    """Half of the numbers is no basis: the queue alone is not used."""
    policy = _policy(module, waiting=100, kv=None)

    assert policy.wanted(_context(running=2, requests=40)) == 1


def test_a_value_that_is_no_number_is_none(module: ModuleType) -> None:
    """PromQL's average of nothing is NaN."""
    policy = _policy(module, waiting=100, kv=float("nan"))

    assert policy.wanted(_context(running=2, requests=40)) == 1


def test_an_age_that_is_no_number_is_none(module: ModuleType) -> None:
    """Numbers of unknown age are not used."""
    policy = _policy(module, waiting=100, kv=0.5, age=float("nan"))

    assert policy.wanted(_context(running=2, requests=40)) == 1


def test_a_short_queue_starts_nothing(module: ModuleType) -> None:
    """Five waiting for each replica are allowed, ten for two."""
    policy = _policy(module, waiting=10, kv=0.1)

    assert policy.wanted(_context(running=2)) == 2


def test_a_queue_one_longer_starts_one(module: ModuleType) -> None:
    """Eleven waiting for two replicas want a third."""
    policy = _policy(module, waiting=11, kv=0.1)

    assert policy.wanted(_context(running=2)) == 3


def test_a_long_queue_doubles_at_most(module: ModuleType) -> None:
    """A hundred waiting would want twenty; two become four, and four may become eight when they serve."""
    policy = _policy(module, waiting=100, kv=0.1)

    assert policy.wanted(_context(running=2)) == 4


def test_replicas_that_still_load_are_counted(module: ModuleType) -> None:
    """While the third and fourth load, the same queue asks for no fifth."""
    policy = _policy(module, waiting=100, kv=0.1)

    assert policy.wanted(_context(running=2, target=4)) == 4


def test_a_full_kv_cache_starts_one(module: ModuleType) -> None:
    """Two replicas at 90 % with a target of 80 % want a third."""
    policy = _policy(module, waiting=0, kv=0.9)

    assert policy.wanted(_context(running=2)) == 3


def test_the_target_itself_starts_nothing(module: ModuleType) -> None:
    """Exactly at the target is where a replica should be; rounding of floats does not add one."""
    policy = _policy(module, waiting=0, kv=0.8)

    assert policy.wanted(_context(running=3)) == 3


def test_goes_down_when_idle(module: ModuleType) -> None:
    """No request, no queue, an empty cache: nothing is wanted, and Serve keeps its least number."""
    policy = _policy(module, waiting=0, kv=0.0)

    assert policy.wanted(_context(running=3)) == 0


def test_goes_down_to_the_largest_wish_of_the_delay(module: ModuleType) -> None:
    """A moment without load at the end of Serve's delay does not undo what the minutes before it needed."""
    policy, state, said = _policy(module, waiting=0, kv=0.1), {}, []
    for requests in (40, 120, 0):
        wanted, state = policy(_context(running=5, requests=requests, state=state))
        said.append(wanted)

    assert said == [1, 3, 3]


def test_a_needed_target_ends_what_was_held(module: ModuleType) -> None:
    """Once all five were needed, the wishes before that count no more."""
    policy, state, said = _policy(module, waiting=0, kv=0.1), {}, []
    for requests in (120, 200, 40):
        wanted, state = policy(_context(running=5, requests=requests, state=state))
        said.append(wanted)

    assert said == [3, 5, 1]


def test_a_changed_target_ends_what_was_held(module: ModuleType) -> None:
    """After a step down the next one counts from there: else the old wish would be repeated for ever."""
    policy = _policy(module, waiting=0, kv=0.1)
    _, state = policy(_context(running=5, requests=120))

    assert policy(_context(running=4, requests=40, state=state)) == (1, {"below": 4, "largest": 1})


def test_a_held_wish_never_goes_above_the_target(module: ModuleType) -> None:
    """Holding is about going down only: over random states the answer is the wish itself, or below the target."""
    rng, state = random.Random(5), {}
    for _ in range(2000):
        policy = _policy(module, waiting=rng.choice((0, 3, 40)), kv=rng.random())
        context = _context(rng.randint(1, 8), rng.randint(1, 8), rng.randint(0, 400), state=state)
        wish = policy.wanted(context)
        wanted, state = policy(context)

        assert wanted == wish if wish >= context.target_num_replicas else wish <= wanted
        assert wanted < context.target_num_replicas or wanted == wish


def test_never_down_while_the_engine_has_a_queue(module: ModuleType) -> None:
    """One waiting request keeps every replica."""
    policy = _policy(module, waiting=1, kv=0.1)

    assert policy.wanted(_context(running=4, requests=10)) == 4


def test_never_down_while_serve_has_a_queue(module: ModuleType) -> None:
    """A request that waits before the engine counts too, also without metrics."""
    policy = _policy(module, waiting=None, kv=None)

    assert policy.wanted(_context(running=4, requests=10, queued=1)) == 4


def test_serves_queue_and_the_engines_add_up(module: ModuleType) -> None:
    """Six before Serve and five in the engine are eleven."""
    policy = _policy(module, waiting=5, kv=0.1)

    assert policy.wanted(_context(running=2, queued=6)) == 3


def test_from_zero_one_request_wants_one_replica(module: ModuleType) -> None:
    """Nothing runs, so there are no metrics; a request is reason enough."""
    policy = _policy(module, waiting=None, kv=None)

    assert policy.wanted(_context(running=0, target=0, requests=1)) == 1


def test_at_zero_nothing_wants_nothing(module: ModuleType) -> None:
    """Without a request a model at zero stays there."""
    policy = _policy(module, waiting=None, kv=None)

    assert policy.wanted(_context(running=0, target=0)) == 0


def test_first_replicas_are_waited_for(module: ModuleType) -> None:
    """While the first replicas load, the target stays."""
    policy = _policy(module, waiting=None, kv=None)

    assert policy.wanted(_context(running=0, target=2)) == 2


def test_queries_name_the_model(module: ModuleType) -> None:
    """The three queries are about this model alone, by the names that vLLM has under Ray."""
    policy = _policy(module)

    assert policy.waiting_query == 'sum(ray_vllm_num_requests_waiting{model_name="chat"})'
    assert policy.kv_query == 'avg(ray_vllm_kv_cache_usage_perc{model_name="chat"})'
    assert policy.age_query == 'time() - max(timestamp(ray_vllm_num_requests_waiting{model_name="chat"}))'


def test_queries_name_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a Ray cluster they are about its own session: during an upgrade the other cluster serves the same model."""
    context = SimpleNamespace(get_session_name=lambda: "session_1")
    fake = ModuleType("ray")
    fake.__dict__.update(is_initialized=lambda: True, get_runtime_context=lambda: context)
    policies = ModuleType("ray.serve.autoscaling_policy")
    policies.__dict__["PrometheusQueryMixin"] = type(
        "PrometheusQueryMixin", (), {"__init__": lambda _, **__: None}
    )
    for name, stub in (
        ("ray", fake),
        ("ray.serve", ModuleType("ray.serve")),
        ("ray.serve.autoscaling_policy", policies),
    ):
        monkeypatch.setitem(sys.modules, name, stub)
    policy = _load().VllmQueuePolicy(model="chat", waiting_per_replica=5, kv_cache_target=0.8)

    assert policy.kv_query == 'avg(ray_vllm_kv_cache_usage_perc{model_name="chat",SessionName="session_1"})'
