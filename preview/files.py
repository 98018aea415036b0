"""One YAML file for each Kubernetes object, as `kubectl apply` or a checker would take them."""

import re
from pathlib import Path
from typing import Any

import yaml

from preview.build import Preview

MARK = "# Written by llmp preview --out, and replaced by its next run.\n"


def write_objects(preview: Preview, folder: Path) -> int:
    """Write every object to ``folder`` (made if needed) and return how many.

    Files that an earlier run wrote are replaced; any other file stays untouched.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.yaml"):
        if old.read_text(encoding="utf-8", errors="replace").startswith(MARK):
            old.unlink()
    for manifest in preview.objects:
        (folder / f"{file_name(manifest)}.yaml").write_text(MARK + to_yaml(manifest), encoding="utf-8")
    return len(preview.objects)


def file_name(manifest: dict[str, Any]) -> str:
    """`kind-namespace-name`, in letters that every file system takes."""
    metadata = manifest["metadata"]
    parts = (manifest["kind"], metadata.get("namespace"), metadata.get("name"))
    return re.sub(r"[^a-z0-9.-]+", "-", "-".join(str(part) for part in parts if part).lower())


class _Dumper(yaml.SafeDumper):
    """Text of several lines is written as a block, so that a Serve document can be read."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


# Keys that people expect first, in this order; the others follow by name.
_FIRST = ("apiVersion", "kind", "metadata", "name", "namespace", "key", "image", "command", "args")


def to_yaml(manifest: Any) -> str:
    """YAML of plain data, what names a thing first: the engine hands over maps in no order."""
    return yaml.dump(_ordered(manifest), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (_FIRST.index(key) if key in _FIRST else len(_FIRST), key))
        return {key: _ordered(value[key]) for key in keys}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
