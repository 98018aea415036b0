"""`python -m bench.scaling`: the stack's scaling policy on real vLLM metrics through a real Prometheus.

Each scene says what was to be seen and whether it was; the timelines are kept with `--report`. Delays are shortened
(down after 20 s instead of 600), or the run would take an hour; everything else is the emitted document.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.load import Endpoint, whole_answers, wrk_there
from bench.local import prometheus
from bench.local.ray import LocalError, request_json
from bench.local.service import LocalService
from bench.picture import Panel, timeline
from bench.stacks import objects_in_mode

MODEL = "tiny"
LIMITS = {
    "min_replicas": 1,
    "max_replicas": 3,
    "max_ongoing_requests": 64,
    "target_ongoing_requests": 40,
    "max_queued_requests": 400,
    "look_back": 4,
    "downscale_delay": 20,
}
WAVES = 3
# A small batch, so that few requests make a queue in the engine.
ENGINE = {"max_num_seqs": 4}
WAITING = f'sum(ray_vllm_num_requests_waiting{{model_name="{MODEL}"}})'
KV = f'avg(ray_vllm_kv_cache_usage_perc{{model_name="{MODEL}"}})'
SCENES = ("load", "wave", "stale", "zero")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What was seen at one moment."""

    at: float
    target: int
    running: int
    waiting: float | None
    requests: int


@dataclass(kw_only=True)
class Scene:
    """One scene: what it is to show, whether it did, and its timeline."""

    name: str
    mode: str = ""
    shown: bool = False
    words: str = ""
    samples: list[Sample] = field(default_factory=list)


class Watcher:
    """Samples Serve's status and the metrics once a second in a thread of its own."""

    def __init__(self, service: LocalService, source: prometheus.Prometheus, started: float) -> None:
        self._service, self._source, self._started = service, source, started
        self.samples: list[Sample] = []
        self.load = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._end.wait(1.0):
            with contextlib.suppress(OSError, ValueError, KeyError, StopIteration):
                self.samples.append(self._sample())

    def _sample(self) -> Sample:
        deployments = self._service.api.status()["applications"][self._service.application]["deployments"]
        engine = next(d for name, d in deployments.items() if name.startswith("LLMServer"))
        running = sum(replica["state"] == "RUNNING" for replica in engine["replicas"])
        return Sample(
            at=time.monotonic() - self._started,
            target=int(engine["target_num_replicas"]),
            running=running,
            waiting=self._source.value(WAITING),
            requests=self.load,
        )

    def stop(self) -> None:
        """No more samples."""
        self._end.set()
        self._thread.join()

    def wait_for(self, condition: Callable[[Sample], bool], seconds: float) -> float | None:
        """Seconds until a sample fulfils the condition, or None."""
        started, index = time.monotonic(), len(self.samples)
        while time.monotonic() - started < seconds:
            if any(condition(sample) for sample in self.samples[index:]):
                return time.monotonic() - started
            time.sleep(0.5)
        return None


class Load:
    """Constant load by wrk in a thread of its own; `with Load(…):`."""

    def __init__(
        self, watcher: Watcher, endpoint: Endpoint, at_once: int, seconds: int, tokens: int = 200
    ) -> None:
        self._watcher, self._at_once = watcher, at_once
        arguments = {
            "prompt": "hello world",
            "output_tokens": tokens,
            "concurrency": at_once,
            "seconds": seconds,
        }
        self._thread = threading.Thread(target=lambda: whole_answers(endpoint, **arguments), daemon=True)  # type: ignore[arg-type]

    def __enter__(self) -> None:
        self._watcher.load = self._at_once
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._watcher.load = 0


def never_down_while_waiting(samples: list[Sample]) -> bool:
    """The target falls only when nothing has waited for a while: metrics are up to two scrapes old."""
    for before, after in itertools.pairwise(samples):
        if after.target < before.target and (before.waiting or 0) > 0 and (after.waiting or 0) > 0:
            return False
    return True


def directions(samples: list[Sample]) -> int:
    """How often the target turns from up to down or back."""
    steps = [b.target - a.target for a, b in itertools.pairwise(samples) if b.target != a.target]
    return sum((a > 0) != (b > 0) for a, b in itertools.pairwise(steps))


def up_and_down(watcher: Watcher, endpoint: Endpoint) -> Scene:
    """1 -> 3 -> 1 by the queue that vLLM shows."""
    scene = Scene(name="1 to 3 to 1 under load")
    with Load(watcher, endpoint, 60, 75):
        up = watcher.wait_for(lambda s: s.running == LIMITS["max_replicas"], 180)
    down = watcher.wait_for(lambda s: s.target == 1 and s.running == 1, 120)
    scene.shown = up is not None and down is not None and never_down_while_waiting(watcher.samples)
    scene.words = f"3 running after {_seconds(up)}, 1 again {_seconds(down)} after the load ended"
    return scene


def square_wave(watcher: Watcher, endpoint: Endpoint) -> Scene:
    """Load that comes and goes faster than the delay before scaling down: one way up, no way down between."""
    scene = Scene(name="square wave, 12 s on and 8 s off")
    first = len(watcher.samples)
    for _ in range(WAVES):
        with Load(watcher, endpoint, 60, 12):
            pass
        time.sleep(8)
    seen = watcher.samples[first:]
    turns, most = directions(seen), max((sample.target for sample in seen), default=0)
    watcher.wait_for(lambda s: s.target == 1 and s.running == 1, 120)
    scene.shown = turns == 0 and most > 1
    scene.words = f"{WAVES} waves, the target rose to {most} and turned {turns} times"
    return scene


