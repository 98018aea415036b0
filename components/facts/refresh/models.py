"""Compare built-in model shapes with published `config.json` files.

    python -m components.facts.refresh.models llama-3.1-8b=DIR/config.json …

Prints every field that differs; nothing when all agree. Parameter counts are checked by a test.
"""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

from components.facts.models import MODELS, ModelShape

_OURS = ("name", "published_parameters", "source")


def differences(name: str, path: Path) -> list[str]:
    """One line per field in which the table and the file disagree."""
    published = ModelShape.from_config(json.loads(path.read_text(encoding="utf-8")), name)
    return [
        f"{name}.{field.name}: table {getattr(MODELS[name], field.name)}, file {getattr(published, field.name)}"
        for field in fields(ModelShape)
        if field.name not in _OURS and getattr(MODELS[name], field.name) != getattr(published, field.name)
    ]


def main() -> None:
    """Print the differences; exit code 1 when there are any."""
    found = [line for named in sys.argv[1:] for line in differences(*_split(named))]
    print("\n".join(found) or "no differences")
    sys.exit(1 if found else 0)


def _split(named: str) -> tuple[str, Path]:
    name, _, path = named.partition("=")
    return name, Path(path)


if __name__ == "__main__":
    main()
