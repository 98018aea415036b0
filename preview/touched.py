"""Which stacks a change touches: those whose `pulumi up` could make something else than before.

The same list of paths starts a deployment in Pulumi Deployments (`delivery/`) and in GitHub Actions.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from components.settings.stack_yaml import Unreadable, read_yaml

# What every stack is made of. A pattern is a whole path, or a folder with /** for all below it.
_SHARED: Final = (
    "Pulumi.yaml",
    "__main__.py",
    "components/**",
    "in_cluster/**",
    "policies/PulumiPolicy.yaml",
    "policies/__main__.py",
    "policies/crossguard.py",
    "policies/guardrails/**",
    "policies/requirements.txt",
    "requirements.txt",
    "constraints.txt",
)
# What is one stack's own.
_OWN: Final = ("Pulumi.{stack}.yaml", "policies/config.{stack}.json")
_NOTHING: Final = "0" * 40  # what GitHub names as the commit before the first of a branch
_DELIVERY: Final = "llm-platform-delivery:delivery"


class UnknownBase(Exception):  # noqa: N818 - it is a sentence for the user
    """Git cannot say what changed."""


def paths_of(stack: str) -> tuple[str, ...]:
    """Patterns of the files that a stack is made of."""
    return (*_SHARED, *(pattern.format(stack=stack) for pattern in _OWN))


def touches(path: str, stack: str) -> bool:
    """Whether a changed file is one that the stack is made of."""
    return any(_matches(path, pattern) for pattern in paths_of(stack))


def touched(changed: Iterable[str], stacks: Iterable[str]) -> list[str]:
    """The stacks that a change of some files touches."""
    files = list(changed)
    return [stack for stack in stacks if any(touches(path, stack) for path in files)]


def stacks_in(folder: Path) -> list[str]:
    """Every stack of a folder, by name."""
    return sorted(
        path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in folder.glob("Pulumi.*.yaml")
    )


def delivered(folder: Path) -> Mapping[str, str]:
    """The branch of each stack that `delivery/` knows."""
    branches = {
        stack: _branch(folder / "delivery" / f"Pulumi.{stack}.yaml")
        for stack in stacks_in(folder / "delivery")
    }
    return {stack: branch for stack, branch in branches.items() if branch}


def changed_since(base: str, folder: Path) -> list[str] | None:
    """Files that the commits since ``base`` changed; None where there was nothing before.

    Both names of a renamed file count. What is not committed does not.

    Raises:
        UnknownBase: with git's own words.
    """
    if base == _NOTHING:
        return None
    command = ["git", "diff", "--name-only", "--no-renames", "-z", "--end-of-options", f"{base}...HEAD", "--"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnknownBase(" ".join(done.stderr.split()))
    return [path for path in done.stdout.split("\0") if path]


def _matches(path: str, pattern: str) -> bool:
    return path.startswith(pattern.removesuffix("**")) if pattern.endswith("/**") else path == pattern


def _branch(path: Path) -> str | None:
    """The branch in a delivery stack file; what else is wrong with it is for `pulumi preview` in delivery/ to say."""
    try:
        values = read_yaml(path.read_text(encoding="utf-8")).values
        branch = values["config"][_DELIVERY]["branch"]
    except (OSError, UnicodeDecodeError, Unreadable, KeyError, TypeError):
        return None
    return branch if isinstance(branch, str) else None
