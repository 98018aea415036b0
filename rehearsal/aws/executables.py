"""The executables that the engine finds on PATH as the providers' plugins."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

MODULES = {
    "pulumi-resource-aws": "rehearsal.aws.provider",
    "pulumi-resource-eks": "rehearsal.aws.eks_provider",
}


def write(folder: Path) -> Path:
    """Write one script for each stand-in into a folder, and give the folder back."""
    root = Path(__file__).resolve().parent.parent.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in MODULES.items():
        path = folder / name
        path.write_text(
            "#!/bin/sh\n"
            f"# Stand-in for {name} in a rehearsal; see rehearsal/aws.\n"
            f"PYTHONPATH={shlex.quote(str(root))}${{PYTHONPATH:+:$PYTHONPATH}} "
            f'exec {shlex.quote(sys.executable)} -m {module} "$@"\n'
        )
        path.chmod(0o755)
    return folder
