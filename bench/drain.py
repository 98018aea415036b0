"""`python -m bench.drain`: what happens to streams in flight when a part of a running stack is lost or changed.

Each case starts a cluster of its own, sends streams through `vllm bench serve`, does its harm in the middle of them and
counts: sent, finished, cut (it had begun to answer), refused (it had not), and seconds to full service.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.load import Endpoint, LoadError, Workload, bench_serve, random_lengths
from bench.local.cluster import Cluster, Node
from bench.local.ray import LocalError
from bench.stacks import local_model, local_settings, objects_of
from components.manifests.drain import ON_DEMAND, SPOT
from components.settings.models import Drain

# A long context, so that a stream can last; the tiny model has 2,048 positions.
CONTEXT, PROMPT_TOKENS = 2048, 16


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of harm. `drain` is the trio that the model's pods get."""

    name: str
    words: str
    harm: Callable[[Cluster, Case], float | None]
    mode: str = "direct"
    drain: Drain = SPOT
    replicas: int = 2
    redis: bool = False


@dataclass(kw_only=True)
class Outcome:
    """What became of the streams."""

    case: str
    sent: int = 0
    finished: int = 0
    cut: int = 0
    refused: int = 0
    seconds_to_full_service: float | None = None
    stream_seconds: float = 0.0  # median of the finished ones
    left_after: float | None = None  # seconds that the lost part took to go
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """How many streams, how long, and over which time they begin."""

    count: int
    tokens: int
    spread: float


def objects_for(case: Case, redis: str | None = None) -> list[dict[str, Any]]:
    """The local stack's model with the case's trio and number of replicas."""
    limits = {"min_replicas": case.replicas, "max_replicas": case.replicas, "max_ongoing_requests": 250}
    model = local_model(
        case.mode,
        scaling={**limits, "target_ongoing_requests": 200, "max_queued_requests": 400},
        engine={"max_model_len": CONTEXT, "max_num_seqs": 128},
    ).model_copy(update={"drain": case.drain})
    del redis
    return objects_of(model, local_settings())


def play(case: Case, home: Path, streams: Streams) -> Outcome:
    """Run one case."""
    outcome = Outcome(case=case.name)
    with contextlib.ExitStack() as stack:
        variables = stack.enter_context(_redis(case.redis))
        cluster = stack.enter_context(Cluster(objects_for(case), home, variables=variables, say=_say))
        for group in cluster.groups:
            for _ in range(case.replicas if group != "ingress" else 1):
                cluster.add(group)
        cluster.deploy(wait=False)
        _say(f"{case.name}: whole after {cluster.wait_until_whole(case.replicas):.0f} s")
        doors = _doors(cluster)
        runs = [_Run(home, door.url, streams, seed) for seed, door in enumerate(doors)]
        time.sleep(streams.spread)
        harmed = time.monotonic()
        outcome.left_after = case.harm(cluster, case)
        with contextlib.suppress(LocalError):
            cluster.wait_until_whole(case.replicas)
            outcome.seconds_to_full_service = time.monotonic() - harmed
        _count([run.result() for run in runs], outcome)
    return outcome


def _doors(cluster: Cluster) -> list[Node]:
    """Where the load balancer would send: the CPU ingress pods where there are any, else every engine pod."""
    ingress = [node for node in cluster.nodes.values() if node.name.startswith("ingress")]
    return ingress or list(cluster.nodes.values())


class _Run:
    """One `vllm bench serve` against one door, in a thread."""

    def __init__(self, home: Path, url: str, streams: Streams, seed: int) -> None:
        endpoint = Endpoint(url=url, model="tiny", tokenizer=home / "tiny")
        workload = Workload(
            name="long streams",
            requests=streams.count,
            concurrency=None,
            rate=streams.count / streams.spread,
            dataset=random_lengths(PROMPT_TOKENS, streams.tokens),
            warmups=0,
            seed=seed,
        )
        self._figures: Mapping[str, Any] = {}
        self._error = ""
        self._thread = threading.Thread(
            target=self._run, args=(home / "bin" / "vllm", endpoint, workload), daemon=True
        )
        self._thread.start()

    def _run(self, vllm: Path, endpoint: Endpoint, workload: Workload) -> None:
        try:
            self._figures = bench_serve(vllm, endpoint, workload)
        except LoadError as error:
            self._error = str(error)

    def result(self) -> Mapping[str, Any]:
        self._thread.join()
        if self._error:
            _say(f"load: {self._error}")
        return self._figures


