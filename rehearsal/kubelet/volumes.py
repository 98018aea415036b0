"""The volumes of a pod as folders, and the mounts of each container.

A claim is a folder of its own, kept as long as the state: put weights there before, and a pod finds them. A host path
is a folder for each node. ConfigMaps, Secrets and projected volumes are written as files, and again when they change.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.quantities import quantity
from rehearsal.api import Manifest
from rehearsal.kubelet import sandbox
from rehearsal.kubelet.environment import Find, NotStartableError, data, expand, field_value, resource_value

TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder
TOKEN_VOLUME = "kube-api-access"  # noqa: S105 - a name
# A week: nothing here renews a token, and hardly a rehearsal lasts longer.
TOKEN_SECONDS = 7 * 24 * 3600
DEFAULT_SHM = "size=64m,mode=1777"  # what container runtimes give

Files = dict[str, bytes]


@dataclass(frozen=True)
class Sources:
    """Where the contents of volumes come from."""

    find: Find
    # (pod, audience or "" for the API server's own, seconds) -> a token of the pod's service account
    token: Callable[[Manifest, str, int], str]
    authority: bytes
    claims: Path
    nodes: Path
    node: Callable[[str], Manifest]


def token_source() -> dict[str, Any]:
    """The projected volume that the API server's admission adds to a pod, which is off in a rehearsal."""
    return {
        "name": TOKEN_VOLUME,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
                {"rehearsalAuthority": {"path": "ca.crt"}},
                {
                    "downwardAPI": {
                        "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                    }
                },
            ]
        },
    }


def wants_token(pod: Manifest, account: Manifest | None) -> bool:
    """Whether a pod gets a token of its service account: the pod's word, then the account's, then yes."""
    for holder in (pod["spec"], account or {}):
        if holder.get("automountServiceAccountToken") is not None:
            return bool(holder["automountServiceAccountToken"])
    return True


def chosen(source: Manifest, content: Mapping[str, bytes], what: str) -> Files:
    """The files that a source's `items` ask for, or all of them."""
    items = source.get("items")
    if not items:
        return dict(content)
    absent = [item["key"] for item in items if item["key"] not in content]
    if absent and not source.get("optional"):
        raise NotStartableError("ContainerCreating", f"{what} has no key {', '.join(absent)}")
    return {item["path"]: content[item["key"]] for item in items if item["key"] in content}


