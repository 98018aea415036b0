"""Puts CRDs into an API server and finds the fields of a manifest that a CRD's schema does not know."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rehearsal.api import APPLY, FIELD_MANAGER, JSON_PATCH, Api
from rehearsal.errors import RehearsalError
from rehearsal.processes import wait_until

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FREE_FORM = "x-kubernetes-preserve-unknown-fields"
ESTABLISHED_SECONDS = 30.0
# What every object may have, whatever the schema lists.
# Where KubeRay's newer fields lie, by CRD.
NEWER_FIELD_PLACES: dict[str, tuple[tuple[str, ...], ...]] = {
    "rayservices.ray.io": (("spec",), ("spec", "rayClusterConfig")),
    "rayclusters.ray.io": (("spec",),),
}
COMMON_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


NOT_DECLARED = "field not declared in schema"
NEWER_PROBE = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "probe"},
    "spec": {"probe": True, "rayClusterConfig": {"probe": True}},
}


def crd_name(path: Path) -> str:
    """The object name of a CRD file named `<group>_<plural>.yaml`, as controller-gen writes them."""
    group, _, plural = path.stem.rpartition("_")
    return f"{plural}.{group}"


def install(api: Api, files: Iterable[Path]) -> list[str]:
    """Apply CRD files and wait until their kinds are served; gives back their names.

    By server-side apply, because the larger ones do not fit into the annotation of a client-side one; the server
    reads YAML itself, so that no parser is needed here.
    """
    names = []
    for path in files:
        name = crd_name(path)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        api.request("PATCH", f"{CRD_PATH}/{name}", path.read_bytes(), APPLY, **query)
        names.append(name)
    if not wait_until(lambda: not _not_served(api, names), ESTABLISHED_SECONDS):
        late = ", ".join(_not_served(api, names))
        message = f"The API server took these CRDs but does not serve their kinds: {late}."
        raise RehearsalError(message)
    return names


def _not_served(api: Api, names: Iterable[str]) -> list[str]:
    """CRDs whose kinds are not in the server's discovery. The CRDs themselves are megabytes, so they are not read."""
    wanted: dict[str, set[str]] = {}
    for name in names:
        plural, _, group = name.partition(".")
        wanted.setdefault(group, set()).add(plural)
    return [
        f"{plural}.{group}" for group, plurals in wanted.items() for plural in plurals - _plurals(api, group)
    ]


def _plurals(api: Api, group: str) -> set[str]:
    found = api.get(f"/apis/{group}") or {}
    return {
        row.plural for version in found.get("versions", []) for row in api.discover(version["groupVersion"])
    }


def loosen(api: Api) -> None:
    """Let objects of the older KubeRay CRDs carry newer fields, unchecked.

    An engine applies whole objects, and a server-side apply with one unknown field is refused altogether.
    """
    for name, places in NEWER_FIELD_PLACES.items():
        crd = api.get(f"{CRD_PATH}/{name}")
        if crd is None:
            continue
        patch = [
            {
                "op": "add",
                "path": f"/spec/versions/{index}/schema/openAPIV3Schema/{_schema_path(place)}/{FREE_FORM}",
                "value": True,
            }
            for index in range(len(crd["spec"]["versions"]))
            for place in places
        ]
        api.request("PATCH", f"{CRD_PATH}/{name}", patch, JSON_PATCH)
    # The server takes the new schema over a moment later.
    if not wait_until(lambda: NOT_DECLARED not in " ".join(api.dry_run(NEWER_PROBE)), ESTABLISHED_SECONDS):
        message = "The API server does not take over the opened schema of RayService."
        raise RehearsalError(message)


def _schema_path(place: tuple[str, ...]) -> str:
    return "/".join(f"properties/{name}" for name in place)


def find_crd(api: Api, manifest: Mapping[str, Any]) -> dict[str, Any] | None:
    """The CRD of a manifest's kind as the server holds it, or None when the kind is not a custom one."""
    group, _, version = str(manifest.get("apiVersion")).partition("/")
    row = api.resource(f"{group}/{version}", str(manifest.get("kind"))) if version else None
    return api.get(f"{CRD_PATH}/{row.plural}.{group}") if row else None


def strip_unknown(manifest: Mapping[str, Any], crd: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A copy without the fields that the CRD's schema does not know, and the paths of those (`spec.a.b[0].c`).

    For CRDs that are older than the operator that the manifest is for. Raises RehearsalError when the CRD does not
    have the manifest's version at all.
    """
    version = str(manifest["apiVersion"]).rpartition("/")[2]
    for row in crd["spec"]["versions"]:
        if row["name"] == version:
            kept: dict[str, Any] = copy.deepcopy(dict(manifest))
            dropped: list[str] = []
            _strip(kept, row["schema"]["openAPIV3Schema"], "", dropped, root=True)
            return kept, dropped
    message = f"The CRD {crd['metadata']['name']} has no version {version}."
    raise RehearsalError(message)


def _strip(
    value: Any, schema: Mapping[str, Any], path: str, dropped: list[str], *, root: bool = False
) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _strip(item, schema.get("items", {}), f"{path}[{index}]", dropped)
    elif isinstance(value, dict):
        _strip_fields(value, schema, path, dropped, root=root)


def _strip_fields(
    value: dict[str, Any], schema: Mapping[str, Any], path: str, dropped: list[str], *, root: bool
) -> None:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    # A node without any of the three is free-form (`type: object` and nothing else prunes, so it is not).
    free = bool(schema.get(FREE_FORM)) or not schema
    embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
    for key in list(value):
        place = f"{path}.{key}" if path else key
        if key in properties:
            if not (embedded and key == "metadata"):
                _strip(value[key], properties[key], place, dropped)
        elif isinstance(others, Mapping):
            _strip(value[key], others, place, dropped)
        elif not (others or free or (embedded and key in COMMON_FIELDS)):
            dropped.append(place)
            del value[key]
