"""What a stack needs of this machine, and which of it this machine has: parts of the control plane, models that answer.

A choice is kept beside the state, so that `down` and `status` find what `up` has chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rehearsal import namespace, stack_copy
from rehearsal.errors import BadInputError, RehearsalError
from rehearsal.parts import CLOUD, CLUSTER, CONTEXT, LIVE
from rehearsal.simulated_operators import KARPENTER, KUBERAY
from tools import cache
from tools.serving import environment
from tools.table import find

ACCOUNT = "111122223333"  # of a stack that names none
NAME = "session.json"
# Parts that a real operator is, by the name under which its work is simulated elsewhere.
OPERATORS = {"kuberay": KUBERAY, "karpenter": KARPENTER}


@dataclass(frozen=True)
class Plan:
    """The choice for one stack.

    `live` are the models whose pods run as processes, `why` the reason for none where some were wanted.
    """

    context: str
    parts: tuple[str, ...]
    created: bool = False
    live: tuple[str, ...] = ()
    why: str = ""
    present: tuple[str, ...] = ()
    account: str = ACCOUNT
    region: str = ""

    @property
    def namespace(self) -> bool:
        """Whether the control plane needs a network of its own."""
        return "kubelet" in self.parts or "karpenter" in self.parts

    @property
    def real(self) -> frozenset[str]:
        """The operators that run for real."""
        return frozenset(OPERATORS[part] for part in self.parts if part in OPERATORS)

    @property
    def facts(self) -> dict[str, str]:
        """What the control plane is told about AWS."""
        return {"account": self.account, "region": self.region} if self.created else {}

    def write(self, folder: Path) -> None:
        """Keep it."""
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1))


def read(folder: Path) -> Plan | None:
    """The choice that was kept in a folder, or None."""
    try:
        content = json.loads((folder / NAME).read_text())
    except (OSError, ValueError):
        return None
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
    }
    return Plan(**values)


def choose(platform: Mapping[str, Any], wanted: tuple[str, ...] | None) -> Plan:
    """The choice for a stack's settings.

    `wanted` names the models that shall answer; None means all where the cluster is there already, and none where the
    stack makes it. Raises RehearsalError for a model that the stack does not have.
    """
    created = stack_copy.creates_cluster(dict(platform))
    names = [str(row["name"]) for row in platform.get("models") or () if isinstance(row, dict)]
    _require_known(wanted or (), names)
    live = tuple((() if created else names) if wanted is None else wanted)
    why = _no_processes() if live else ""
    if why:
        live = ()
    region = str(platform.get("region") or "us-west-2")
    account = str(platform.get("accountId") or ACCOUNT)
    if not created:
        context = stack_copy.existing_context(dict(platform))
        if not live:
            return Plan(context, CLUSTER, why=why)
        return Plan(context, LIVE, live=live, present=("kuberay",))
    no_operators = _no_operators()
    parts: tuple[str, ...] = (*CLUSTER, "moto") if no_operators else CLOUD
    if no_operators or not live:
        parts = tuple(name for name in parts if name != "kubelet")
    return Plan(
        CONTEXT,
        parts,
        created=True,
        live=() if no_operators else live,
        why=why or no_operators,
        account=account,
        region=region,
    )


def _require_known(wanted: Iterable[str], names: list[str]) -> None:
    for name in wanted:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise BadInputError(f"The stack has no model named {name}; {has}.")


def _missing_tools(names: Iterable[str]) -> list[str]:
    return [name for name in names if cache.locate(find(name)) is None]


def _no_operators() -> str:
    """Why KubeRay and Karpenter cannot run here, or nothing."""
    if reason := namespace.missing():
        return f"KubeRay and Karpenter are simulated: {reason}"
    missing = _missing_tools(("kuberay", "karpenter", "kwok"))
    return (
        f"KubeRay and Karpenter are simulated: {', '.join(missing)} not built (`make tools`)"
        if missing
        else ""
    )


def _no_processes() -> str:
    """Why no pod can run as a process here, or nothing."""
    if reason := namespace.missing():
        return f"pods are simulated: {reason}"
    if missing := _missing_tools(("kuberay",)):
        return f"pods are simulated: {', '.join(missing)} not built (`make tools`)"
    if environment.locate() is None:
        return "pods are simulated: the serving environment is not there (`make serving-env`)"
    return ""


def weights() -> Path:
    """The folder of the tiny model. Raises RehearsalError when the serving environment is not there."""
    found = environment.locate()
    if found is None:
        raise RehearsalError("The serving environment is not there. Run `make serving-env` first.")
    return found.tiny_model
