"""The preview as a pull request comment: verdicts and findings first, a picture, details folded."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.sizing.price import Dollars
from guardrails.core import Finding, Severity
from preview.build import Preview
from preview.mermaid import diagram
from preview.shape import cluster_line, count_by_package, model_rows, short_type, verdict_of
from preview.sizes import cost_line, quota_lines, verdict_lines

MARKER = "<!-- llm-platform preview: {stack} -->"  # the workflow finds its own comment by it
_ICONS = {Severity.ERROR: "🛑", Severity.WARN: "⚠️", Severity.ADVICE: "💡"}
_SHOWN_UNKNOWN = 60


def as_markdown(preview: Preview, base: Mapping[str, Any] | None = None) -> str:
    """The report as Markdown. ``base`` is the JSON preview of the branch that this one is compared with."""
    parts = [
        MARKER.format(stack=preview.stack),
        *_head(preview),
        *_models(preview),
        *_findings(preview.findings),
    ]
    if base is not None:
        parts += _changes(preview, base)
    if preview.registrations:
        parts += ["", "### The stack", "```mermaid", diagram(preview), "```", *_details(preview)]
    return "\n".join(parts) + "\n"


def _head(preview: Preview) -> Iterator[str]:
    counts = ", ".join(f"{number} {name}" for name, number in count_by_package(preview.registrations).items())
    yield f"## Stack `{preview.stack}` {verdict_of(preview)}"
    yield f"{preview.settings.region}, {cluster_line(preview.settings)}. "
    yield f"{len(preview.registrations)} resources ({counts})." if counts else "Nothing was registered."


def _models(preview: Preview) -> Iterator[str]:
    yield "\n### Models"
    yield "| model | runs on | shape | replicas | serving | weights | endpoint |"
    yield "|---|---|---|---|---|---|---|"
    for row in model_rows(preview.settings):
        where = (
            f"`{row.pool}`: {', '.join(row.instance_types)} ({', '.join(row.capacity)})"
            if row.pool
            else "CPU"
        )
        shape = f"TP {row.tensor_parallel} x PP {row.pipeline_parallel}, {row.context} tokens"
        low, high = row.replicas
        yield f"| `{row.name}` | {where} | {shape} | {low} to {high} | {row.serving} | {row.loader} | {row.endpoint} |"
    for verdict in preview.size.verdicts:
        yield f"\n**{verdict.name}**"
        yield from (f"- {line}" for line in verdict_lines(verdict))
    yield f"\n{cost_line(preview.size)}"


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield "\n### Findings"
    if not findings:
        yield "None."
    for finding in findings:
        remedy = f" {finding.remedy}" if finding.remedy else ""
        yield f"- {_ICONS[finding.severity]} **{finding.place}**: {finding.sentence if finding.file else finding.message} (`{finding.rule}`){remedy}"


def _changes(preview: Preview, base: Mapping[str, Any]) -> Iterator[str]:
    """Resources that the branch adds, removes or changes, against the base's JSON."""
    before = {r["urn"]: r for r in base["resources"]}
    after = {r.urn: r for r in preview.registrations}
    added = [r for urn, r in after.items() if urn not in before]
    removed = [before[urn] for urn in before if urn not in after]
    changed = [r for urn, r in after.items() if urn in before and before[urn]["inputs"] != r.inputs]
    yield f"\n### Against the base: {len(added)} added, {len(changed)} changed, {len(removed)} removed"
    yield _money(preview.size.usd_per_month, base.get("sizing", {}).get("usdPerMonth"))
    for sign, names in (
        ("+", [f"{short_type(r)} `{r.name}`" for r in added]),
        ("~", [f"{short_type(r)} `{r.name}`" for r in changed]),
        ("-", [f"{r['type']} `{r['name']}`" for r in removed]),
    ):
        yield from (f"- {sign} {name}" for name in names)


def _money(now: Dollars, before: Sequence[float] | None) -> str:
    """What the change adds to the month, at the floor and at the ceiling."""
    if before is None:
        return "The base's preview has no cost to compare with."
    parts = (("floor", now.low - before[0], now.low), ("ceiling", now.high - before[1], now.high))
    return (
        "Instances a month: "
        + "; ".join(f"{end} {round(change):+,} USD to ${total:,.0f}" for end, change, total in parts)
        + "."
    )


def _details(preview: Preview) -> Iterator[str]:
    kinds = Counter(short_type(r) for r in preview.registrations)
    yield from _folded(
        f"{len(preview.registrations)} resources by type",
        (f"- {n} {kind}" for kind, n in kinds.most_common()),
    )
    unknown = [f"- `{r.name}`: `{path}`" for r, path in preview.unknown]
    more = [f"- and {len(unknown) - _SHOWN_UNKNOWN} more"] if len(unknown) > _SHOWN_UNKNOWN else []
    quotas = [f"- {line}" for line in quota_lines(preview.size)]
    yield from _folded(f"{len(quotas)} EC2 quotas that the ceiling needs", quotas)
    yield from _folded(
        f"{len(unknown)} values not known before an update", [*unknown[:_SHOWN_UNKNOWN], *more]
    )
    if preview.placeholders:
        yield f"\nA placeholder stood in for the secrets {', '.join(f'`{key}`' for key in preview.placeholders)}."


def _folded(summary: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield f"\n<details><summary>{summary}</summary>\n"
    yield from lines
    yield "\n</details>"
