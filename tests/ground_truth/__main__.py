"""`python -m tests.ground_truth [--json] [--fit]`: every measured row, what the product says, and the bars.

Exit code 1 when a bar is not met. `--fit` prints the parameters as the fit finds them now.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tests.ground_truth.checks import Answer, Bar, all_bars, answers, cold_start_answer, memory_answer
from tests.ground_truth.fitting import fit_first_token, fit_points, fit_step
from tests.ground_truth.measured import points
from tests.ground_truth.rows import COLD_START_ROWS, MEMORY_ROWS


def speed_report(answer: Answer) -> dict[str, Any]:
    """One speed row: measured, and the product's triples."""
    point, said = answer.point, answer.speed
    return {
        "id": point.id,
        "hardware": f"{point.deployment.gpus}x{point.system}",
        "model": point.deployment.model.name,
        "quantization": point.deployment.quantization,
        "engine": str(point.deployment.engine),
        "measured": {
            "ttft_ms": point.ttft_ms,
            "itl_ms": point.itl_ms,
            "output_tokens_per_s": point.tokens_per_s,
        },
        "ttft_ms": _triple(said.ttft_ms),
        "itl_ms": _triple(said.itl_ms),
        "output_tokens_per_s": _triple(said.output_tokens_per_s),
        "regime": said.regime,
        "calibration": said.calibration.id if said.calibration else None,
        "notes": list(said.notes),
    }


def _triple(bound: Any) -> list[float | None]:
    return [round(v, 2) if v is not None else None for v in (bound.floor, bound.estimate, bound.high)]


def report() -> dict[str, Any]:
    """Everything as plain data."""
    bars = all_bars()
    return {
        "speed": [speed_report(answer) for answer in answers(list(points().values()))],
        "memory": [_memory_report(row) for row in MEMORY_ROWS],
        "cold_start": [
            {
                "id": row.id,
                "measured_s": row.ready_s,
                "interval_s": [round(x, 1) for x in cold_start_answer(row)],
            }
            for row in COLD_START_ROWS
        ],
        "bars": [_bar_report(bar) for bar in bars],
        "met": all(bar.met for bar in bars),
    }


def _memory_report(row: Any) -> dict[str, Any]:
    verdict, tokens, width = memory_answer(row)
    return {"id": row.id, "measured_tokens": row.kv_tokens and round(row.kv_tokens), "verdict": verdict,
            "kv_tokens": list(tokens), "width_gib_per_gpu": round(width, 2)}  # fmt: skip


def _bar_report(bar: Bar) -> dict[str, Any]:
    return {
        "name": bar.name,
        "limit": bar.limit,
        "value": round(bar.value, 3),
        "met": bar.met,
        "broken": list(bar.broken),
    }


def _print_text(data: dict[str, Any]) -> None:
    for row in data["speed"]:
        measured = ", ".join(f"{k} {v:g}" for k, v in row["measured"].items() if v is not None)
        print(f"{row['id']:5} {row['hardware']:13} {row['model']:14} {row['regime']:10} measured {measured}")
        print(
            f"      ttft {row['ttft_ms']}  itl {row['itl_ms']}  tok/s {row['output_tokens_per_s']}  {row['calibration']}"
        )
    for row in data["memory"]:
        print(f"{row['id']:5} {row['verdict']:13} {row['kv_tokens']} measured {row['measured_tokens']}")
    for row in data["cold_start"]:
        print(f"{row['id']:5} {row['interval_s']} s, measured {row['measured_s']}")
    for bar in data["bars"]:
        print(
            f"{'met ' if bar['met'] else 'NOT MET'} {bar['name']}: {bar['value']} (limit {bar['limit']}) {bar['broken'] or ''}"
        )


def main() -> int:
    """Print the report; 0 when every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    if arguments.fit:
        chosen = fit_points()
        print(fit_step(chosen), fit_first_token(chosen), f"{len(chosen)} points", sep="\n")
        return 0
    data = report()
    if arguments.json:
        print(json.dumps(data, indent=1))
    else:
        _print_text(data)
    return 0 if data["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
