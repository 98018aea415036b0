"""The environment variables of a container, by the rules of Kubernetes, and the values that they are taken from."""

from __future__ import annotations

import base64
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from components.quantities import format_number, quantity
from rehearsal.api import Manifest

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.\-][A-Za-z0-9_.\-]*)\)")
_IN_BRACKETS = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")

# Kind ("ConfigMap" or "Secret"), namespace, name -> the object, or None when there is none.
Find = Callable[[str, str, str], Manifest | None]


class NotStartableError(Exception):
    """What a container needs is not there (yet). `reason` is the word that kubectl shows."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; an unknown name stays as it is, and `$$` stands for one dollar."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(value, text)


def command(container: Manifest, variables: Mapping[str, str]) -> list[str]:
    """The command line of a container. An image's own entry point is not known here."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if not words:
        raise NotStartableError(
            "CreateContainerError",
            f"container {container['name']} names no command, and its image has no entry point on this machine",
        )
    return [expand(word, variables) for word in words]


def data(kind: str, found: Manifest) -> dict[str, bytes]:
    """The contents of a ConfigMap or Secret."""
    if kind == "Secret":
        return {name: base64.b64decode(text) for name, text in (found.get("data") or {}).items()}
    plain = {name: text.encode() for name, text in (found.get("data") or {}).items()}
    binary = {name: base64.b64decode(text) for name, text in (found.get("binaryData") or {}).items()}
    return {**plain, **binary}


def field_value(pod: Manifest, path: str) -> str:
    """A value of the downward API."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if match := _IN_BRACKETS.fullmatch(path):
        return str((metadata.get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        rows = metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f'{name}="{value}"' for name, value in sorted(rows.items()))
    values = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.hostIP": status.get("hostIP"),
        "status.hostIPs": status.get("hostIP"),
        "status.podIP": status.get("podIP"),
        "status.podIPs": status.get("podIP"),
    }
    if values.get(path) is None:
        raise NotStartableError("CreateContainerConfigError", f"the pod has no field {path}")
    return str(values[path])


def resource_value(container: Manifest, resource: str, divisor: object, node: Manifest) -> str:
    """A limit or request of a container in units of the divisor, rounded up; a missing limit is the node's."""
    kind, _, name = resource.partition(".")
    rows = (container.get("resources") or {}).get(kind) or {}
    fallback = (node.get("status") or {}).get("allocatable") or {}
    machine = {"cpu": os.cpu_count() or 1, "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
    amount = rows.get(name, fallback.get(name, machine.get(name, 0)) if kind == "limits" else 0)
    unit = quantity(divisor or "1") or 1.0
    return format_number(math.ceil(round(quantity(amount) / unit, 6)))


def _object(find: Find, kind: str, namespace: str, source: Manifest) -> Manifest | None:
    found = find(kind, namespace, source["name"])
    if found is None and not source.get("optional"):
        raise NotStartableError("CreateContainerConfigError", f'{kind.lower()} "{source["name"]}" not found')
    return found


def _from_key(find: Find, kind: str, namespace: str, source: Manifest) -> str | None:
    found = _object(find, kind, namespace, source)
    content = data(kind, found) if found else {}
    if source["key"] in content:
        return content[source["key"]].decode(errors="replace")
    if source.get("optional"):
        return None
    raise NotStartableError(
        "CreateContainerConfigError",
        f"couldn't find key {source['key']} in {kind} {namespace}/{source['name']}",
    )


def _value(row: Manifest, container: Manifest, pod: Manifest, find: Find, node: Manifest) -> str | None:
    namespace, source = pod["metadata"]["namespace"], row["valueFrom"]
    if reference := source.get("secretKeyRef"):
        return _from_key(find, "Secret", namespace, reference)
    if reference := source.get("configMapKeyRef"):
        return _from_key(find, "ConfigMap", namespace, reference)
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"])
    reference = source["resourceFieldRef"]
    named = reference.get("containerName")
    every = [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]
    of = next((one for one in every if one["name"] == named), container)
    return resource_value(of, reference["resource"], reference.get("divisor"), node)


def _all_of(sources: Sequence[Manifest], namespace: str, find: Find) -> dict[str, str]:
    result: dict[str, str] = {}
    for source in sources:
        for name, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if reference := source.get(name):
                found = _object(find, kind, namespace, reference)
                content = data(kind, found) if found else {}
                prefix = source.get("prefix", "")
                result |= {f"{prefix}{key}": text.decode(errors="replace") for key, text in content.items()}
    return result


def variables(
    container: Manifest, pod: Manifest, find: Find, *, base: Mapping[str, str], node: Manifest | None = None
) -> dict[str, str]:
    """All variables of a container: those of its environment here, then its own. Raises NotStartableError."""
    result = dict(base)
    result |= _all_of(container.get("envFrom") or [], pod["metadata"]["namespace"], find)
    for row in container.get("env") or []:
        value: Any = row.get("value", "")
        if "valueFrom" in row:
            value = _value(row, container, pod, find, node or {})
            if value is not None:
                result[row["name"]] = value
        else:
            result[row["name"]] = expand(value, result)
    return result
