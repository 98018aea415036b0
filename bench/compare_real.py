"""`python -m bench.compare_real`: whether `llmp compare` is right about real runs of a real endpoint.

Each round loads one vLLM three times by `llmp bench`: twice as it is and once through a relay that makes it slower by a
tenth. The two first must be no difference, the third must be slower. All go through the relay, so that its own cost is
in every run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compare import differences, verdict
from bench.local.ray import LocalError
from bench.servers import bare_vllm
from bench.slower import Slower

ENGINE = {"max_model_len": 512, "max_num_seqs": 64, "enforce_eager": True, "dtype": "bfloat16"}
FACTOR = 1.1
# One at once: with many the engine would be faster while its clients wait, and make up for a part of the tenth.
LOAD = ("--requests", "300", "--concurrency", "1", "--tokens-in", "32", "--tokens-out", "32")
WANTED = {"again": "no difference", "a tenth slower": "slower"}


def round_of(url: str, folder: Path) -> dict[str, str]:
    """What `llmp compare` says about the same endpoint again, and about a slower one."""
    runs = {}
    with Slower(url, 1.0) as plain, Slower(url, FACTOR) as slower:
        _bench(plain.url, folder / "warm-up.json")  # an engine that has just started is slower for a while
        for name, address in (("first", plain.url), ("again", plain.url), ("a tenth slower", slower.url)):
            runs[name] = _bench(address, folder / f"{name.replace(' ', '-')}.json")
            _say(f"{name}: {runs[name]['request_throughput']:.1f} requests/s")
    return {name: _compared(runs["first"], runs[name]) for name in WANTED}


def _compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    rows = differences(before, after)
    for row in rows:
        _say(f"  {row.figure:24} {row.ratio - 1:+.1%}, noise {row.noise:.1%}: {row.verdict}")
    return verdict(rows)


def _bench(url: str, result: Path) -> dict[str, Any]:
    """One run of the command, as a user types it."""
    command = [sys.executable, "-m", "llmp", "bench", url, "--model", "tiny", *LOAD, "--json", str(result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LocalError(f"llmp bench ended with code {done.returncode}: {done.stderr[-500:]}")
    figures: dict[str, Any] = json.loads(result.read_text())
    return figures


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def table(rounds: Sequence[Mapping[str, str]]) -> str:
    """How often each word was said."""
    lines = []
    for name, wanted in WANTED.items():
        right = sum(one[name] == wanted for one in rounds)
        lines.append(f"{name}: called '{wanted}' in {right} of {len(rounds)} rounds")
    return "\n".join(lines)


def main() -> int:
    """Run the rounds and print how often the words were right."""
    from tools.serving import environment  # noqa: PLC0415

    parser = argparse.ArgumentParser(prog="python -m bench.compare_real", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder for the result files")
    arguments = parser.parse_args()
    said: list[dict[str, str]] = []
    try:
        server = bare_vllm(ENGINE, environment.ensure().folder)
    except LocalError as error:
        _say(str(error))
        return 1
    try:
        for number in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(arguments.keep or temporary) / f"round-{number + 1}"
                folder.mkdir(parents=True, exist_ok=True)
                said.append(round_of(server.endpoint.url, folder))
                _say(f"round {number + 1}: {said[-1]}")
    except LocalError as error:
        _say(str(error))
        return 1
    finally:
        server.stop()
    print(table(said))  # noqa: T201 - the result
    return 0 if all(one == WANTED for one in said) else 1


if __name__ == "__main__":
    sys.exit(main())
