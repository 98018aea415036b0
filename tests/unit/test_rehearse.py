"""The rehearsal's own parts that need no server: outcomes, report, traffic, points, order of a destroy."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rehearsal import memory, rehearse, traffic
from rehearsal.aws.table import ROWS
from rehearsal.engine import Result
from rehearsal.errors import RehearsalError
from rehearsal.rehearse import Rehearsal, live_model
from rehearsal.scenarios import destroyed, killed, orphans
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.program_copy import ProgramCopy
from rehearsal.scenarios.stage import Stage
from rehearsal.scenarios.table import SCENARIOS, SMALL, Scenario, chosen
from rehearsal.scenarios.watching import Steps


def test_outcome_passes_only_when_all_was_as_wanted() -> None:
    """Nothing looked at, one miss or an error is no pass; what failed comes first in the words."""
    nothing, missed, good, broken = Outcome(), Outcome(), Outcome(), Outcome(error="gone")
    missed.equal("changes", 3, 0)
    missed.saw("A sentence.")
    broken.equal("changes", 0, 0)
    assert good.at_most("pause", 4.999, 5)
    assert good.at_least("kills", 20, 20)
    assert good.contains("error", "first\nit is held by x\nlast", "held by")

    assert [row.passed for row in (nothing, missed, good, broken)] == [False, False, True, False]
    assert missed.seen == "changes: 3 (wanted 0) A sentence."
    assert [check.value for check in good.checks] == [5.0, 20, "it is held by x"]


@pytest.mark.parametrize(("value", "passed"), [(5.0, True), (5.1, False)])
def test_limits_are_inclusive(value: float, *, passed: bool) -> None:
    """A value at its limit passes, one above does not."""
    assert Outcome().at_most("pause", value, 5) is passed


def test_every_scenario_of_the_issue_is_there_once() -> None:
    """1 to 14, the last in two halves, each with what is expected; those of `ci` are fixed."""
    assert sorted(row.number for row in SCENARIOS) == [*range(1, 15), 14]
    assert sorted(row.number for row in chosen("ci")) == [1, 2, 3, 4, 5, 7, 8, 13]
    assert [row.number for row in chosen("13, 1")] == [1, 13]
    assert len(chosen("")) == len(SCENARIOS)
    assert all(row.expected and row.name for row in SCENARIOS)


def test_unknown_scenario_is_refused_with_what_there_is() -> None:
    """The sentence names the number and how to say it right."""
    with pytest.raises(RehearsalError, match=r"no scenario 99; there are 1 to 14"):
        chosen("1,99")


def test_a_stack_without_a_cluster_of_its_own_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`local` has no AWS half; the way out is in the sentence, and the exit code is 1."""
    assert rehearse.main(["--stack", "local"]) == 1
    assert "Use STACK=prod, dev or multinode" in capsys.readouterr().err


def test_live_model_has_one_gpu_and_a_replica_to_spare() -> None:
    """The first such model, else the first of all; a stack without models is refused."""
    large = {"name": "large", "tensorParallel": 8, "scaling": {"minReplicas": 2}}
    lone, spare = (
        {"name": "lone", "scaling": {"minReplicas": 1}},
        {"name": "spare", "scaling": {"minReplicas": 2}},
    )

    assert live_model({"models": [large, lone, spare]}) == "spare"
    assert live_model({"models": [large, lone]}) == "large"
    with pytest.raises(RehearsalError, match="serves no model"):
        live_model({})


class Empty(Stage):
    """A stage on which nothing runs."""

    def start(self) -> None:
        """Make the folder only."""
        self.folder.mkdir(parents=True, exist_ok=True)


def _fails(stage: Stage, outcome: Outcome) -> None:
    stage.start()
    (stage.folder / "log").write_text("why")
    outcome.equal("changes", 2, 0)


def _breaks(stage: Stage, _outcome: Outcome) -> None:
    stage.start()
    raise RehearsalError("the API server is gone")


def _passes(stage: Stage, outcome: Outcome) -> None:
    stage.start()
    outcome.equal("changes", 0, 0)
    outcome.add_requests({"finished": 9, "cut": 0, "refused": 1})


