"""The scaling policy through time, inside Ray Serve's own code for delays, factors and state."""

import itertools
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.serving

IN_CLUSTER = Path(__file__).resolve().parents[2] / "in_cluster"
LEAST, MOST, DELAY = 1, 3, 20
# Of one replica: requests that it works on at once, and the requests in flight that Serve's fallback aims at.
BATCH, TARGET = 4, 40


class Clock:
    """Serve's clock, moved by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Ray's classes and wrapper, the policy's class, and the clock that the wrapper looks at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, at import
        monkeypatch.syspath_prepend(IN_CLUSTER)
        config = pytest.importorskip(
            "ray.serve.config", reason="ray[serve] is not installed (make setup-dev)"
        )
        policies = import_module("ray.serve.autoscaling_policy")
        clock = Clock()
        monkeypatch.setattr(policies, "time", clock)
        policy = import_module("scaling_policy").VllmQueuePolicy
        yield SimpleNamespace(
            config=config, wrap=policies._apply_autoscaling_config, policy=policy, clock=clock
        )


class Service:
    """A deployment: requests beyond the batches of its replicas wait in vLLM; replicas start at once."""

    def __init__(self, serve: SimpleNamespace, *, least: int = LEAST) -> None:
        self._serve = serve
        self.target, self.state = least, {}
        self.fresh, self.batch = True, BATCH
        self.requests = 0
        self._config = serve.config.AutoscalingConfig(
            min_replicas=least,
            max_replicas=MOST,
            target_ongoing_requests=TARGET,
            upscale_delay_s=0,
            downscale_delay_s=DELAY,
        )
        seen = type("Seen", (serve.policy,), {"prometheus_metrics": property(lambda _: self.metrics())})
        self._policy = seen(model="m", waiting_per_replica=5, kv_cache_target=0.85)
        self._decide = serve.wrap(self._policy)

    @property
    def waiting(self) -> int:
        """Requests in vLLM's queues."""
        return max(0, self.requests - self.batch * self.target)

    def metrics(self) -> dict[str, float] | None:
        """What Prometheus says: nothing of use once it is gone."""
        policy = self._policy
        values = {policy.waiting_query: float(self.waiting), policy.kv_query: 0.1 * bool(self.requests)}
        return {**values, policy.age_query: 2.0 if self.fresh else 90.0}

    def run(self, seconds: int, requests: Callable[[int], int]) -> list[tuple[int, int]]:
        """(target, waiting) of each second, decided ten times a second as Serve does."""
        seen = []
        for second in range(seconds):
            self.requests = requests(second)
            for _ in range(10):
                self._serve.clock.now += 0.1
                self._step()
            seen.append((self.target, self.waiting))
        return seen

    def _step(self) -> None:
        context = self._serve.config.AutoscalingContext(
            deployment_id=None,
            deployment_name="m",
            app_name="m",
            current_num_replicas=self.target,
            target_num_replicas=self.target,
            running_replicas=[],
            total_num_requests=float(self.requests),
            total_queued_requests=0.0,
            aggregated_metrics=None,
            raw_metrics=None,
            capacity_adjusted_min_replicas=self._config.min_replicas,
            capacity_adjusted_max_replicas=MOST,
            policy_state=self.state,
            last_scale_up_time=None,
            last_scale_down_time=None,
            current_time=self._serve.clock.now,
            config=self._config,
        )
        wanted, self.state = self._decide(context)
        self.target = min(MOST, max(self._config.min_replicas, wanted))  # Serve's bounds


def turns(seen: list[tuple[int, int]]) -> int:
    """How often the target turned from up to down or back."""
    steps = [b - a for (a, _), (b, _) in itertools.pairwise(seen) if a != b]
    return sum((a > 0) != (b > 0) for a, b in itertools.pairwise(steps))


def test_up_under_a_queue_and_down_after_it(serve: SimpleNamespace) -> None:
    """1 to 3 by vLLM's queue, though 30 requests are below Serve's own target of 40; 1 again after the delay, once."""
    service = Service(serve)
    up = service.run(30, lambda _: 30)
    down = service.run(DELAY + 30, lambda _: 0)

    assert up[-1][0] == MOST
    assert [target for target, _ in down[: DELAY - 1]] == [MOST] * (DELAY - 1)
    assert down[-1][0] == LEAST
    assert turns([(LEAST, 0), *up, *down]) == 1


def test_square_wave_does_not_flap(serve: SimpleNamespace) -> None:
    """A load that comes and goes faster than the delay is one way up."""
    service = Service(serve)
    seen = service.run(240, lambda second: 30 if second % 20 < 12 else 0)

    assert max(target for target, _ in seen) == MOST
    assert turns(seen) == 0


def test_a_pause_at_the_end_of_the_delay_undoes_nothing(serve: SimpleNamespace) -> None:
    """Load for two replicas, and none for three seconds when the delay ends: down to two, where Ray alone goes to one."""
    service = Service(serve)
    service.run(10, lambda _: 30)
    service.batch = 2 * TARGET  # nothing waits any more
    seen = service.run(DELAY + 20, lambda second: 0 if DELAY - 2 <= second <= DELAY else TARGET + 1)

    assert [target for target, _ in seen][-1] == 2
    assert {target for target, _ in seen} == {2, MOST}


def test_never_down_while_requests_wait(serve: SimpleNamespace) -> None:
    """Thirteen requests keep one waiting before three batches of four: three replicas stay for as long as it does."""
    service = Service(serve)
    service.run(20, lambda _: 30)
    seen = service.run(5 * DELAY, lambda _: BATCH * MOST + 1)

    assert set(seen) == {(MOST, 1)}


def test_stale_metrics_fall_back_to_requests(serve: SimpleNamespace) -> None:
    """Without fresh numbers a queue starts nothing, and requests over Serve's target do."""
    service = Service(serve)
    service.fresh = False

    assert service.run(20, lambda _: 30)[-1][0] == LEAST
    assert service.run(20, lambda _: TARGET + 1)[-1][0] == 2


def test_from_zero_the_first_request_starts_one(serve: SimpleNamespace) -> None:
    """At zero there are no metrics; nothing happens without a request, and at once with one."""
    service = Service(serve, least=0)

    assert service.run(10, lambda _: 0)[-1][0] == 0
    assert service.run(1, lambda _: 1)[-1][0] == 1
    assert service.run(DELAY + 2, lambda _: 0)[-1][0] == 0
