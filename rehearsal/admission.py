"""Asks a real API server whether it would take each object of a stack: strict fields, defaults, CEL rules, admission.

Namespaces are really made, since nothing can be tried inside one that does not exist; everything else is applied
with `dryRun=All`, which runs the whole chain and keeps nothing. Charts are not Kubernetes objects and are not asked
about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal import crd_install
from rehearsal.api import Api, Manifest, label
from rehearsal.errors import ApiError
from rehearsal.plausible import NoPlausibleValueError, fill
from tools.crds import Collected

# Kinds of these API groups come with a chart whose CRDs are in no Go module that is served; nothing is asked then.
NO_CRD_GROUPS = frozenset({"elbv2.k8s.aws"})
# Kinds whose CRDs may be older than the operator that the charts pin (tools/crds.py says when).
OLDER_CRD_GROUPS = frozenset({"ray.io"})


@dataclass(frozen=True)
class Verdict:
    """What the API server said about one object.

    `filled` are leaves that got a plausible value, `left_out` fields that an older CRD does not know and that were
    not sent, `not_checked` the reason why the object was not asked about (empty: it was).
    """

    object: str
    accepted: bool
    message: str = ""
    filled: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    not_checked: str = ""


def check(api: Api, manifests: Iterable[Manifest], crds: Collected) -> list[Verdict]:
    """A verdict for each object, in the order given. The CRDs must have been installed before.

    Raises ApiUnreachableError when the server does not answer.
    """
    objects = list(manifests)
    _make_namespaces(api, objects)
    older = bool(crds.notes)
    return [_check_one(api, manifest, older=older) for manifest in objects]


def refused(verdicts: Sequence[Verdict]) -> list[str]:
    """One line for each object that was not accepted: its name and the server's message."""
    return [f"{row.object}: {row.message}" for row in verdicts if not row.accepted]


def _make_namespaces(api: Api, objects: Iterable[Manifest]) -> None:
    names = {"default"}
    for manifest in objects:
        filled, _ = _filled(manifest)
        metadata = filled.get("metadata", {})
        names.add(
            metadata.get("name")
            if filled.get("kind") == "Namespace"
            else metadata.get("namespace") or "default"
        )
    for name in sorted(str(name) for name in names):
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _filled(manifest: Manifest) -> tuple[dict[str, Any], str]:
    try:
        return fill(manifest)[0], ""
    except NoPlausibleValueError as error:
        return {}, str(error)


def _check_one(api: Api, manifest: Manifest, *, older: bool) -> Verdict:
    try:
        filled, paths = fill(manifest)
    except NoPlausibleValueError as error:
        return Verdict(label(manifest), accepted=False, message=str(error))
    group = str(manifest.get("apiVersion")).rpartition("/")[0]
    if group in NO_CRD_GROUPS and api.resource(str(manifest["apiVersion"]), str(manifest["kind"])) is None:
        reason = f"no CRD here for the group {group}"
        return Verdict(label(filled), accepted=True, filled=tuple(paths), not_checked=reason)
    left_out: list[str] = []
    if older and group in OLDER_CRD_GROUPS:
        filled, left_out = _without_newer_fields(api, filled)
    message = _ask(api, filled)
    return Verdict(label(filled), not message, message, tuple(paths), tuple(left_out))


def _without_newer_fields(api: Api, manifest: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    crd = crd_install.find_crd(api, manifest)
    return crd_install.strip_unknown(manifest, crd) if crd else (manifest, [])


def _ask(api: Api, manifest: Mapping[str, Any]) -> str:
    try:
        api.apply(manifest, dry_run=True)
    except ApiError as error:
        return error.message
    return ""
