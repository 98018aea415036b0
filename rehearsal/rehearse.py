"""`make rehearse STACK=prod`: plays the scenarios on a stack, prints a table while going, and writes a report.

    python -m rehearsal.rehearse --stack prod --report rehearsal.json --only 1,2,13

Stages on which no model answers are played beside each other. The report is written anew after each scenario. Exit code
0 when all passed, 1 when one did not, 130 when interrupted. A stage on which a scenario failed keeps its state and logs,
and the output says where.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from rehearsal import side_by_side
from rehearsal.aws.table import what_stood_in
from rehearsal.errors import RehearsalError
from rehearsal.memory import Peak
from rehearsal.scenarios.live_stage import LiveStage
from rehearsal.scenarios.outcome import REQUEST_KINDS, Outcome
from rehearsal.scenarios.stage import Stage
from rehearsal.scenarios.table import GIVEN, LIVE, OPERATORS, SMALL, SMALL_STACK, Scenario, chosen
from rehearsal.session import locked, state_root
from rehearsal.session_plan import choose
from rehearsal.simulated_operators import simulated_names
from rehearsal.stack_copy import platform_of, read
from rehearsal.substitution import TIME_FACTOR
from tools import terminal
from tools.table import ToolsError

FOLDER = "rehearse"
KINDS = (GIVEN, SMALL, OPERATORS, LIVE)
ROOT = Path(__file__).resolve().parent.parent
PROJECT = "llm-platform"
GPUS_OF_LIVE = 1
CHARTS = "Charts are local stubs of the same names and values."
PATCH = (
    "The Kubernetes provider here is older than the program's and does not know `enablePatchForce`; where pods are "
    "simulated its variable PULUMI_K8S_ENABLE_PATCH_FORCE says the same."
)


def say(text: str) -> None:
    """One line of progress on stderr."""
    terminal.say(text, "rehearse")


def live_model(platform: dict[str, Any]) -> str:
    """The model that answers: the first with one GPU and two replicas, so that one may go; else the first of all."""
    models = platform.get("models") or []
    small = [
        row
        for row in models
        if row.get("tensorParallel", 1) == GPUS_OF_LIVE and row.get("scaling", {}).get("minReplicas", 1) > 1
    ]
    rows = small or models
    if not rows:
        raise RehearsalError(
            "The stack serves no model, so there is nothing to rehearse with users' traffic."
        )
    return str(rows[0]["name"])


@dataclass
class Rehearsal:
    """One run over chosen scenarios. Stages are made when first needed, and ended when the last scenario on them is."""

    stack: str
    scenarios: list[Scenario]
    folder: Path
    attempts: int = 1
    model: str = ""
    only: str = ""
    # The one kind of stage that this process plays, beside others; nothing for all.
    stage: str = ""
    # Why a kind of stage cannot be real here; nothing, or no key, for one that can.
    why_not: dict[str, str] = field(default_factory=dict)
    stages: dict[str, Stage] = field(default_factory=dict)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed_at: set[str] = field(default_factory=set)
    # What went wrong beside the scenarios.
    broken: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, stack: str, only: str, attempts: int = 1, stage: str = "") -> Rehearsal:
        """A run for a stack of this checkout. Raises RehearsalError for one that makes no cluster."""
        scenarios = chosen(only)
        platform = platform_of(read(ROOT / f"Pulumi.{stack}.yaml").content, PROJECT)
        if not (platform.get("cluster") or {}).get("create"):
            raise RehearsalError(
                f"The stack {stack} makes no cluster, so there is no AWS half to rehearse. "
                "Use STACK=prod, dev or multinode; `make up` is the rehearsal of a stack on a cluster that is there."
            )
        model = live_model(platform)
        small = platform_of(read(ROOT / f"Pulumi.{SMALL_STACK}.yaml").content, PROJECT)
        why_not = {LIVE: choose(platform, (model,)).why, OPERATORS: choose(small, ()).why}
        folder = state_root() / FOLDER / stack
        made = cls(stack, scenarios, folder, attempts, model, only, stage, why_not)
        made.scenarios = [row for row in scenarios if stage in ("", made.kind_of(row))]
        if not made.scenarios:
            raise RehearsalError(f"None of the scenarios {only} is played on the stage {stage}.")
        return made

    def kind_of(self, scenario: Scenario) -> str:
        """On which stage a scenario is played here."""
        return GIVEN if self.why_not.get(scenario.stage) and scenario.or_simulated else scenario.stage

    def own(self) -> list[str]:
        """The kinds of stages that this process plays itself."""
        others = {part.kind for part in self.parts()}
        return sorted({*map(self.kind_of, self.scenarios)} - others)

    def parts(self) -> list[side_by_side.Part]:
        """The kinds of stages that are played beside each other, after the rest; nothing for a single one."""
        kinds = dict.fromkeys(map(self.kind_of, self.scenarios))
        beside = [kind for kind in kinds if kind != LIVE and not self.why_not.get(kind)]
        return [self._part(kind) for kind in beside] if len(beside) > 1 else []

    def _part(self, kind: str) -> side_by_side.Part:
        report = self.folder / f"{kind}.json"
        arguments = ["--stack", self.stack, "--only", self.only, "--attempts", str(self.attempts)]
        return side_by_side.Part(kind, (*arguments, "--stage", kind, "--report", str(report)), report)

    def take(self, part: side_by_side.Part, code: int | None) -> int:
        """Take over what a part has reported; how many rows are new. One that ended early has not passed."""
        seen, before = part.seen(), len(self.rows)
        self.failed_at |= set(seen.get("kept", ()))
        rows = {row["name"]: row for row in seen.get("scenarios", ())}
        mine = [row for row in self.scenarios if self.kind_of(row) == part.kind]
        self.rows |= {row.title: rows[row.title] for row in mine if row.title in rows}
        if code is not None:
            for scenario in mine:
                if scenario.title not in rows:
                    outcome = Outcome(error=f"Its process ended with code {code} before this was reported.")
                    self.rows[scenario.title] = outcome.as_dict(scenario.title, scenario.expected, 0.0)
            if code and all(row["passed"] for row in rows.values()):
                self.broken.append(f"The process of the stage {part.kind} ended with code {code}.")
        return len(self.rows) - before

    def stage_of(self, kind: str) -> Stage:
        """The stage of a kind; another one is ended first, so that this process has one control plane at a time."""
        for other in [name for name in self.stages if name != kind]:
            self.end(other)
        if kind not in self.stages:
            place = self.folder / kind
            makers: dict[str, Callable[[], Stage]] = {
                LIVE: lambda: LiveStage(place, self.stack, say, self.model),
                OPERATORS: lambda: LiveStage(place, SMALL_STACK, say),
                SMALL: lambda: Stage(place, SMALL_STACK, say),
                GIVEN: lambda: Stage(place, self.stack, say),
            }
            self.stages[kind] = makers[kind]()
        return self.stages[kind]

    def end(self, kind: str) -> None:
        """End a stage's processes."""
        stage = self.stages.pop(kind, None)
        if stage:
            stage.stop()

    def play(self, scenario: Scenario) -> dict[str, Any]:
        """Play one scenario, again on a fresh stage while it fails and attempts are left; the row of the last one.

        The row tells of the attempts before it (`failedBefore`).
        """
        earlier: list[str] = []
        while not (row := self._attempt(scenario))["passed"] and len(earlier) + 1 < self.attempts:
            say(f"attempt {len(earlier) + 1} failed: {row['seen']}")
            earlier.append(row["seen"])
        if earlier:
            row["failedBefore"] = earlier
        self.rows[scenario.title] = row
        return row

    def _attempt(self, scenario: Scenario) -> dict[str, Any]:
        """Play it once; whatever goes wrong in it is its outcome."""
        outcome, started, kind = Outcome(), time.monotonic(), self.kind_of(scenario)
        name = scenario.title
        say(f"scenario {name} ({kind})")
        if why := self.why_not.get(kind):
            outcome.error = f"Not played: {why}."
        else:
            self._play(scenario, kind, outcome)
        if not outcome.passed and kind in self.stages:
            # The next scenario begins with a fresh stage; this one's files stay under another name.
            self.failed_at.add(self._put_aside(kind, name))
        return outcome.as_dict(name, scenario.expected, time.monotonic() - started)

    def _play(self, scenario: Scenario, kind: str, outcome: Outcome) -> None:
        try:
            scenario.play(self.stage_of(kind), outcome)
        except (RehearsalError, ToolsError) as error:
            outcome.error = str(error)
        except Exception as error:  # noqa: BLE001 - one scenario's fault must not hide what the others show
            outcome.error = f"{type(error).__name__}: {error}"
            self._traceback(scenario)

    def _traceback(self, scenario: Scenario) -> None:
        import traceback  # noqa: PLC0415 - only for a fault of the rehearsal itself

        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"traceback-{scenario.number}-{scenario.name.replace(' ', '-')}.txt").write_text(
            traceback.format_exc()
        )

    def _put_aside(self, kind: str, name: str) -> str:
        """Keep a failed stage's files under the scenario's name; of two attempts those of the last."""
        stage = self.stages[kind]
        self.end(kind)
        kept = stage.folder.with_name(f"failed-{name.replace(' ', '-')}")
        with contextlib.suppress(OSError):
            import shutil  # noqa: PLC0415

            shutil.rmtree(kept, ignore_errors=True)
            stage.folder.rename(kept)
        return str(kept)

    def played(self) -> list[dict[str, Any]]:
        """The rows until now, in playing order."""
        return [self.rows[row.title] for row in self.scenarios if row.title in self.rows]

    def report(self, peak: Peak) -> dict[str, Any]:
        """Everything that was seen until now."""
        return {
            "stack": self.stack,
            "scenarios": self.played(),
            "seconds": round(time.monotonic() - self.started, 1),
            "peakMemoryGiB": round(peak.gib, 2),
            "stoodIn": self.stood_in(),
            "kept": sorted(self.failed_at),
        }

    def stood_in(self) -> list[str]:
        """What is not as on AWS, in sentences."""
        sentences = [*what_stood_in(), CHARTS, PATCH]
        kinds = {self.kind_of(row) for row in self.scenarios}
        if LIVE in kinds and not self.why_not.get(LIVE):
            sentences += [
                f"KubeRay and Karpenter are real; the pods of {self.model} run as processes with the tiny model on CPU.",
                f"Long graces and delays of {self.model} are shortened to {TIME_FACTOR} of their time.",
                "Capacity reservations are taken out of the stack file: moto does not answer for them.",
                "Pods of the other models are simulated: no image is pulled, nothing answers.",
            ]
        if OPERATORS in kinds and not self.why_not.get(OPERATORS):
            sentences.append(
                "Where a scenario is played on `operators`, KubeRay and Karpenter are real and pods are simulated."
            )
        if kinds - {LIVE, OPERATORS}:
            names = ", ".join(simulated_names())
            sentences.append(f"Where a scenario is `simulated` or `small`, pods and {names} are simulated.")
        if kinds & {SMALL, OPERATORS}:
            sentences.append(f"Scenarios on `small` and `operators` are played on the stack {SMALL_STACK}.")
        wanted = {row.stage for row in self.scenarios}
        reasons = {kind: why for kind, why in self.why_not.items() if why and kind in wanted}
        sentences += [f"On `{kind}` nothing ran for real: {why}." for kind, why in reasons.items()]
        return sentences


