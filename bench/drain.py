"""`python -m bench.drain`: what happens to streams in flight when a part of a running stack is lost or changed.

Each case starts a cluster of its own, sends long streams and, beside them, short requests every half second, does its
harm in the middle of them and counts: sent, finished, cut (it had begun to answer), refused (it had not), and seconds to
full service. `bench/local/streams.py` is the client and says why it is not the load tool of the other benchmarks.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.local.cluster import Cluster, Node
from bench.local.ray import LocalError, free_ports
from bench.local.supervise import descendants
from bench.stacks import local_model, local_settings, objects_of
from components.manifests.drain import ON_DEMAND, SPOT
from components.settings.models import Drain

# At the pace of a slow large model, ten tokens a second, a stream of 620 tokens lasts over a minute and costs little CPU.
CONTEXT, TOKENS, PACE_SECONDS = 2048, 620, 0.1
SHORT_TOKENS, SHORT_EVERY = 30, 0.5
_LOCAL = Path(__file__).with_name("local")
_STREAM_SECONDS = 400.0  # after that a request counts as lost


@dataclass(kw_only=True)
class Harm:
    """What was done: processes of engines that it ends, and what waits until the lost part is gone and says how long."""

    lost: frozenset[int] = frozenset()
    gone: Callable[[], float] | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kind of harm. `drain` is the trio that the model's pods get, `pace` the least seconds of an engine's step."""

    name: str
    words: str
    harm: Callable[[Cluster, Case], Harm]
    mode: str = "direct"
    drain: Drain = SPOT
    replicas: int = 2
    redis: bool = False
    pace: float = PACE_SECONDS


@dataclass(kw_only=True)
class Counts:
    """What became of some requests."""

    sent: int = 0
    finished: int = 0
    cut: int = 0
    refused: int = 0
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of the finished ones: least, median, most


@dataclass(kw_only=True)
class Outcome:
    """A case's figures."""

    case: str
    mode: str
    drain: str
    streams: Counts
    short: Counts
    in_flight: int  # long streams, at the harm
    ages: tuple[float, float, float]  # of those, in seconds: least, median, most
    seconds_to_full_service: float | None
    left_after: float | None  # seconds that the lost part took to go
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Streams:
    """How many streams, how long, and over which time they begin."""

    count: int
    tokens: int
    spread: float


def objects_for(case: Case) -> list[dict[str, Any]]:
    """The local stack's model with the case's trio and number of replicas."""
    limits = {"min_replicas": case.replicas, "max_replicas": case.replicas, "max_ongoing_requests": 250}
    model = local_model(
        case.mode,
        scaling={**limits, "target_ongoing_requests": 200, "max_queued_requests": 400},
        engine={"max_model_len": CONTEXT, "max_num_seqs": 256},
    ).model_copy(update={"drain": case.drain})
    return objects_of(model, local_settings())


def _paced(document: dict[str, Any]) -> None:
    config = document["applications"][0]["args"]["llm_configs"][0]
    config["engine_kwargs"]["logits_processors"] = ["pace:Pace"]


def play(cases: Sequence[Case], home: Path, streams: Streams, keep: Path | None = None) -> Iterator[Outcome]:
    """Run cases that share a cluster, one after the other; `keep` takes every request's row and Ray's logs."""
    first = cases[0]
    with contextlib.ExitStack() as stack:
        variables = stack.enter_context(_redis(first.redis)) | {"PACE_SECONDS": str(first.pace)}
        cluster = Cluster(objects_for(first), home, variables=variables, change=_paced, say=_say)
        shutil.copy(_LOCAL / "pace.py", cluster.folder / "code")
        stack.enter_context(cluster)
        if keep:
            stack.callback(_keep_logs, cluster.folder, keep / "-".join(case.name for case in cases))
        for group in cluster.groups:
            for _ in range(first.replicas if group != "ingress" else 1):
                cluster.add(group)
        cluster.deploy(wait=False)
        _say(f"{first.name}: whole after {cluster.wait_until_whole(first.replicas):.0f} s")
        for case in cases:
            _say(f"{case.name}: {case.words}")
            yield _harm(case, cluster, home, streams, keep)


def _harm(case: Case, cluster: Cluster, home: Path, streams: Streams, keep: Path | None) -> Outcome:
    """Send, do the harm, count."""
    with ThreadPoolExecutor() as pool, _Client(cluster, home, streams) as client:
        client.wait(streams.spread)
        harmed = time.monotonic()
        harm = case.harm(cluster, case)
        gone = pool.submit(harm.gone or (lambda: None))
        whole = _whole_again(cluster, case, harm, harmed)
        _say(f"{case.name}: full service {whole} s after the harm")
        left = gone.result()
        rows = client.rows()
    if keep:
        text = json.dumps({"harmed": harmed, "whole": whole, "left": left, "rows": rows})
        (keep / f"{case.name}.rows.json").write_text(text)
    return outcome_of(case, rows, harmed, whole, left)


def together(cases: Iterable[Case]) -> list[list[Case]]:
    """The cases in their order; neighbours that need the same cluster share one, since a start takes a minute or more."""
    same = attrgetter("mode", "drain", "replicas", "redis", "pace")
    return [list(group) for _, group in itertools.groupby(cases, same)]


