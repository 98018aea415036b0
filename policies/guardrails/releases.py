"""Helm releases, whatever makes them: Pulumi, Flux, Argo CD; and EKS add-ons, whose settings are values too."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from guardrails.core import Path
from guardrails.objects import Subject
from guardrails.reading import inner_mapping
from guardrails.values import Hidden, get, mapping, plain, text

PULUMI_RELEASES = (
    "kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v3:Chart", "kubernetes:helm.sh/v4:Chart",
    "kubernetes:helm.sh:Chart",
)  # fmt: skip
ADDON_TYPES = ("aws:eks/addon:Addon", "eks:index:Addon", "eks:index/addon:Addon")


@dataclass(eq=False)
class Release:
    """One release: chart, version, values, and where the three stand."""

    subject: Subject
    chart: str
    version: str | None
    version_hidden: bool
    values: dict[str, object]
    version_path: Path
    values_path: Path
    is_addon: bool = False

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"{self.subject.label} ({'add-on' if self.is_addon else 'chart'} {self.chart})"


def releases_of(subject: Subject) -> Release | None:
    """The release that an object makes, if it makes one."""
    if subject.api in PULUMI_RELEASES:
        return _release(subject, ("chart",), ("version",), ("values",))
    if subject.api in ADDON_TYPES:
        return _addon(subject)
    if subject.kind == "HelmRelease" and subject.group.startswith("helm.toolkit.fluxcd.io"):
        chart: Path = ("spec", "chart", "spec")
        return _release(subject, (*chart, "chart"), (*chart, "version"), ("spec", "values"))
    if (
        subject.kind == "Application"
        and subject.group == "argoproj.io"
        and subject.get("spec", "source", "chart")
    ):
        return _release(
            subject, ("spec", "source", "chart"), ("spec", "source", "targetRevision"),
            ("spec", "source", "helm", "valuesObject"),
        )  # fmt: skip
    return None


def _release(subject: Subject, chart: Path, version: Path, values: Path) -> Release:
    written = subject.get(*version)
    name = (text(subject.get(*chart)) or "").rstrip("/").rpartition("/")[2]
    return Release(
        subject,
        name,
        text(written),
        isinstance(written, Hidden),
        mapping(subject.get(*values)),
        version,
        values,
    )


def _addon(subject: Subject) -> Release:
    written, version = subject.get("configurationValues"), subject.get("addonVersion")
    values = mapping(plain(inner_mapping(written) if isinstance(written, str) else written))
    return Release(
        subject, text(subject.get("addonName")) or subject.name, text(version), isinstance(version, Hidden), values,
        ("addonVersion",), ("configurationValues",), is_addon=True,
    )  # fmt: skip


def images_in(values: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Image references in chart values: `image: {repository, tag}` in its usual spellings."""
    if isinstance(values, list):
        for index, item in enumerate(values):
            yield from images_in(item, (*path, index))
    if not isinstance(values, dict):
        return
    repository, tag = text(values.get("repository")), text(values.get("tag"))
    if repository and tag and path and "image" in str(path[-1]).lower():
        digest = text(values.get("digest"))
        registry = text(values.get("registry"))
        name = f"{registry}/{repository}" if registry else repository
        yield (*path, "tag"), f"{name}:{tag}" + (f"@{digest}" if digest else "")
    for key, item in values.items():
        if isinstance(item, str) and key == "image" and ("/" in item or ":" in item):
            yield (*path, key), item
        else:
            yield from images_in(item, (*path, key))


def tolerations(values: Mapping[str, object], *path: str) -> object:
    """Tolerations below a path of chart values."""
    return get(values, *path, "tolerations")
