"""The simulation: against closed formulas, conservation, determinism, and what each part of it is for."""

from __future__ import annotations

import random
from array import array

import pytest

from components.sizing.autoscaling import Decision, Scaling, Seen, queue_wanted, requests_wanted
from components.sizing.cold_start import ColdStart, Span
from components.sizing.node_model import NodeModel
from components.sizing.price import Dollars
from components.sizing.queueing import mean_stay_processor_sharing, mean_wait_mmc, waiting_quantile
from components.sizing.replica_clock import ReplicaModel
from components.sizing.scenario import run, token_quantiles
from components.sizing.simulation import simulate
from components.sizing.traffic import Day, Requests, all_at_once, synthetic

NOW = Span(0, 0, 0)
START = ColdStart(
    Span(45, 45, 45), Span(23, 23, 23), NOW, Span(30, 30, 30), Span(60, 60, 60), "mountpoint", "streamer", ()
)
ANY_ROOM = 1 << 50


def poisson(rate: float, count: int, mean_tokens: float, seed: int) -> Requests:
    """Random arrivals with exponential lengths, in thousandths of a token so that rounding does not matter."""
    rng = random.Random(seed)
    times, now = array("d"), 0.0
    for _ in range(count):
        now += rng.expovariate(rate)
        times.append(now)
    tokens = array("l", [max(1, round(rng.expovariate(1 / mean_tokens))) for _ in times])
    return Requests(times, array("l", [0] * count), tokens, now)


def fixed(replicas: int, slots: int) -> Scaling:
    """A fixed number of replicas with an unlimited queue."""
    return Scaling(
        min_replicas=replicas, max_replicas=replicas, max_ongoing_requests=slots, max_queued_requests=ANY_ROOM,
        request_timeout_s=1e12,
    )  # fmt: skip


def test_waiting_is_that_of_m_m_c() -> None:
    """Four replicas that take one request at a time, exponential service of a second: Erlang's mean wait, within 2 %."""
    requests = poisson(rate=3.2, count=400_000, mean_tokens=1000, seed=1)
    model = ReplicaModel(itl=[0, 0.001], ttft=[0, 0.0], slots=1, kv_tokens=ANY_ROOM)
    tally = simulate(requests, model, fixed(4, 1), NodeModel(START), seed=1)
    waits = sum(seconds for seconds, _, _ in tally.waited) / len(requests)
    assert waits == pytest.approx(mean_wait_mmc(4, 3.2, 1.0), rel=0.02)


def test_stay_is_that_of_processor_sharing() -> None:
    """One replica whose n requests share one unit of speed, load 0.7: mean stay service / (1 - load), within 2 %."""
    requests = poisson(rate=0.7, count=400_000, mean_tokens=1000, seed=2)
    most = 400
    model = ReplicaModel([0, *(0.001 * n for n in range(1, most + 1))], [0.0] * (most + 1), most, ANY_ROOM)
    tally = simulate(requests, model, fixed(1, most), NodeModel(START), seed=2)
    assert tally.stay_total / tally.completed == pytest.approx(
        mean_stay_processor_sharing(0.7, 1.0), rel=0.02
    )


def test_waiting_quantile_of_fixed_service() -> None:
    """The closed form used for the time to first token, against a simulation of one server with a fixed service."""
    rng = random.Random(3)
    waits, wait = [], 0.0
    for _ in range(200_000):
        waits.append(wait)
        wait = max(0.0, wait + 1.0 - rng.expovariate(0.6))
    waits.sort()
    assert waiting_quantile(0.6, 1.0, 0.99) == pytest.approx(waits[198_000], rel=0.03)


def small_day() -> Requests:
    """Two hours around a peak, about seven thousand requests."""
    return synthetic(Day(rate=1.0, peak_hour=1.0, hours=2.0), seed=5)