def _count(results: Sequence[Mapping[str, Any]], outcome: Outcome) -> None:
    lengths = []
    for figures in results:
        rows = zip(figures.get("errors", ()), figures.get("ttfts", ()), figures.get("itls", ()), strict=False)
        for error, ttft, itls in rows:
            outcome.sent += 1
            if not error:
                outcome.finished += 1
                lengths.append(ttft + sum(itls))
            elif ttft or itls:
                outcome.cut += 1
            else:
                outcome.refused += 1
            if error:
                kind = str(error).strip().splitlines()[-1][:100]
                outcome.errors[kind] = outcome.errors.get(kind, 0) + 1
    outcome.stream_seconds = sorted(lengths)[len(lengths) // 2] if lengths else 0.0


@contextlib.contextmanager
def _redis(wanted: bool) -> Any:  # noqa: FBT001 - a case's own switch
    """A Redis on loopback, as Ray's fault tolerance wants it, or nothing."""
    if not wanted:
        yield {}
        return
    from bench.local.ray import free_ports  # noqa: PLC0415

    port = free_ports(1)[0]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield {
            "RAY_REDIS_ADDRESS": f"127.0.0.1:{port}",
            "RAY_external_storage_namespace": "drain",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # KubeRay injects it with fault tolerance
        }
    finally:
        process.terminate()
        process.wait()


# ---- the harm ----


def _engine_node(cluster: Cluster) -> Node:
    return next(node for node in cluster.nodes.values() if not node.name.startswith("ingress"))


def lose_node(cluster: Cluster, case: Case) -> float:
    """SIGTERM as the kubelet sends it; the replacement joins at once, as a warm node would."""
    node = _engine_node(cluster)
    finish = cluster.end_as_kubelet(node, float(case.drain.pod_termination))
    cluster.add(node.name.rpartition("-")[0])
    return finish()


def kill_node(cluster: Cluster, case: Case) -> float:
    """The machine is gone without notice."""
    del case
    node = _engine_node(cluster)
    cluster.kill(node)
    cluster.add(node.name.rpartition("-")[0])
    return 0.0


def kill_replica(cluster: Cluster, case: Case) -> float:
    """SIGKILL to one replica's process."""
    del case
    os.kill(cluster.replica_pids()[0], signal.SIGKILL)
    return 0.0


def lose_head(cluster: Cluster, case: Case) -> float:
    """The head dies; its successor starts at the same address, as the Service's name would lead to it."""
    del case
    port = cluster.head.ports.gcs
    cluster.head.kill()
    cluster.start_head(port)
    with contextlib.suppress(LocalError, OSError):
        cluster.deploy(wait=False)
    return 0.0


def new_revision(cluster: Cluster, case: Case) -> float:
    """A change of the Serve document alone, as a new revision of the weights is one."""
    del case
    config = cluster.plan.document["applications"][0]["args"]["llm_configs"][0]
    config["engine_kwargs"]["max_num_batched_tokens"] = 1024
    cluster.deploy(wait=False)
    time.sleep(5)
    return 0.0


def bad_document(cluster: Cluster, case: Case) -> float:
    """A document that no engine can start with."""
    del case
    config = cluster.plan.document["applications"][0]["args"]["llm_configs"][0]
    config["engine_kwargs"]["max_model_len"] = 10**7
    cluster.deploy(wait=False)
    time.sleep(60)
    return 0.0


CASES = {
    case.name: case
    for case in (
        Case(name="spot", words="SIGTERM to an engine's pod under the spot trio (80/95/110)", harm=lose_node),
        Case(
            name="on-demand",
            words="the same under the on-demand trio (540/560/590)",
            harm=lose_node,
            drain=ON_DEMAND,
        ),
        Case(name="spot-routed", words="the same as spot in routed mode", harm=lose_node, mode="routed"),
        Case(name="kill-node", words="an engine's machine is gone", harm=kill_node),
        Case(name="kill-replica", words="one replica's process is killed", harm=kill_replica),
        Case(name="head", words="the head is lost, without Redis", harm=lose_head),
        Case(name="head-redis", words="the head is lost, with Redis", harm=lose_head, redis=True),
        Case(
            name="last-replica",
            words="the last replica's pod is lost while requests come (routed)",
            harm=lose_node,
            mode="routed",
            replicas=1,
        ),
        Case(name="revision", words="an in-place change of the document", harm=new_revision),
        Case(name="bad-config", words="a document that cannot start", harm=bad_document),
    )
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def main() -> int:
    """Play, print, write."""
    from tools.serving import environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument("cases", nargs="*", default=["spot"], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--streams", type=int, default=100, help="for each door of the load balancer")
    parser.add_argument("--tokens", type=int, default=1900)
    parser.add_argument("--spread", type=float, default=40.0, help="seconds over which the streams begin")
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args()
    streams = Streams(count=arguments.streams, tokens=arguments.tokens, spread=arguments.spread)
    outcomes = []
    home = environment.ensure().folder
    for name in arguments.cases:
        case = CASES[name]
        _say(f"{name}: {case.words}")
        try:
            outcome = play(case, home, streams)
        except LocalError as error:
            _say(f"{name}: {error}")
            return 1
        outcomes.append(outcome)
        print(json.dumps(asdict(outcome)), flush=True)  # noqa: T201 - the result
    if arguments.report:
        arguments.report.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
