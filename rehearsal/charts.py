"""Local charts in the place of those that a program installs from the internet.

A release keeps its name, version, namespace and values; only where its chart comes from is changed, by a resource
transform that the rehearsal registers before the program runs. The Kubernetes provider's own Helm then installs, waits
for and deletes it, so that ordering, CRDs and destroy are real. What the chart would run is not in it: a stub holds the
CRDs where the real chart has them, and a ConfigMap with the release's values.

A chart on disk is used as it is: $LLMP_CHARTS names a folder with `NAME-VERSION.tgz` or `NAME/Chart.yaml`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import yaml

from components import pins
from rehearsal.crd_install import FREE_FORM, NEWER_FIELD_PLACES, crd_name
from tools.crds import Collected

RELEASE = "kubernetes:helm.sh/v3:Release"
FOLDER = "LLMP_STUB_CHARTS"  # set for the engine's process: where `write` put them
ON_DISK = "LLMP_CHARTS"
LABEL = "llm-platform.dev/stub-chart"  # finds the ConfigMap of a stub; its data says what was asked for
INGRESS_CLASS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"name": "alb"},
    "spec": {"controller": "ingress.k8s.aws/alb"},
}
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}-stub
  labels:
    {label}: {name}
data:
  version: {{{{ .Chart.Version | quote }}}}
  values.json: |-
    {{{{- toJson .Values | nindent 4 }}}}
"""
# By the files' own text, so that braces in a CRD's descriptions are no templates.
FILES = '{{ range $path, $_ := .Files.Glob "files/*" }}\n---\n{{ $.Files.Get $path }}\n{{ end }}\n'


@dataclass(frozen=True)
class Stub:
    """What a stub holds beside its ConfigMap.

    `crds` are beginnings of CRD files' names. Helm deletes with the release what a chart has among its templates
    (`owned`), and leaves behind what lies in its `crds` folder.
    """

    crds: tuple[str, ...] = ()
    owned: bool = False
    objects: tuple[dict[str, Any], ...] = ()


# Where each real chart has its CRDs: karpenter-crd and keda as templates, the others in `crds/`.
STUBS: dict[str, Stub] = {
    pins.KARPENTER_CRDS.name: Stub(("karpenter.", "autoscaling.x-k8s.io"), owned=True),
    pins.KEDA.name: Stub(("keda.sh",), owned=True),
    pins.KUBERAY.name: Stub(("ray.io",)),
    pins.MONITORING.name: Stub(("monitoring.coreos.com",)),
    pins.LOAD_BALANCER_CONTROLLER.name: Stub(objects=(INGRESS_CLASS,)),
}


def write(folder: Path, collected: Collected, *, operators: bool = False) -> tuple[Path, dict[str, str]]:
    """Write every pinned chart into a folder; gives it back with what stands for each: `stub`, or a path on disk.

    `operators` adds the CRDs that only a running operator needs; Ray's take the API server seconds each.
    """
    files = collected.all_files if operators else collected.files
    folder.mkdir(parents=True, exist_ok=True)
    used = {}
    for chart in pins.CHARTS:
        real = on_disk(chart)
        target = folder / chart.name
        shutil.rmtree(target, ignore_errors=True)
        if real is None:
            _write_stub(target, chart, files, loose=bool(collected.notes))
        used[chart.name] = str(real) if real else "stub"
    (folder / "charts.json").write_text(json.dumps(used, indent=1))
    return folder, used


def on_disk(chart: pins.Chart) -> Path | None:
    """The real chart, where this machine has it."""
    folder = os.environ.get(ON_DISK)
    if not folder:
        return None
    archive, unpacked = Path(folder) / f"{chart.name}-{chart.version}.tgz", Path(folder) / chart.name
    if archive.is_file():
        return archive.resolve()
    return unpacked.resolve() if (unpacked / "Chart.yaml").is_file() else None


def _write_stub(folder: Path, chart: pins.Chart, files: Iterable[Path], *, loose: bool) -> None:
    stub = STUBS.get(chart.name, Stub())
    places = {name: folder / name for name in ("templates", "crds", "files")}
    for place in places.values():
        place.mkdir(parents=True)
    description = {
        "apiVersion": "v2",
        "name": chart.name,
        "version": chart.version,
        "description": "Stub of a rehearsal: CRDs and a ConfigMap, nothing that runs",
    }
    (folder / "Chart.yaml").write_text(json.dumps(description))
    (places["templates"] / "stub.yaml").write_text(TEMPLATE.format(name=chart.name, label=LABEL))
    (places["templates"] / "files.yaml").write_text(FILES)
    for index, item in enumerate(stub.objects):
        (places["files"] / f"{index}.yaml").write_text(json.dumps(item))
    for path in files:
        if path.name.startswith(stub.crds) and stub.crds:
            target = places["files" if stub.owned else "crds"] / path.name
            target.write_text(_crd(path, loose=loose))


def _crd(path: Path, *, loose: bool) -> str:
    """A CRD's text; an older KubeRay's lets newer fields pass unchecked, as `crd_install.loosen` does."""
    text = path.read_text()
    places = NEWER_FIELD_PLACES.get(crd_name(path), ()) if loose else ()
    if not places:
        return text
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    for version in content["spec"]["versions"]:
        for place in places:
            _field(version["schema"]["openAPIV3Schema"], place)[FREE_FORM] = True
    return json.dumps(content)


def _field(schema: dict[str, Any], place: Iterable[str]) -> dict[str, Any]:
    for name in place:
        schema = schema["properties"][name]
    return schema


def redirect() -> None:
    """Let every release of the running program take its chart from the folder of `write`, if there is one.

    Called by the engine's runner in the program's process, before the program itself.
    """
    folder = os.environ.get(FOLDER)
    if folder:
        used = json.loads((Path(folder) / "charts.json").read_text())
        paths = {name: place if place != "stub" else str(Path(folder) / name) for name, place in used.items()}
        pulumi.runtime.register_resource_transform(lambda args: _local(args, paths))


def _local(
    args: pulumi.ResourceTransformArgs, paths: dict[str, str]
) -> pulumi.ResourceTransformResult | None:
    if args.type_ != RELEASE:
        return None
    properties = dict(args.props)
    name = str(properties["chart"]).rpartition("/")[2]
    if name not in paths:
        raise pulumi.RunError(
            f"the chart {name} is not in components/pins.py, so the rehearsal has no stub for it"
        )
    properties.pop("repositoryOpts", None)
    return pulumi.ResourceTransformResult({**properties, "chart": paths[name]}, args.opts)