def _whole_again(cluster: Cluster, case: Case, harm: Harm, harmed: float) -> float | None:
    """Seconds from the harm until all replicas run, and none of them is a lost one."""
    while time.monotonic() - harmed < _STREAM_SECONDS:
        cluster.revive()
        with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
            running = cluster.replica_pids()
            if (
                not harm.lost & set(running)
                and len(running) >= case.replicas
                and cluster.is_whole(case.replicas)
            ):
                return round(time.monotonic() - harmed, 1)
        time.sleep(0.5)
    return None


def doors_of(cluster: Cluster) -> list[Node]:
    """Where the load balancer would send: the CPU ingress pods where there are any, else every engine pod."""
    ingress = [node for node in cluster.nodes.values() if node.name.startswith("ingress")]
    return ingress or list(cluster.nodes.values())


class _Client:
    """The process that sends and counts."""

    def __init__(self, cluster: Cluster, home: Path, streams: Streams) -> None:
        self._cluster, self._home, self._streams = cluster, home, streams
        self._file = cluster.folder / "doors.json"
        self._process: subprocess.Popen[str]
        self._began, self._over = 0.0, threading.Event()

    def __enter__(self) -> Self:
        self._tell_doors()
        threading.Thread(target=self._keep_telling, daemon=True).start()
        plan = {
            **asdict(self._streams),
            "doors": str(self._file),
            "model": "tiny",
            "seed": 0,
            "seconds": _STREAM_SECONDS,
            "short_tokens": SHORT_TOKENS,
            "short_every": SHORT_EVERY,
        }
        command = [str(self._home / "bin" / "python"), str(_LOCAL / "streams.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin  # noqa: S101 - for the type checker
        assert self._process.stdout  # noqa: S101
        self._process.stdin.write(json.dumps(plan) + "\n")
        self._process.stdin.flush()
        self._began = json.loads(self._process.stdout.readline())["began"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._process.kill()
        self._process.wait()

    def _keep_telling(self) -> None:
        while not self._over.wait(0.5):
            self._tell_doors()

    def _tell_doors(self) -> None:
        """The addresses of now."""
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps([door.url.removesuffix("/v1") for door in doors_of(self._cluster)]))
        part.replace(self._file)

    def wait(self, seconds: float) -> None:
        """Until so long after the first request."""
        time.sleep(max(0.0, self._began + seconds - time.monotonic()))

    def rows(self) -> list[dict[str, Any]]:
        """Begin nothing new, and wait for what runs."""
        out, _ = self._process.communicate()
        return [json.loads(line) for line in out.splitlines()]


def outcome_of(
    case: Case, rows: Sequence[Mapping[str, Any]], harmed: float, whole: float | None, left: float | None
) -> Outcome:
    """Count the rows of a case."""
    flying = [row for row in rows if row["long"] and row["began"] <= harmed < row["ended"]]
    return Outcome(
        case=case.name,
        mode=case.mode,
        drain=f"{case.drain.graceful_shutdown}/{case.drain.ray_drain}/{case.drain.pod_termination}",
        streams=_count([row for row in rows if row["long"]]),
        short=_count([row for row in rows if not row["long"]]),
        in_flight=len(flying),
        ages=_three([harmed - row["began"] for row in flying]),
        seconds_to_full_service=whole,
        left_after=None if left is None else round(left, 1),
        errors=dict(Counter(f"{_kind(row)}: {row['why']}" for row in rows if row["end"] != "finished")),
    )


def _kind(row: Mapping[str, Any]) -> str:
    return f"{'long' if row['long'] else 'short'} {row['end']}"


def _count(rows: Sequence[Mapping[str, Any]]) -> Counts:
    ends = Counter(row["end"] for row in rows)
    return Counts(
        sent=len(rows),
        finished=ends["finished"],
        cut=ends["cut"],
        refused=ends["refused"],
        seconds=_three([row["ended"] - row["began"] for row in rows if row["end"] == "finished"]),
    )


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    if not values:
        return (0.0, 0.0, 0.0)
    least, median, most = min(values), statistics.median(values), max(values)
    return (round(least, 1), round(median, 1), round(most, 1))


def _keep_logs(folder: Path, target: Path) -> None:
    for logs in folder.glob("h/ray/session_2*/logs"):
        shutil.copytree(logs / "serve", target, dirs_exist_ok=True)
    for log in folder.glob("*/ray-start.log"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, target / f"{log.parent.name}-start.log")


@contextlib.contextmanager
def _redis(wanted: bool) -> Iterator[dict[str, str]]:  # noqa: FBT001 - a case's own switch
    """A Redis on loopback, as Ray's fault tolerance wants it, or nothing."""
    if not wanted:
        yield {}
        return
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


def _engines_of(cluster: Cluster, node: Node) -> frozenset[int]:
    """Processes of the replicas on a node."""
    return frozenset(cluster.replica_pids()) & frozenset(descendants(node.ray.process.pid))


def lose_node(cluster: Cluster, case: Case) -> Harm:
    """SIGTERM as the kubelet sends it; the replacement joins at once, as a warm node would."""
    node = _engine_node(cluster)
    lost = _engines_of(cluster, node)
    finish = cluster.end_as_kubelet(node, float(case.drain.pod_termination))
    cluster.add(node.name.rpartition("-")[0])
    return Harm(lost=lost, gone=finish)


def kill_node(cluster: Cluster, case: Case) -> Harm:
    """The machine is gone without notice."""
    del case
    node = _engine_node(cluster)
    lost = _engines_of(cluster, node)
    cluster.kill(node)
    cluster.add(node.name.rpartition("-")[0])
    return Harm(lost=lost)


def kill_replica(cluster: Cluster, case: Case) -> Harm:
    """SIGKILL to one replica's process."""
    del case
    pid = cluster.replica_pids()[0]
    os.kill(pid, signal.SIGKILL)
    return Harm(lost=frozenset([pid]))


def lose_head(cluster: Cluster, case: Case) -> Harm:
    """The head dies; its successor starts at the same address, as the Service's name would lead to it.

    Without Redis it knows nothing, and the operator applies the document anew.
    """
    old = frozenset(cluster.replica_pids())
    port = cluster.head.ports.gcs
    cluster.head.kill()
    cluster.start_head(port)
    if not case.redis:
        cluster.deploy(wait=False)
    return Harm(lost=frozenset() if case.redis else old)


def _arguments(cluster: Cluster) -> dict[str, Any]:
    arguments: dict[str, Any] = cluster.plan.document["applications"][0]["args"]["llm_configs"][0][
        "engine_kwargs"
    ]
    return arguments


def new_revision(cluster: Cluster, case: Case) -> Harm:
    """A change of the Serve document alone, as a new revision of the weights is one."""
    del case
    old = frozenset(cluster.replica_pids())
    _arguments(cluster)["max_num_batched_tokens"] = CONTEXT + 64
    cluster.deploy(wait=False)
    return Harm(lost=old)


def bad_document(cluster: Cluster, case: Case) -> Harm:
    """A document that no engine can start with, taken back after 60 s."""
    del case
    arguments = _arguments(cluster)
    arguments["max_model_len"] = 10**7
    cluster.deploy(wait=False)
    time.sleep(60)
    arguments["max_model_len"] = CONTEXT
    cluster.deploy(wait=False)
    return Harm()


CASES = {
    case.name: case
    for case in (
        Case(name="spot", words="SIGTERM to an engine's pod under the spot trio (80/95/110)", harm=lose_node),
        Case(
            name="on-demand",
            words="the same under the on-demand trio (540/560/590), with streams of three minutes",
            harm=lose_node,
            drain=ON_DEMAND,
            pace=3 * PACE_SECONDS,
        ),
        Case(name="spot-routed", words="the same as spot in routed mode", harm=lose_node, mode="routed"),
        Case(name="kill-node", words="an engine's machine is gone", harm=kill_node),
        Case(name="kill-replica", words="one replica's process is killed", harm=kill_replica),
        Case(name="head", words="the head is lost, without Redis", harm=lose_head),
        Case(name="head-redis", words="the head is lost, with Redis", harm=lose_head, redis=True),
        Case(
            name="last-replica",
            words="the only engine's machine is gone while requests come, in routed mode: they wait",
            harm=kill_node,
            mode="routed",
            replicas=1,
        ),
        Case(
            name="last-replica-direct",
            words="the same in direct mode: no address is left",
            harm=kill_node,
            replicas=1,
        ),
        Case(name="revision", words="an in-place change of the document", harm=new_revision),
        Case(name="bad-config", words="a document that cannot start", harm=bad_document),
    )
}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _case(name: str) -> Case:
    if name not in CASES:
        raise argparse.ArgumentTypeError(f"there is no case {name}; there are {', '.join(CASES)}")
    return CASES[name]


def main() -> int:
    """Play, print, write."""
    from tools.serving import environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.drain", description=__doc__)
    parser.add_argument(
        "cases", nargs="*", type=_case, metavar="CASE", help=f"{', '.join(CASES)} (spot if none is named)"
    )
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--spread", type=float, default=55.0, help="seconds over which the streams begin")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keeps each request's row and Ray's logs")
    arguments = parser.parse_args()
    if any(case.redis for case in arguments.cases) and shutil.which("redis-server") is None:
        _say("not installed (Debian package): redis-server")
        return 2
    streams = Streams(count=arguments.streams, tokens=arguments.tokens, spread=arguments.spread)
    outcomes, failed = [], False
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    home = environment.ensure().folder
    for cases in together(arguments.cases or [CASES["spot"]]):
        try:
            for outcome in play(cases, home, streams, arguments.keep):
                outcomes.append(outcome)
                print(json.dumps(asdict(outcome)), flush=True)  # noqa: T201 - the result
                if arguments.report:  # after each case: a run takes long, and what is known is worth keeping
                    arguments.report.write_text(json.dumps([asdict(o) for o in outcomes], indent=1))
        except LocalError as error:
            _say(f"{cases[0].name}: {error}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
