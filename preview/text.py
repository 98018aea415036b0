"""The preview for a terminal."""

from collections import Counter
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text
from rich.tree import Tree

from guardrails.core import Finding, Severity
from preview.build import Preview, is_kubernetes_object
from preview.monitor import Registration
from preview.shape import (
    ModelRow,
    children,
    cluster_line,
    count_by_package,
    model_rows,
    short_type,
    verdict_of,
)
from preview.sizes import cost_line, quota_lines, verdict_lines

_NOTHING = "No resource was registered: the errors above stop the program first, as in pulumi up."
_STYLES = {Severity.ERROR: "bold red", Severity.WARN: "yellow", Severity.ADVICE: "cyan"}


def print_report(preview: Preview, console: Console) -> None:
    """Print the whole report: models, findings, resources, and what only an update can tell."""
    for part in _parts(preview):
        console.print(part)


def _parts(preview: Preview) -> Iterator[RenderableType]:
    settings = preview.settings
    yield Text(f"{preview.stack}: {settings.region}, {cluster_line(settings)}", style="bold")
    yield Text("\nModels", style="bold")
    verdicts = {verdict.name: verdict for verdict in preview.size.verdicts}
    for row in model_rows(settings):
        yield from _model(row)
        if row.name in verdicts:
            yield from (Text(f"    {line}") for line in verdict_lines(verdicts[row.name]))
    yield Text("\nCost and quotas at the ceiling", style="bold")
    yield Text(f"  {cost_line(preview.size)}")
    yield from (Text(f"  {line}", style="dim") for line in quota_lines(preview.size))
    yield Text("\nFindings", style="bold")
    yield from map(_finding, preview.findings)
    if not preview.findings:
        yield Text("  none")
    if preview.registrations:
        yield Text(f"\nResources: {_counts(preview)}", style="bold")
        yield _tree(preview)
        yield Text("\nNot known before an update", style="bold")
        yield from _unknown(preview)
    else:
        yield Text(f"\n{_NOTHING}", style="bold red")
    yield Text(f"\n{verdict_line(preview)}", style="bold red" if preview.refused else "bold")


def verdict_line(preview: Preview) -> str:
    """The last line: whether the stack can go up, and how many findings stand above."""
    counts = Counter(finding.severity for finding in preview.findings)
    found = ", ".join(f"{counts[severity]} {severity.value}" for severity in Severity if counts[severity])
    return f"Stack {preview.stack} {verdict_of(preview)}. Findings: {found or 'none'}."


def _counts(preview: Preview) -> str:
    counts = count_by_package(preview.registrations)
    return (
        f"{len(preview.registrations)} ({', '.join(f'{number} {name}' for name, number in counts.items())})"
    )


def _model(row: ModelRow) -> Iterator[Text]:
    where = f"{row.pool}: {', '.join(row.instance_types)} ({', '.join(row.capacity)})" if row.pool else "CPU"
    shape = f"TP {row.tensor_parallel}" + (
        f" x PP {row.pipeline_parallel}" if row.pipeline_parallel > 1 else ""
    )
    low, high = row.replicas
    yield Text(f"  {row.name}", style="bold")
    yield Text(f"    {shape}, {row.context} tokens of context, on {where}")
    yield Text(
        f"    {low} to {high} replicas, {row.serving}, weights by {row.loader}; Ray {row.ray}, vLLM {row.vllm}"
    )
    yield Text(f"    {row.endpoint}  model={row.api_name}")


def _finding(finding: Finding) -> Text:
    text = Text("  ")
    text.append(f"{finding.severity.value:6} ", style=_STYLES[finding.severity])
    text.append(f"{finding.place}: {_said(finding)} [{finding.rule}]")
    if finding.remedy:
        text.append(f"\n         {finding.remedy}", style="dim")
    return text


def _said(finding: Finding) -> str:
    """What is wrong, led by the object unless that is the place already."""
    return finding.sentence if finding.file else finding.message


def _tree(preview: Preview) -> Tree:
    below = children(preview.registrations)
    names = {r.urn: r.name for r in preview.registrations}
    root = Tree(f"pulumi.Stack llm-platform-{preview.stack}", guide_style="dim")

    def add(parent: Tree, registration: Registration) -> None:
        count = len(below.get(registration.urn, []))
        branch = parent.add(
            f"{short_type(registration)} {_name(registration, names)}" + (f" ({count})" if count else "")
        )
        for child in below.get(registration.urn, []):
            add(branch, child)

    for top in below.get(None, []):
        add(root, top)
    return root


def _name(registration: Registration, names: dict[str, str]) -> str:
    """A Kubernetes object shows its own name and the component that is its source; others their name in the program."""
    if not is_kubernetes_object(registration):
        return registration.name
    metadata = registration.inputs.get("metadata", {})
    space = f"{metadata['namespace']}/" if isinstance(metadata.get("namespace"), str) else ""
    return f"{space}{metadata.get('name', registration.name)}, from {names.get(registration.parent or '', 'stack')}"


def _unknown(preview: Preview) -> Iterator[Text]:
    """Unknown values, one line per resource and all their paths; then the secrets that a placeholder stood for."""
    by_resource: dict[str, list[str]] = {}
    for registration, path in preview.unknown:
        by_resource.setdefault(registration.name, []).append(path)
    total = sum(map(len, by_resource.values()))
    yield Text(f"  {total} values of {len(by_resource)} resources, made by AWS:" if total else "  nothing")
    for name, paths in by_resource.items():
        yield Text(f"  {name}: {', '.join(paths)}", style="dim")
    if preview.placeholders:
        yield Text(f"  a placeholder stood in for the secrets {', '.join(preview.placeholders)}")