def test_report_is_written_after_each_and_failures_keep_their_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has exactly the asked keys; a failed scenario's folder is put aside and named."""
    monkeypatch.setattr(rehearse, "Stage", Empty)
    rows = [
        Scenario(1, "fails", "no change", _fails, SMALL),
        Scenario(2, "breaks", "no error", _breaks, SMALL),
        Scenario(3, "passes", "no change", _passes, SMALL),
    ]
    report, out = tmp_path / "out" / "report.json", io.StringIO()
    rehearsal = Rehearsal("prod", rows, tmp_path / "state")
    good = rehearse.run(rehearsal, report, Console(file=out, width=200))
    content = json.loads(report.read_text())
    first, second, third = content["scenarios"]

    assert not good
    assert set(first) == {"name", "expected", "seen", "seconds", "checks", "requests", "passed"}
    assert first["checks"] == [{"name": "changes", "value": 2, "limit": 0, "passed": False}]
    assert (second["seen"], second["passed"]) == ("the API server is gone", False)
    assert (third["requests"], third["passed"]) == ({"finished": 9, "cut": 0, "refused": 1}, True)
    assert content["kept"] == [
        str(tmp_path / "state" / name) for name in ("failed-1-fails", "failed-2-breaks")
    ]
    assert (tmp_path / "state" / "failed-1-fails" / "log").read_text() == "why"
    assert "FAILED" in out.getvalue()
    assert any("moto server" in sentence for sentence in content["stoodIn"])


def test_a_scenario_is_played_again_on_a_fresh_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as passed, the report keeps why it failed before, and the table names the attempt; a third is not made."""
    monkeypatch.setattr(rehearse, "Stage", Empty)
    seen: list[bool] = []

    def second_time(stage: Stage, outcome: Outcome) -> None:
        stage.start()
        seen.append((stage.folder / "mark").exists())
        (stage.folder / "mark").touch()
        outcome.equal("runs", len(seen), 2)

    rows = [Scenario(1, "late", "passes", second_time, SMALL), Scenario(2, "never", "passes", _fails, SMALL)]
    report, out = tmp_path / "report.json", io.StringIO()
    good = rehearse.run(
        Rehearsal("prod", rows, tmp_path / "state", attempts=2), report, Console(file=out, width=200)
    )
    late, never = json.loads(report.read_text())["scenarios"]

    assert not good
    assert seen == [False, False]
    assert (late["passed"], late["failedBefore"]) == (True, ["runs: 1 (wanted 2)"])
    assert (never["passed"], len(never["failedBefore"])) == (False, 1)
    assert "passed, attempt 2" in out.getvalue()


class Answers(BaseHTTPRequestHandler):
    """Ends each answer as the path of its address says."""

    protocol_version = "HTTP/1.0"
    ways: dict[str, bytes] = {  # noqa: RUF012 - a table
        "good stream": b"data: {}\n\ndata: [DONE]\n\n",
        "cut stream": b"data: {}\n\n",
        "error in stream": b'data: {"error": "died"}\n\ndata: [DONE]\n\n',
        "good": b'{"choices": []}',
        "cut": b'{"choices": [',
    }
    way = "good"

    def do_POST(self) -> None:
        """Answer."""
        self.server.seen.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
        status = 503 if self.way == "refused" else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(self.ways.get(self.way, b"no replica"))

    def log_message(self, *_: Any) -> None:
        """Stay quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A model that answers in a chosen way."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    running.seen = []  # type: ignore[attr-defined]
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.mark.parametrize(
    ("way", "stream", "result"),
    [
        ("good stream", True, "finished"),
        ("cut stream", True, "cut"),
        ("error in stream", True, "cut"),
        ("good", False, "finished"),
        ("cut", False, "cut"),
        ("refused", False, "refused"),
    ],
)
def test_a_request_is_finished_cut_or_refused(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch, *, way: str, stream: bool, result: str
) -> None:
    """Only an answer with its proper end is finished; the key is sent."""
    monkeypatch.setattr(Answers, "way", way)
    request = traffic.Request(0, stream, 0.0)
    traffic.ask(request, traffic.Target("ns/svc", "m", "secret"), "127.0.0.1", server.server_port)

    assert (request.result, bool(request.why)) == (result, result != "finished")
    assert len(request.heard) == (way != "refused")
    assert server.seen == ["Bearer secret"]  # type: ignore[attr-defined]


def test_nobody_there_is_refused() -> None:
    """A closed port is no cut: no answer began."""
    request = traffic.Request(0, stream=True, began=0.0)
    traffic.ask(request, traffic.Target("ns/svc", "m"), "127.0.0.1", 1)

    assert request.result == "refused"
    assert "ConnectionRefusedError" in request.why


class Nowhere:
    """A Service without a ready endpoint."""

    def addresses(self, _namespace: str, _name: str) -> list[str]:
        """None."""
        return []