MODEL = ReplicaModel(
    itl=[0, *(0.020 + 0.0003 * n for n in range(1, 49))], ttft=[0, *(0.2 + 0.004 * n for n in range(1, 49))], slots=48,
    kv_tokens=400_000,
)  # fmt: skip
SCALING = Scaling(min_replicas=1, max_replicas=6, target_ongoing_requests=20, max_ongoing_requests=32)


def test_the_same_seed_gives_the_same_result() -> None:
    """Runs can be repeated and compared."""
    first, second = (simulate(small_day(), MODEL, SCALING, NodeModel(START), seed=9) for _ in range(2))
    assert (first.completed, first.stay_total, first.events) == (
        second.completed,
        second.stay_total,
        second.events,
    )


@pytest.mark.parametrize("spot", [0.0, 1.0])
def test_no_request_is_forgotten(spot: float) -> None:
    """Every request is answered or lost for a named reason, also when nodes are taken."""
    requests = small_day()
    nodes = NodeModel(START, spot_part=spot, spot_mean_life_h=0.3)
    tally = simulate(requests, MODEL, SCALING, nodes, seed=4)
    assert tally.completed + sum(tally.lost.values()) == len(requests)


def test_a_fixed_fleet_costs_its_replicas_for_the_time() -> None:
    """Two replicas for two hours are four node-hours, and no replica starts or leaves."""
    tally = simulate(small_day(), MODEL, fixed(2, 32), NodeModel(START), seed=1)
    assert round(tally.node_hours["on-demand"], 1) == 4.0
    assert tally.events == []


def test_a_crowd_fills_the_queue_and_the_rest_is_refused() -> None:
    """1,000 users in a second on one replica of 32 slots and a queue of 200: the others get an answer, refused."""
    scaling = Scaling(max_replicas=1, max_ongoing_requests=32, max_queued_requests=200)
    tally = simulate(all_at_once(1_000, 500, 100, seed=1), MODEL, scaling, NodeModel(START), seed=1)
    assert 700 < tally.lost["queue full"] < 768


def test_a_request_that_waits_too_long_is_given_up() -> None:
    """With a timeout of 5 s most of a crowd times out instead of waiting for ever."""
    scaling = Scaling(
        max_replicas=1, max_ongoing_requests=4, max_queued_requests=10_000, request_timeout_s=5.0
    )
    tally = simulate(all_at_once(1_000, 500, 200, seed=1), MODEL, scaling, NodeModel(START), seed=1)
    assert tally.lost["timed out"] > 900


def test_a_warm_node_shortens_waiting() -> None:
    """Headroom saves node and image of a cold start, so the slowest requests wait less."""
    crowd = all_at_once(400, 800, 200, seed=2)
    scaling = Scaling(max_replicas=4, max_ongoing_requests=32, max_queued_requests=1000)
    cold = simulate(crowd, MODEL, scaling, NodeModel(START), seed=1)
    warm = simulate(crowd, MODEL, scaling, NodeModel(START, headroom=2), seed=1)
    assert max(warm.waited)[0] <= max(cold.waited)[0]
    assert warm.events[0][1] == "replica asked for, ready in 90 s"


def test_spot_reclaims_are_retried_or_lost() -> None:
    """Without retry the requests that are cut off are lost, and the reason is said."""
    nodes = NodeModel(START, spot_part=1.0, spot_mean_life_h=0.2, drain_s=1.0, retry=False)
    tally = simulate(small_day(), MODEL, SCALING, nodes, seed=4)
    assert tally.lost["cut by spot reclaim"] > 0


def test_the_cache_limits_what_runs() -> None:
    """A cache of 4,000 tokens holds about three requests of 1,366, whatever the slots."""
    tight = ReplicaModel(MODEL.itl, MODEL.ttft, 48, 4_000)
    tally = simulate(small_day(), tight, fixed(1, 32), NodeModel(START), seed=1)
    assert max(n for n, seconds in enumerate(tally.time_at) if seconds > 1) < 12


