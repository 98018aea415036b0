"""`python -m bench.live_metrics`: the metric names that real vLLM under Ray Serve shows, kept as a fact.

Dashboards, alerts, the scaling policy and KEDA's queries may use only these: many names in documentation and published
dashboards are of older versions and show nothing. Both modes are served with a small KV cache under a load that fills
it, so that counters which appear with their first event (preemptions, prefix hits, HTTP errors) are there too.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from bench.load import Endpoint, whole_answers
from bench.local.ray import LocalError, request_json
from bench.local.service import LocalService
from bench.stacks import ROOT, objects_in_mode
from components import pins

FACT = ROOT / "components" / "facts" / "data" / "live_metrics.json"
MODES = ("routed", "direct")
# On a CPU a block is 128 tokens: 12 are too few for eight requests of 500 tokens, so some are thrown back.
ENGINE = {"max_num_seqs": 8, "arguments": {"num_gpu_blocks_override": 12}}
SCRAPES, EVERY_SECONDS, LOAD_SECONDS = 5, 6.0, 20
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="')
# Of the machine and the run, not of what is measured.
_DROPPED_LABELS = {"otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}


def names_and_labels(text: str) -> dict[str, set[str]]:
    """Metric name -> label names, of an exposition."""
    found: dict[str, set[str]] = {}
    for name, labels in _SAMPLE.findall(text):
        found.setdefault(name, set()).update(set(_LABEL.findall(labels)) - _DROPPED_LABELS)
    return found


def scrape(mode: str, home: Path) -> dict[str, set[str]]:
    """Serve in one mode under load and gather everything that the node shows."""
    found: dict[str, set[str]] = {}
    with LocalService(objects_in_mode(mode, engine=ENGINE), home, say=_say) as service:
        endpoint = Endpoint(url=service.url, model="tiny", tokenizer=None)
        with contextlib.suppress(urllib.error.HTTPError):
            request_json(f"{service.url}/completions", method="POST", body={"model": "nobody", "prompt": "x"})
        prompt = "this is a tiny model and it says hello world to this world " * 10
        for _ in range(SCRAPES):
            whole_answers(
                endpoint, prompt=prompt, output_tokens=200, concurrency=16, seconds=LOAD_SECONDS // SCRAPES
            )
            time.sleep(EVERY_SECONDS)
            for name, labels in _exposition(service).items():
                found.setdefault(name, set()).update(labels)
    return found


def _exposition(service: LocalService) -> dict[str, set[str]]:
    with urllib.request.urlopen(f"http://{service.head.metrics}/metrics", timeout=10) as answer:
        return names_and_labels(answer.read().decode())


def fact(home: Path) -> dict[str, Any]:
    """The kept fact: versions, and each metric with its labels and the modes that show it."""
    seen = {mode: scrape(mode, home) for mode in MODES}
    names = sorted(set().union(*seen.values()))
    return {
        "source": "live scrape by python -m bench.live_metrics",
        "ray": pins.SERVING.ray,
        "vllm": pins.SERVING.vllm,
        "metrics": {
            name: {
                "modes": [mode for mode in MODES if name in seen[mode]],
                "labels": sorted(set().union(*(seen[mode].get(name, set()) for mode in MODES))),
            }
            for name in names
        },
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def main() -> int:
    """Scrape and write the fact."""
    from tools.serving import environment  # noqa: PLC0415

    try:
        content = fact(environment.ensure().folder)
    except LocalError as error:
        _say(str(error))
        return 1
    FACT.write_text(json.dumps(content, indent=1) + "\n")
    _say(f"{len(content['metrics'])} metrics written to {FACT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