@dataclass
class Volumes:
    """The volumes of one pod, in a folder of its own."""

    pod: Manifest
    folder: Path
    sources: Sources
    _rows: dict[str, Manifest] = field(default_factory=dict)
    _memory: list[Path] = field(default_factory=list)
    _tokens: dict[str, bytes] = field(default_factory=dict)

    def make(self) -> None:
        """Make all of them. Raises NotStartableError when a source is not there yet."""
        self._rows = {row["name"]: row for row in self.pod["spec"].get("volumes") or []}
        account = self.pod["spec"].get("serviceAccountName") or "default"
        found = self.sources.find("ServiceAccount", self.pod["metadata"]["namespace"], account)
        if wants_token(self.pod, found):
            self._rows.setdefault(TOKEN_VOLUME, token_source())
        for row in self._rows.values():
            self._make(row)

    def _make(self, row: Manifest) -> None:
        place = self.place(row["name"])
        if "emptyDir" in row and (row["emptyDir"] or {}).get("medium") == "Memory":
            if place not in self._memory:
                limit = row["emptyDir"].get("sizeLimit")
                sandbox.mount_memory(place, int(quantity(limit)) if limit else None)
                self._memory.append(place)
            return
        files = self._files(row)
        # What a typed host path says must be a file is made as one; all else is a folder.
        if row.get("hostPath", {}).get("type") == "FileOrCreate":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            return
        made = not place.exists()
        place.mkdir(parents=True, exist_ok=True)
        if made and "emptyDir" in row:
            place.chmod(0o1777)
        if files is not None:
            write_files(place, files)

    def refresh(self) -> None:
        """Write ConfigMaps, Secrets and projected volumes again when they have changed; what is gone stays as it was."""
        for row in self._rows.values():
            try:
                files = self._files(row)
            except NotStartableError:
                continue
            if files is not None:
                write_files(self.place(row["name"]), files)

    def place(self, name: str) -> Path:
        """The folder of a volume."""
        row, namespace = self._rows[name], self.pod["metadata"]["namespace"]
        if claim := row.get("persistentVolumeClaim"):
            return self.sources.claims / f"{namespace}_{claim['claimName']}"
        if "csi" in row or "ephemeral" in row:
            return self.folder / name
        if path := row.get("hostPath"):
            return self.sources.nodes / str(self.pod["spec"]["nodeName"]) / str(path["path"]).strip("/")
        return self.folder / name

    def _files(self, row: Manifest) -> Files | None:
        """The files of a volume; None for a kind that only is a folder."""
        for kind in ("configMap", "secret", "downwardAPI"):
            if kind in row:
                return self._source(kind, row[kind])
        if "projected" not in row:
            return None
        files: Files = {}
        for source in row["projected"].get("sources") or []:
            for kind, content in source.items():
                files |= self._source(kind, content)
        return files

    def _source(self, kind: str, source: Manifest) -> Files:
        if kind == "serviceAccountToken":
            audience = source.get("audience", "")
            seconds = max(int(source.get("expirationSeconds", 3600)), TOKEN_SECONDS)
            if audience not in self._tokens:
                self._tokens[audience] = self.sources.token(self.pod, audience, seconds).encode()
            return {source["path"]: self._tokens[audience]}
        if kind == "rehearsalAuthority":
            return {source["path"]: self.sources.authority}
        if kind == "downwardAPI":
            return {item["path"]: self._downward(item).encode() for item in source.get("items") or []}
        return self._object(kind, source)

    def _downward(self, item: Manifest) -> str:
        if "fieldRef" in item:
            return field_value(self.pod, item["fieldRef"]["fieldPath"])
        reference = item["resourceFieldRef"]
        spec = self.pod["spec"]
        container = next(c for c in spec["containers"] if c["name"] == reference["containerName"])
        node = self.sources.node(spec["nodeName"])
        return resource_value(container, reference["resource"], reference.get("divisor"), node)

    def _object(self, kind: str, source: Manifest) -> Files:
        name = source.get("secretName") or source["name"]
        kind = "Secret" if kind == "secret" else "ConfigMap"
        found = self.sources.find(kind, self.pod["metadata"]["namespace"], name)
        if found is None:
            if source.get("optional"):
                return {}
            raise NotStartableError(
                "ContainerCreating", f'MountVolume.SetUp failed: {kind.lower()} "{name}" not found'
            )
        return chosen(source, data(kind, found), f'{kind.lower()} "{name}"')

    def mounts(self, container: Manifest, variables: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """What a container mounts, as rows of a plan of `inside.py`."""
        asked = container.get("volumeMounts") or []
        if TOKEN_VOLUME in self._rows and all(row["mountPath"].rstrip("/") != TOKEN_FOLDER for row in asked):
            asked = [*asked, {"name": TOKEN_VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}]
        for row in asked:
            yield {
                "source": str(self._source_path(row, variables)),
                "target": row["mountPath"].rstrip("/"),
                "read_only": self._read_only(row),
            }

    def _source_path(self, mount: Manifest, variables: Mapping[str, str]) -> Path:
        place = self.place(mount["name"])
        inner = str(mount.get("subPath") or expand(mount.get("subPathExpr", ""), variables))
        if not inner:
            return place
        if not (place / inner).exists():
            (place / inner).mkdir(parents=True)
        return place / inner

    def _read_only(self, mount: Manifest) -> bool:
        row = self._rows[mount["name"]]
        written = any(kind in row for kind in ("configMap", "secret", "projected", "downwardAPI"))
        claim = row.get("persistentVolumeClaim") or row.get("csi") or {}
        return bool(mount.get("readOnly") or written or claim.get("readOnly"))

    def remove(self) -> None:
        """Take away what ends with the pod; claims and host paths stay."""
        for place in self._memory:
            sandbox.unmount(place)
        self._memory.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def write_files(folder: Path, files: Files) -> None:
    """Write each file that differs, whole at once, and take away those that are no longer wanted."""
    for name, content in files.items():
        target = folder / name
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.partial")
        partial.write_bytes(content)
        partial.replace(target)
    for path in folder.rglob("*"):
        if path.is_file() and str(path.relative_to(folder)) not in files:
            path.unlink()