def test_a_wish_must_last_before_it_is_followed() -> None:
    """Ray Serve's delays: up after 30 s of wanting, down after 600 s, and a wish that goes away counts from anew."""
    decision = Decision(Scaling(max_replicas=4, upscale_delay_s=30, downscale_delay_s=600), target=2)
    said = [
        decision.update(now, wanted)
        for now, wanted in ((0, 4), (20, 4), (25, 2), (30, 4), (60, 4), (70, 1), (670, 1))
    ]
    assert said == [2, 2, 2, 2, 4, 4, 1]


def test_holding_the_largest_wish_goes_down_less_far() -> None:
    """Wishes of 1, 3 and 1 below 4: after 600 s to 3, which another 600 s of 1 end; Ray Serve itself goes to 1 at once."""
    said = {}
    for hold in (True, False):
        decision = Decision(Scaling(max_replicas=5, hold_largest=hold), target=4)
        said[hold] = [
            decision.update(now, wanted)
            for now, wanted in ((0, 4), (100, 1), (300, 3), (699, 1), (700, 1), (701, 1), (1301, 1))
        ]

    assert said == {True: [4, 4, 4, 4, 3, 3, 1], False: [4, 4, 4, 4, 1, 1, 1]}


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (Seen(running=2, target=2, requests=90, waiting=0, kv_usage=0.1), 3),
        (Seen(running=2, target=2, requests=10, waiting=11, kv_usage=0.1), 3),
        (Seen(running=2, target=2, requests=10, waiting=60, kv_usage=0.1), 4),
        (Seen(running=2, target=2, requests=10, waiting=0, kv_usage=0.95), 3),
        (Seen(running=3, target=3, requests=10, waiting=1, kv_usage=0.1), 3),
        (Seen(running=0, target=0, requests=1, waiting=1, kv_usage=0), 1),
    ],
    ids=["requests", "queue", "at most doubles", "cache", "not down in a queue", "from zero"],
)
def test_the_queue_policy(seen: Seen, wanted: int) -> None:
    """The largest need decides, a queue is never answered with fewer, and replicas at most double."""
    assert queue_wanted(Scaling(), seen) == wanted


def test_ray_serves_own_policy_looks_at_requests_only() -> None:
    """81 requests at a target of 40 want three replicas."""
    assert requests_wanted(Scaling(policy="requests"), Seen(2, 2, 81, 50, 0.99)) == 3


def test_a_day_has_its_mean_rate_and_its_peak() -> None:
    """A synthetic day at 2 requests/s has about 172,800 requests, and 2.4 times the mean in its busiest hour."""
    day = synthetic(Day(rate=2.0, burst_cv=0.0), seed=1)
    busiest = sum(14 * 3600 <= time < 15 * 3600 for time in day.times)
    assert len(day) == pytest.approx(172_800, rel=0.01)
    assert busiest / 7200 == pytest.approx(2.4, rel=0.05)


def test_tokens_are_weighted_by_how_many_were_made() -> None:
    """An hour with one request and an hour with ten: ten elevenths of the tokens are of the second pace."""
    model = ReplicaModel([0, *[0.02] * 9, 0.04], [0.0] * 11, 10, 1)
    tally = simulate(poisson(0.001, 1, 1, 1), model, fixed(1, 10), NodeModel(START), seed=1)
    tally.time_at = [0, 3600.0, *[0] * 8, 3600.0]
    assert token_quantiles(tally, model)["p50"] == 0.04


def test_an_outcome_names_who_was_late_and_why() -> None:
    """A crowd on one replica that may become two waits for a cold start, and the report says so."""
    crowd = all_at_once(300, 800, 200, seed=2)
    scaling = Scaling(max_replicas=2, max_ongoing_requests=16, max_queued_requests=1000)
    outcome = run(crowd, MODEL, scaling, NodeModel(START), Dollars(2.0, 5.0), seed=1, ttft_s=1.0)
    assert "cold start" in outcome.late_why
    assert outcome.attained < 0.2
