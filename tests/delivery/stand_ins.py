"""What stands in for GitHub: a `gh` that lists some comments and writes down each call."""

import json
import sys
from pathlib import Path
from typing import Any

_GH = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
given = "" if sys.stdin.isatty() else sys.stdin.read()
with (folder / "gh-calls.jsonl").open("a", encoding="utf-8") as file:
    file.write(json.dumps({{"arguments": sys.argv[1:], "input": given}}) + "\\n")
if "--paginate" in sys.argv:
    print((folder / "gh-comments.json").read_text(encoding="utf-8"))
"""


def fake_gh(folder: Path, comments: list[dict[str, Any]]) -> Path:
    """A folder for PATH with a `gh` in it; its calls are written down below ``folder``."""
    (folder / "gh-comments.json").write_text(json.dumps([comments]), encoding="utf-8")
    bin_folder = folder / "gh-bin"
    bin_folder.mkdir(exist_ok=True)
    gh = bin_folder / "gh"
    gh.write_text(_GH.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    gh.chmod(0o755)
    return bin_folder


def calls_of(folder: Path) -> list[dict[str, Any]]:
    """The calls of that `gh` so far."""
    path = folder / "gh-calls.jsonl"
    return (
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    )