def table_of(rows: list[dict[str, Any]]) -> Table:
    """The outcomes as a table."""
    table = Table(title="Rehearsal", expand=False)
    for name in ("scenario", "result", "seconds", "checks", "requests", "seen"):
        table.add_column(name, overflow="fold")
    for row in rows:
        good = sum(check["passed"] for check in row["checks"])
        requests = ", ".join(f"{row['requests'][kind]} {kind}" for kind in REQUEST_KINDS)
        table.add_row(
            row["name"],
            result_of(row),
            f"{row['seconds']:.0f}",
            f"{good}/{len(row['checks'])}",
            requests if any(row["requests"].values()) else "",
            row["seen"][:300].replace("[", r"\["),
        )
    return table


def result_of(row: dict[str, Any]) -> str:
    """Passed or not, and at which attempt."""
    word = "[green]passed[/]" if row["passed"] else "[red]FAILED[/]"
    attempts = len(row.get("failedBefore", ())) + 1
    return f"{word}, attempt {attempts}" if attempts > 1 else word


def show(row: dict[str, Any]) -> None:
    """One scenario's result as it comes, with the checks that failed."""
    say(
        f"{'passed' if row['passed'] else 'FAILED'}: {row['name']}, {row['seconds']:.0f} s. {row['seen'][:600]}"
    )
    for check in row["checks"]:
        if not check["passed"]:
            say(f"    {check['name']}: {str(check['value'])[:500]} (wanted {check['limit']})")


