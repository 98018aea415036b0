"""`python -m tests.badconfig --count 2000 --seed 1`: exit 1 where a broken stack file is not refused as it should be."""

import argparse
import statistics
import sys
import time

from tests.badconfig.operators import OPERATORS, Operator
from tests.badconfig.run import Report, run

_SHOWN = 20
_SLOWEST_ALLOWED = 0.5  # seconds; a person waits for it


def main() -> int:
    """Run and print; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.badconfig", description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    start = time.perf_counter()
    report = run(arguments.count, arguments.seed)
    seconds = time.perf_counter() - start
    _print(report, seconds)
    slow = max(report.times) > _SLOWEST_ALLOWED
    if slow:
        print(f"the slowest case took {max(report.times):.2f} s; at most {_SLOWEST_ALLOWED} s are allowed")
    return 1 if report.failures or slow else 0


def _print(report: Report, seconds: float) -> None:
    print(
        f"{'operator':<20}{'cases':>7}{'refused':>9}{'with a line':>13}{'at the line':>13}{'accepted':>10}  must be refused"
    )
    for operator in OPERATORS:
        count = report.counts.get(operator.name)
        if count is None:
            print(f"{operator.name:<20}  not run: policies/guardrails has no check_settings")
            continue
        at_line = str(count.at_line) if count.at_line else "-"
        print(
            f"{operator.name:<20}{count.cases:>7}{count.refused:>9}{count.with_line:>13}{at_line:>13}{count.accepted:>10}"
            f"  {_bar(operator)}"
        )
    times = sorted(report.times)
    print(
        f"{len(times)} cases in {seconds:.1f} s; a case takes {statistics.median(times) * 1000:.1f} ms "
        f"(99 of 100 at most {times[int(len(times) * 0.99)] * 1000:.0f} ms, slowest {times[-1] * 1000:.0f} ms)"
    )
    for failure in report.failures[:_SHOWN]:
        print(f"FAILED {failure}")
    if len(report.failures) > _SHOWN:
        print(f"… and {len(report.failures) - _SHOWN} more failures")
    if not report.failures:
        print("no traceback; every refusal names a line")


def _bar(operator: Operator) -> str:
    if operator.always:
        return "always"
    return "where it changes the meaning" if operator.keeps else "where something needed is lost or wrong"


if __name__ == "__main__":
    sys.exit(main())
