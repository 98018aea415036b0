"""The delivery program run offline, as an engine would in a preview."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from preview.monitor import Registration, program_file, run
from tests.conftest import ROOT

STACKS = ("dev", "prod")
KEY = "llm-platform-delivery:delivery"


@dataclass(frozen=True)
class Delivered:
    """What one run registered and exported."""

    registrations: list[Registration] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        """Inputs of the one resource of a type (its last part), whose name ends as said."""
        found = [
            r.inputs
            for r in self.registrations
            if r.type.rpartition(":")[2] == kind and r.name.endswith(name)
        ]
        assert len(found) == 1, [(r.type, r.name) for r in self.registrations]
        return found[0]

    def document(self, kind: str, name: str) -> dict[str, Any]:
        """The policy document of a role or of a policy."""
        return json.loads(self.one(kind, name)["assumeRolePolicy" if kind == "Role" else "policy"])

    def names(self, kind: str) -> list[str]:
        """Names of the resources of a type."""
        return sorted(r.name for r in self.registrations if r.type.rpartition(":")[2] == kind)


def settings(stack: str) -> dict[str, Any]:
    """The delivery of a stack as its file has it."""
    return values(ROOT / "delivery" / f"Pulumi.{stack}.yaml")


def values(path: Path) -> dict[str, Any]:
    """The delivery in a stack file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))["config"][KEY]


def deliver(stack: str, given: dict[str, Any] | None = None) -> Delivered:
    """Run the program for a stack of ours, or with other settings."""
    config = {KEY: json.dumps(given if given is not None else settings(stack))}
    monitor = run(
        program_file(ROOT / "delivery" / "__main__.py"), stack, config, project="llm-platform-delivery"
    )
    return Delivered(monitor.registrations, monitor.outputs)


def copied(folder: Path, stack: str = "dev") -> Path:
    """The two files of a stack in a folder of their own, to make mistakes in."""
    (folder / "delivery").mkdir()
    for name in (f"Pulumi.{stack}.yaml", f"delivery/Pulumi.{stack}.yaml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def edit(path: Path, old: str, new: str) -> None:
    """Replace one text of a file."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
