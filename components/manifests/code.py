"""Python of `in_cluster/` as ConfigMaps. The files are read when a manifest is made, not at import."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

IN_CLUSTER = Path(__file__).resolve().parents[2] / "in_cluster"

CODE_HASH = "llm-platform.dev/code-sha256"
"""Annotation of a pod template that changes with its code, since a changed ConfigMap alone restarts nothing."""


def code_config_map(
    files: Iterable[str], name: str, namespace: str, labels: Mapping[str, str]
) -> dict[str, Any]:
    """ConfigMap with files of `in_cluster/`."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "data": {file: (IN_CLUSTER / file).read_text() for file in files},
    }


def hash_of(config_map: Mapping[str, Any]) -> str:
    """Value of `CODE_HASH` for a ConfigMap."""
    return hashlib.sha256(json.dumps(config_map["data"], sort_keys=True).encode()).hexdigest()[:16]
