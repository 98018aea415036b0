"""Print the `_SPOT` rows of `components/facts/instance_types.py` again, from AWS Spot Advisor's published file.

curl -O https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json
python -m components.facts.refresh.spot spot-advisor-data.json us-east-1 us-east-2 us-west-2 eu-west-1
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from components.facts.instance_types import INSTANCE_TYPES


def rows(advisor: dict[str, Any], regions: list[str]) -> list[str]:
    """One line of Python per GPU instance type that the file knows in one of the regions."""
    lines = []
    for name, instance in INSTANCE_TYPES.items():
        seen = [(region, advisor.get(region, {}).get("Linux", {}).get(name)) for region in regions]
        records = [f'Spot("{region}", {one["s"]}, {one["r"]})' for region, one in seen if one]
        if instance.gpu and records:
            lines.append(f'    "{name}": ({", ".join(records)},),')
    return lines


def main() -> None:
    """Print the rows."""
    data = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("\n".join(rows(data["spot_advisor"], sys.argv[2:])))


if __name__ == "__main__":
    main()
