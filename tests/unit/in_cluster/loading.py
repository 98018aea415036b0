"""Loads the files of in_cluster/, which import each other as they do in a pod: by plain name, from their own folder."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parents[3] / "in_cluster"


def load(name: str) -> ModuleType:
    """A module of in_cluster/."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return importlib.import_module(name)
