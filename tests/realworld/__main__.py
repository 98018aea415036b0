"""`python -m tests.realworld [--cases DIR] [--json]`: the score over the real-world cases. Exit 1 unless all is right."""

import argparse
import json
import sys
from pathlib import Path

from tests.realworld.run import CASES, score_of


def main() -> int:
    """Print the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--cases", type=Path, default=CASES, help="folder of cases; the ones kept here if unset"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    score = score_of(arguments.cases)
    if arguments.json:
        print(json.dumps(score.as_json(), indent=1))
    else:
        print(
            f"{score.verdict_right} of {score.cases} verdicts right, {score.found} of {score.of} findings found"
        )
        for name, lines in (
            ("false alarm", score.false_alarms),
            ("error on good", score.errors_on_good),
            ("wrong", score.wrong),
        ):
            for line in lines:
                print(f"{name}: {line}")
    return 0 if score.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
