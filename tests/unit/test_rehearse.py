"""The rehearsal's own parts that need no server: outcomes, report, points, order of a destroy."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rehearsal import memory, rehearse
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
