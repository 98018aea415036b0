"""Kept outputs of every stack: a change of any object or name shows in review."""

import pytest

from preview.files import file_name, to_yaml
from preview.markdown import as_markdown
from tests.conftest import STACKS


@pytest.mark.parametrize("stack", STACKS)
def test_kubernetes_objects(stack: str, preview_of, golden) -> None:
    """Every Kubernetes object of the stack, one file each."""
    objects = preview_of(stack).objects
    files = {f"{file_name(manifest)}.yaml": to_yaml(manifest) for manifest in objects}

    assert len(files) == len(objects), "two objects have the same kind and name"
    golden(f"{stack}/kubernetes", files)


@pytest.mark.parametrize("stack", STACKS)
def test_urns_and_report(stack: str, preview_of, golden) -> None:
    """URNs are a contract (a new name is a replacement), and the report is what reviewers read."""
    preview = preview_of(stack)

    golden(f"{stack}/report", {
        "urns.txt": "\n".join(sorted(r.urn for r in preview.registrations)) + "\n",
        "report.md": as_markdown(preview),
    })  # fmt: skip
