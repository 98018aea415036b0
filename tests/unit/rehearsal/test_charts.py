"""Charts of a rehearsal: stubs of the same name and version, real ones where they are on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pytest

from components import pins
from rehearsal import charts
from tools.crds import Collected


@pytest.fixture
def collected(tmp_path: Path) -> Collected:
    """Two CRD files, of a chart that owns its CRDs and of one that does not."""
    folder = tmp_path / "crds"
    folder.mkdir()
    for name in ("keda.sh_scaledobjects.yaml", "monitoring.coreos.com_podmonitors.yaml"):
        (folder / name).write_text(f"kind: CustomResourceDefinition # {name}\n")
    return Collected(folder, {path.name: "test" for path in folder.iterdir()}, ())


def test_every_pinned_chart_gets_a_stub(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same name and version; CRDs lie where the real chart has them, which decides whether a destroy takes them."""
    monkeypatch.delenv(charts.ON_DISK, raising=False)
    folder, used = charts.write(tmp_path / "charts", collected)

    assert used == dict.fromkeys((chart.name for chart in pins.CHARTS), "stub")
    for chart in pins.CHARTS:
        described = json.loads((folder / chart.name / "Chart.yaml").read_text())
        assert (described["name"], described["version"]) == (chart.name, chart.version)
    assert (folder / "keda" / "files" / "keda.sh_scaledobjects.yaml").is_file()
    assert (folder / "kube-prometheus-stack" / "crds" / "monitoring.coreos.com_podmonitors.yaml").is_file()


def test_a_chart_on_disk_is_used_as_it_is(
    tmp_path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archive of the pinned version takes the stub's place; one of another version does not."""
    (tmp_path / f"keda-{pins.KEDA.version}.tgz").touch()
    (tmp_path / "kuberay-operator-0.0.1.tgz").touch()
    monkeypatch.setenv(charts.ON_DISK, str(tmp_path))
    _, used = charts.write(tmp_path / "charts", collected)

    assert used["keda"] == str(tmp_path / f"keda-{pins.KEDA.version}.tgz")
    assert used["kuberay-operator"] == "stub"


def _release(chart: str) -> pulumi.ResourceTransformArgs:
    return pulumi.ResourceTransformArgs(
        custom=True,
        type_=charts.RELEASE,
        name="x",
        props={
            "chart": chart,
            "version": "1",
            "values": {"a": 1},
            "repositoryOpts": {"repo": "https://charts"},
        },
        opts=pulumi.ResourceOptions(),
    )


def test_only_the_place_of_a_chart_changes() -> None:
    """Version and values stay; an address in a registry and a name in a repository both find the local chart."""
    paths = {"keda": "local/keda", "karpenter": "local/karpenter"}
    results = [
        charts._local(_release(name), paths) for name in ("keda", "oci://registry/karpenter/karpenter")
    ]

    assert [result.props for result in results if result] == [
        {"chart": "local/keda", "version": "1", "values": {"a": 1}},
        {"chart": "local/karpenter", "version": "1", "values": {"a": 1}},
    ]


def test_an_unpinned_chart_is_refused() -> None:
    """A chart without a pin has no stub, and nothing is downloaded instead."""
    with pytest.raises(pulumi.RunError, match=r"the chart grafana is not in components/pins\.py"):
        charts._local(_release("grafana"), {})
