"""A copy of the program that a scenario may edit, as an author would edit the checkout.

The copy's entry makes sure that the copy's own modules run, and not those that the rehearsal has imported from the
checkout. Its policy pack is an executable file, which needs no language host.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rehearsal.control_plane import ROOT
from rehearsal.errors import RehearsalError

PARTS = ("components", "policies", "in_cluster")
ENTRY = """\
import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
for name in [name for name in sys.modules if name.partition(".")[0] in ("components", "guardrails")]:
    del sys.modules[name]
runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
"""
PACK = """\
#!/bin/sh
export PYTHONPATH="{root}:$PYTHONPATH"
cd {root}/policies && exec {python} -u -m pulumi.policy "$1" {root}/policies
"""
NO_CACHE = shutil.ignore_patterns("__pycache__")


class ProgramCopy:
    """The program in a folder of its own."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        """Copy what `pulumi up` needs; an earlier copy is replaced."""
        self.folder, self.source = folder.resolve(), source
        shutil.rmtree(self.folder, ignore_errors=True)
        for name in PARTS:
            shutil.copytree(source / name, self.folder / name, ignore=NO_CACHE)
        for path in (source / "__main__.py", *source.glob("Pulumi*.yaml")):
            shutil.copy2(path, self.folder / path.name)
        entry = self.entry
        entry.parent.mkdir()
        entry.write_text(ENTRY)
        for path in source.glob("Pulumi*.yaml"):
            shutil.copy2(path, entry.parent)
        self.pack.write_text(PACK.format(root=self.folder, python=sys.executable))
        self.pack.chmod(0o755)

    @property
    def entry(self) -> Path:
        """The program that the engine runs."""
        return self.folder / "rehearsed" / "__main__.py"

    @property
    def pack(self) -> Path:
        """The policy pack of the copy."""
        return self.folder / "pack.sh"

    def stack_file(self, stack: str) -> Path:
        """The stack file that the engine is given."""
        return self.entry.parent / f"Pulumi.{stack}.yaml"

    def edit(self, name: str, old: str, new: str) -> None:
        """Change the text of a file everywhere it stands. Raises RehearsalError when the program has no such text."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        if old not in text:
            message = (
                f"{name} has no text {old!r} any more, which a scenario edits; change the scenario with it."
            )
            raise RehearsalError(message)
        path.write_text(text.replace(old, new), encoding="utf-8")

    def restore(self, name: str) -> None:
        """Take back all edits of a file."""
        (self.folder / name).write_text((self.source / name).read_text(encoding="utf-8"), encoding="utf-8")
