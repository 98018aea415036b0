"""Scenario 10: the engine is killed at twenty points of `up` and of `destroy`.

Each kill happens while a step is at work, so that the cloud may have made something that the state has not. Then comes
what the runbook says (cancel, refresh, delete by tag what the state has not), and the next run goes on and is killed
at the next point. The last one is left alone: it must converge.
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rehearsal.engine import Engine, Result
from rehearsal.errors import EngineError
from rehearsal.scenarios import orphans, watching
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage

POINTS = 20
SEED = 7
CLI = "pulumi"


def points(total: int, number: int | None = None, seed: int = SEED) -> list[int]:
    """Numbers of steps begun, each once, in order; always the same for the same stack."""
    return sorted(random.Random(seed).sample(range(1, total), min(number or POINTS, total - 1)))  # noqa: S311 - no secret


def killed(stage: Stage, outcome: Outcome) -> None:
    """Up with twenty kills, a second up, then destroy with twenty kills."""
    stage.ensure_down()
    # The rules are scenario 3's; their process costs every run two seconds.
    engine = dataclasses.replace(stage.engine, policy_packs=())
    total = engine.preview().changes["create"]
    lost = _play(stage, engine, outcome, "up", points(total), lambda: len(stage.recorded()))
    last = engine.up()
    outcome.saw(f"The last up made the remaining {last.changes.get('create', 0)} of {total} resources.")
    # The state holds default providers too, which no preview counts.
    outcome.at_least("resources after the last up", len(stage.recorded()), total)
    outcome.equal("outside the state after the last up", orphans.names(stage), [])
    outcome.equal("changes of one more up", engine.up().changed, 0)
    outcome.saw(f"Found by list and deleted after the kills of up: {lost}.")

    total = len(stage.recorded())
    lost = _play(stage, engine, outcome, "destroy", points(total), lambda: total - len(stage.recorded()))
    engine.destroy()
    stage.is_up = False
    outcome.equal("resources in the state after the last destroy", len(stage.recorded()), 0)
    outcome.equal("outside the state after the last destroy", orphans.names(stage), [])
    outcome.equal("left in AWS", stage.existing(), {})
    outcome.saw(f"After the kills of destroy: {lost}.")


def _play(
    stage: Stage, engine: Engine, outcome: Outcome, operation: str, chosen: list[int], done: Callable[[], int]
) -> str:
    """Kill at each point and recover; checks what is outside the state after each; says what was found."""
    found: list[str] = []
    struck, left, refused = 0, [], []
    started = time.monotonic()
    for number, point in enumerate(chosen, 1):
        wanted = max(1, point - done())
        try:
            hit = _run_killed(stage, engine, operation, wanted)
        except EngineError as error:
            hit = []
            refused.append(f"point {point}: the run ended by itself: {error}")
        struck += bool(hit)
        _keep(stage, operation, number)
        words = _recover(engine)
        if words:
            refused.append(f"point {point}: {words}")
        now = orphans.delete(stage)
        found += now
        left += [f"point {point}: {name}" for name in orphans.names(stage)]
        at = " ".join(hit[0][1:]) if hit else "nothing, it ended before"
        seconds = time.monotonic() - started
        extra = f", deleted: {orphans.described(now)}" if now else ""
        stage.say(
            f"{operation}, kill {number} of {len(chosen)} at step {point} ({at}), {seconds:.0f} s{extra}"
        )
    outcome.at_least(f"kills during {operation}", struck, len(chosen) - 2)
    outcome.equal(f"{operation}: runs and recoveries that failed", refused, [])
    outcome.equal(f"{operation}: outside the state after recovery", left, [])
    return orphans.described(found) or "nothing"


def _run_killed(stage: Stage, engine: Engine, operation: str, steps: int) -> list[tuple[str, str, str]]:
    temporary = stage.engine_log
    marker = str(stage.folder)
    with watching.struck(
        temporary, lambda seen: len(seen.begun) >= steps, lambda: watching.kill(marker, CLI)
    ) as hit:
        try:
            _operation(engine, operation)
        except EngineError:
            if not hit:
                raise  # it failed by itself: that is for people
    return hit


def _operation(engine: Engine, name: str) -> Result:
    return engine.up() if name == "up" else engine.destroy()


def _recover(engine: Engine) -> str:
    """`pulumi cancel` (the engine's runner does it when it finds a lock) and `pulumi refresh`."""
    try:
        engine.refresh()
    except EngineError as error:
        return str(error)
    return ""


def _keep(stage: Stage, operation: str, number: int) -> None:
    """Keep the state file as the kill left it, for a look when something fails."""
    for path in _states(stage.engine):
        target = stage.folder / "killed" / f"{operation}-{number:02}.json"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)


def _states(engine: Engine) -> Iterable[Path]:
    return engine.backend.glob(".pulumi/stacks/*/*.json")