def test_traffic_keeps_one_line_per_request_and_ends_by_itself(tmp_path: Path) -> None:
    """At 20 requests a second for half a second about ten are sent, each with its reason in the log."""
    log = tmp_path / "requests.jsonl"
    run = traffic.Traffic(Nowhere(), traffic.Target("ns/svc", "m"), log)  # type: ignore[arg-type]
    result = run.run(0.5, 20)
    rows = [json.loads(line) for line in log.read_text().splitlines()]

    assert 8 <= len(rows) <= 11
    assert result["refused"] == len(rows) == traffic.read(log)["refused"]
    assert {row["why"] for row in rows} == {"no endpoint of the Service is ready"}
    assert {row["stream"] for row in rows} == {True, False}


def test_a_burst_is_seen_under_way_until_its_streams_end(tmp_path: Path) -> None:
    """The log tells twice of each: when its answer begins and when it ends; the summary counts only what has ended."""
    log = tmp_path / "requests.jsonl"
    row = {"stream": True, "began": 1.0, "ended": 0.0, "address": "a", "why": "", "result": "", "heard": []}
    lines = [{**row, "number": number} for number in (-2, -1, 0)]
    lines.append({**row, "number": -2, "ended": 3.0, "result": "finished"})
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert traffic.in_flight(log) == 1
    assert traffic.read(log)["finished"] == 1
    assert traffic.read(log)["streams"] == 1