def stale_metrics(watcher: Watcher, endpoint: Endpoint, source: prometheus.Prometheus) -> Scene:
    """Prometheus is gone: requests in flight over the target decide."""
    scene = Scene(name="Prometheus stopped")
    source.stop()
    time.sleep(20)  # until what the policy holds is too old
    with Load(watcher, endpoint, 100, 40):
        up = watcher.wait_for(lambda s: s.target > 1, 40)
    source.start()
    down = watcher.wait_for(lambda s: s.target == 1 and s.running == 1, 150)
    scene.shown = up is not None and down is not None
    scene.words = (
        f"above 1 after {_seconds(up)} by requests alone, 1 again {_seconds(down)} after the load ended"
    )
    return scene


def from_zero(service: LocalService, watcher: Watcher, endpoint: Endpoint) -> Scene:
    """No replica: the first request starts one and waits for it."""
    scene = Scene(name="from zero")
    scaling = _scaling(service.plan.document)
    scaling |= {"min_replicas": 0, "downscale_to_zero_delay_s": 5}
    service.api.deploy(service.plan.document)
    empty = watcher.wait_for(lambda s: s.target == 0 and s.running == 0, 120)
    started = time.monotonic()
    answer: Any = None
    with contextlib.suppress(OSError):
        body = {"model": MODEL, "prompt": "hello", "max_tokens": 4}
        answer = request_json(f"{endpoint.url}/completions", method="POST", body=body, timeout=180)
    waited = time.monotonic() - started
    scene.shown = empty is not None and isinstance(answer, dict) and "choices" in answer
    scene.words = (
        f"0 after {_seconds(empty)}; the first request was answered after {waited:.0f} s: {scene.shown}"
    )
    return scene


def picture(played: list[Scene]) -> str:
    """Replicas and requests of all scenes of one mode, over time."""
    samples = [sample for scene in played for sample in scene.samples]
    started = samples[0].at if samples else 0.0
    replicas = {
        "wanted": [(s.at - started, float(s.target)) for s in samples],
        "running": [(s.at - started, float(s.running)) for s in samples],
    }
    requests = {
        "sent at once": [(s.at - started, float(s.requests)) for s in samples],
        "waiting in vLLM": [(s.at - started, s.waiting or 0.0) for s in samples],
    }
    title = f"Scaling, {played[0].mode}: {', '.join(scene.name for scene in played)}"
    return timeline(title, [Panel(unit="replicas", lines=replicas), Panel(unit="requests", lines=requests)])


def _scaling(document: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = document["applications"][0]["args"]["llm_configs"][0]["deployment_config"]
    scaling: dict[str, Any] = config["autoscaling_config"]
    return scaling


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} s"


def scenes(home: Path, mode: str, names: list[str]) -> Iterator[Scene]:
    """Play the scenes on one service."""
    objects = objects_in_mode(mode, scaling=LIMITS, engine=ENGINE)
    service = LocalService(objects, home, say=_say)
    source = prometheus.Prometheus(service.folder / "prometheus")
    service.set_variables({"RAY_PROMETHEUS_HOST": source.url})
    with source, service:
        source.scrape({MODEL: [service.head.metrics]})
        endpoint = Endpoint(url=service.url, model=MODEL, tokenizer=None)
        watcher = Watcher(service, source, time.monotonic())
        plays: dict[str, Callable[[], Scene]] = {
            "load": lambda: up_and_down(watcher, endpoint),
            "wave": lambda: square_wave(watcher, endpoint),
            "stale": lambda: stale_metrics(watcher, endpoint, source),
            "zero": lambda: from_zero(service, watcher, endpoint),
        }
        for name in names:
            first = len(watcher.samples)
            scene = plays[name]()
            scene.mode = mode
            scene.samples = watcher.samples[first:]
            yield scene
        watcher.stop()


def _write(report: Path | None, played: list[Scene]) -> None:
    """The scenes so far, so that an interrupted run is not lost."""
    if report is None:
        return
    report.write_text(json.dumps([asdict(scene) for scene in played], indent=1))
    for mode in {scene.mode for scene in played}:
        path = report.with_name(f"{report.stem}-{mode}.svg")
        path.write_text(picture([scene for scene in played if scene.mode == mode]))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def main() -> int:
    """Play, print, write."""
    from tools.serving import environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--modes", nargs="+", default=["direct", "routed"], choices=["direct", "routed"])
    parser.add_argument(
        "--scenes", nargs="+", default=SCENES, choices=SCENES, help="zero is played in routed mode only"
    )
    parser.add_argument(
        "--report", type=Path, help="timelines as JSON, and a picture for each mode beside it"
    )
    arguments = parser.parse_args()
    missing = [
        name for name, there in (("prometheus", prometheus.there()), ("wrk", wrk_there())) if not there
    ]
    if missing:
        _say(f"not installed (Debian packages): {', '.join(missing)}")
        return 2
    played: list[Scene] = []
    try:
        home = environment.ensure().folder
        for mode in arguments.modes:
            # Nothing holds a request while no replica runs in direct mode, so the settings refuse zero there.
            names = [name for name in arguments.scenes if (mode, name) != ("direct", "zero")]
            for scene in scenes(home, mode, names):
                played.append(scene)
                word = "shown" if scene.shown else "NOT SHOWN"
                print(f"{word:9} {mode:6} {scene.name}: {scene.words}", flush=True)  # noqa: T201
                _write(arguments.report, played)
    except (LocalError, subprocess.SubprocessError) as error:
        _say(str(error))
        return 1
    return 0 if all(scene.shown for scene in played) else 1


if __name__ == "__main__":
    sys.exit(main())
