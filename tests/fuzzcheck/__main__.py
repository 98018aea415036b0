"""`python -m tests.fuzzcheck --count 2000 --seed 1`: exit 1 on any traceback or hang."""

import argparse
import json
import sys

from tests.fuzzcheck.run import run


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    counts = run(arguments.count, arguments.seed)
    print(json.dumps(counts.as_json(), indent=1))
    return 1 if counts.tracebacks or counts.hangs else 0


if __name__ == "__main__":
    sys.exit(main())