def test_a_burst_is_sent_when_its_file_appears(
    server: ThreadingHTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four long streams begin beside the steady traffic, once, and the file is gone."""
    monkeypatch.setattr(Answers, "way", "good stream")
    port = server.server_port

    class Here:
        """The model at its port."""

        def addresses(self, _namespace: str, _name: str) -> list[str]:
            return ["127.0.0.1"]

    log, burst = tmp_path / "requests.jsonl", tmp_path / "burst"
    burst.touch()
    run = traffic.Traffic(Here(), traffic.Target("ns/svc", "m"), log, port=port)  # type: ignore[arg-type]
    run.run(0.5, 4, burst=burst)
    rows = traffic.rows(log)

    assert sorted(row["number"] for row in rows if row["number"] < 0) == [-4, -3, -2, -1]
    assert {row["tokens"] for row in rows if row["number"] < 0} == {1900}
    assert {row["result"] for row in rows if row["number"] < 0} == {"finished"}
    assert not burst.exists()


@pytest.mark.parametrize(
    ("rows", "pause"),
    [
        pytest.param([], 0.0, id="nobody asked"),
        pytest.param([(0.0, 1.0, [0.96]), (9.0, 9.5, [9.46])], 0.96, id="nobody waited in between"),
        pytest.param([(0.0, 9.0, [1.0, 2.0, 8.5, 9.0])], 6.5, id="a stream stood still"),
        pytest.param(
            [(0.0, 9.0, [1.0, 8.5, 9.0]), (2.0, 4.0, [3.0, 4.0])], 4.5, id="somebody else was served"
        ),
        pytest.param([(1.0, 1.0, []), (3.0, 3.0, []), (5.0, 6.0, [6.0])], 5.0, id="refused at once, twice"),
        pytest.param([(1.0, 2.0, [2.0]), (3.0, 10.0, [])], 7.0, id="cut, and nothing after it"),
    ],
)
def test_a_pause_is_while_somebody_waits(rows: list[tuple[float, float, list[float]]], pause: float) -> None:
    """From the first that waits to the next piece of anybody's answer; a failed answer ends none."""
    kept = [
        {"began": began, "ended": ended, "heard": heard, "result": "finished" if heard else "cut"}
        for began, ended, heard in rows
    ]
    assert traffic.longest_pause(kept) == pause


def test_points_are_the_same_each_time_and_inside_the_run() -> None:
    """Twenty different steps in order; fewer where there are fewer steps."""
    first = killed.points(155)

    assert first == killed.points(155) == sorted(set(first))
    assert len(first) == 20
    assert 1 <= first[0] < first[-1] < 155
    assert len(killed.points(5)) == 4


def _result(*names: tuple[str, str]) -> Result:
    steps = [{"operation": "delete", "type": kind, "urn": f"urn::{name}"} for kind, name in names]
    return Result("destroy", {}, steps, {}, [], [], [], 1.0)


RIGHT = (
    ("kubernetes:ray.io/v1:RayService", "m-rayservice"),
    ("kubernetes:karpenter.sh/v1:NodePool", "p"),
    ("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass", "c"),
    ("kubernetes:helm.sh/v3:Release", "karpenter-chart"),
    ("kubernetes:helm.sh/v3:Release", "karpenter-crds"),
    ("aws:iam/role:Role", "karpenter-controller"),
    ("aws:eks/cluster:Cluster", "cluster-eks"),
    ("aws:ec2/vpc:Vpc", "network-vpc"),
)


def test_order_of_a_destroy() -> None:
    """The right order has nothing against it; a pool before its workload, or a part that is missing, is named."""
    swapped = (RIGHT[1], RIGHT[0], *RIGHT[2:])

    assert [wrong for *_, wrong in destroyed.out_of_order(_result(*RIGHT))] == [""] * 6
    assert destroyed.out_of_order(_result(*swapped))[0] == (
        "workloads", "pools", "p went before m-rayservice",
    )  # fmt: skip
    assert "no step of cluster was seen" in [
        row[2] for row in destroyed.out_of_order(_result(*RIGHT[:-2], RIGHT[-1]))
    ]


def test_steps_count_only_what_changes() -> None:
    """The stack itself, ends and repetitions are no steps."""
    steps = Steps()
    for line in (
        "Updating (dev):",
        " +  pulumi:pulumi:Stack llm-platform-dev creating (0s)",
        " +  aws:ec2:Vpc network-vpc creating (0s)",
        " +  aws:ec2:Vpc network-vpc creating (6s)",
        " +  aws:ec2:Vpc network-vpc created (7s)",
        " -  kubernetes:core/v1:ConfigMap m-configmap deleting (0s)",
    ):
        steps.take(line)

    assert steps.begun == [
        ("creating", "aws:ec2:Vpc", "network-vpc"),
        ("deleting", "kubernetes:core/v1:ConfigMap", "m-configmap"),
    ]


def test_a_copy_of_the_program_is_edited_and_restored(tmp_path: Path) -> None:
    """An edit changes the copy and not the checkout; a text that is gone is a clear error."""
    source = Path(rehearse.ROOT)
    copy = ProgramCopy(tmp_path / "program")
    name = "components/pins.py"
    original = (source / name).read_text()
    copy.edit(name, '"karpenter-crd", "1.14.1"', '"karpenter-crd", "9.9.9"')

    assert '"9.9.9"' in (copy.folder / name).read_text()
    copy.restore(name)
    assert (copy.folder / name).read_text() == original == (source / name).read_text()
    with pytest.raises(RehearsalError, match=r"pins\.py has no text 'nowhere' any more"):
        copy.edit(name, "nowhere", "x")


@pytest.mark.parametrize("module", ["violations", "cluster_upgrade", "pins_bumped"])
def test_texts_that_scenarios_edit_are_in_the_program(module: str) -> None:
    """A refactoring that takes such a text away fails here, and not after minutes of rehearsal."""
    from rehearsal.scenarios import cluster_upgrade, pins_bumped, violations  # noqa: PLC0415

    places = {
        "violations": [
            (violations.SERVICE, violations.WITHOUT_TOLERATION[0]),
            (violations.POOLS, violations.DRAIN),
        ],
        "cluster_upgrade": [(cluster_upgrade.SERVICE, cluster_upgrade.PLACE)],
        "pins_bumped": [
            (pins_bumped.PINS, f'"{name}", "{version}"') for name, version in pins_bumped.CHARTS.items()
        ],
    }
    for name, text in places[module]:
        assert text in (Path(rehearse.ROOT) / name).read_text(), (name, text)


def test_memory_of_a_tree_is_seen() -> None:
    """A process takes some memory, and a text that nobody has adds nothing."""
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc on this system")
    alone = memory.tree_gib()

    assert 0.005 < alone < 8
    assert memory.tree_gib("no-process-has-this-text-5c1d") == pytest.approx(alone, abs=0.5)


def test_what_is_known_by_its_name_only_is_deleted_by_it() -> None:
    """A log group's name is an input of its deletion, a node group's id holds two; a gateway's VPC has to be read."""
    kinds = ("log group", "internet gateway", "node group")
    group, gateway, nodes = (ROWS[orphans.TOKENS[kind]] for kind in kinds)

    assert orphans.inputs_of(group, "/aws/eks/x/cluster")["name"] == "/aws/eks/x/cluster"
    assert set(orphans.inputs_of(gateway, "igw-1").values()) == {""}
    inputs = orphans.inputs_of(nodes, "llm-dev:cluster-system-1")
    assert (inputs["clusterName"], inputs["nodeGroupName"]) == ("llm-dev", "cluster-system-1")


def test_some_streams_last_while_others_come_and_go() -> None:
    """Every eighth request is a long stream, or a change would hardly ever meet one under way."""
    target = traffic.Target("ns/svc", "m", tokens=1, stream_tokens=2, long_tokens=3)

    assert [target.tokens_of(number) for number in range(10)] == [3, 1, 2, 1, 2, 1, 2, 1, 3, 1]
