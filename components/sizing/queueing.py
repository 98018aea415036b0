"""Queueing formulas: what a random arrival waits. Closed forms, checked against the simulation in tests."""

from __future__ import annotations

import math

_EXACT_SERVICES = 10  # beyond so many services the alternating series below loses its digits


def waiting_quantile(rate: float, service: float, part: float) -> float:
    """Quantile of the waiting time before one server with a fixed service time and random arrivals (M/D/1).

    Exact (Crommelin 1932) for waits up to ten services, exponential tail beyond; infinite at or above full load.
    """
    busy = rate * service
    if busy >= 1:
        return math.inf
    if 1 - busy >= part:
        return 0.0
    low, high = 0.0, _EXACT_SERVICES * service
    if waiting_probability(rate, service, high) < part:
        return _tail(busy, service, part)
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if waiting_probability(rate, service, middle) < part else (low, middle)
    return high


def waiting_probability(rate: float, service: float, wait: float) -> float:
    """Probability of waiting at most `wait` in M/D/1."""
    total = 0.0
    for k in range(int(wait / service) + 1):
        x = rate * (k * service - wait)
        total += x**k / math.factorial(k) * math.exp(-x)
    return (1 - rate * service) * total


def _tail(busy: float, service: float, part: float) -> float:
    """Exponential tail that the mean wait busy * service / (2 (1 - busy)) gives."""
    return max(0.0, math.log(busy / (1 - part))) * service / (2 * (1 - busy))


def erlang_c(servers: int, offered: float) -> float:
    """Probability of waiting in M/M/c with an offered load of `offered` (rate times service), below `servers`."""
    term, total = 1.0, 1.0
    for k in range(1, servers):
        term *= offered / k
        total += term
    last = term * offered / servers * servers / (servers - offered)
    return last / (total + last)


def mean_wait_mmc(servers: int, rate: float, service: float) -> float:
    """Mean wait in M/M/c."""
    offered = rate * service
    return erlang_c(servers, offered) * service / (servers - offered)


def mean_stay_processor_sharing(rate: float, service: float) -> float:
    """Mean time in M/G/1 with processor sharing: service / (1 - load), whatever the distribution."""
    return service / (1 - rate * service)