def run(rehearsal: Rehearsal, report: Path | None, console: Console) -> bool:
    """Play all; whether all passed. The report is there after each."""
    if not rehearsal.stage:
        for sentence in rehearsal.stood_in():
            say(f"* {sentence}")
    peak = Peak(str(rehearsal.folder))
    with contextlib.nullcontext() if rehearsal.stage else peak:
        _play_all(rehearsal, lambda: _write(report, rehearsal.report(peak)))
    content = rehearsal.report(peak)
    _write(report, content)
    console.print(table_of(content["scenarios"]))
    console.print(f"{content['seconds']:.0f} s, at most {peak.gib:.1f} GiB of memory.")
    for place in content["kept"]:
        console.print(f"State and logs of a failed scenario: {place}")
    for sentence in rehearsal.broken:
        console.print(sentence)
    return all(row["passed"] for row in content["scenarios"]) and not rehearsal.broken


def _play_all(rehearsal: Rehearsal, write: Callable[[], None]) -> None:
    """First what needs both cores, one after the other, then the rest side by side."""
    own = rehearsal.own()
    try:
        for scenario in rehearsal.scenarios:
            if rehearsal.kind_of(scenario) in own:
                show(rehearsal.play(scenario))
                write()
    finally:
        for kind in list(rehearsal.stages):
            rehearsal.end(kind)

    def take(part: side_by_side.Part, code: int | None) -> None:
        if rehearsal.take(part, code):
            write()

    side_by_side.play(rehearsal.parts(), take)


def _write(path: Path | None, content: dict[str, Any]) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_text(json.dumps(content, indent=1, default=str) + "\n")
        temporary.replace(path)


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None, runner: Callable[..., bool] = run) -> int:
    """Play what the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", default="prod")
    parser.add_argument("--report", type=Path, help="JSON file with what was seen")
    parser.add_argument("--only", default="", help="numbers as in 1,2,13, or ci; all by default")
    parser.add_argument(
        "--attempts", type=int, default=1, help="of a scenario, each on a fresh stage; 1 by default"
    )
    parser.add_argument("--stage", default="", choices=KINDS, help="play only what is played on this stage")
    arguments = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    try:
        rehearsal = Rehearsal.of(arguments.stack, arguments.only, arguments.attempts, arguments.stage)
        with contextlib.ExitStack() as locks:
            for kind in rehearsal.own():
                locks.enter_context(locked(rehearsal.folder, kind, f"{rehearsal.stack}'s stage"))
            good = runner(rehearsal, arguments.report, Console())
    except (RehearsalError, ToolsError) as error:
        say(str(error))
        return 1
    except KeyboardInterrupt:
        say("interrupted; its processes are ended, the report holds what was seen until now.")
        return 130
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
