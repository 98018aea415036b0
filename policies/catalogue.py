"""Writes docs/guardrails.md: every rule by theme, from the rules themselves.

python policies/catalogue.py [FILE]
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "policies")]

from guardrails.core import Profile, Rule  # noqa: E402 - the path comes first where this runs as a script
from guardrails.rules import THEMES  # noqa: E402

TARGET = ROOT / "docs" / "guardrails.md"
HEADER = """# Guardrails: the rules, and where they run

One set of rules, `policies/guardrails/`, over plain data. They look at all objects together: most real mistakes lie
between a pod and its nodes, a model and its GPUs, a monitor and its port. This page is written by `policies/catalogue.py`.

| Front | Command | What it judges |
|---|---|---|
| typed stacks | `llmp preview`, `python __main__.py` in an update | settings, before anything is made from them |
| policy pack | `pulumi preview --policy-pack policies --policy-pack-config policies/config.<stack>.json` | every resource, AWS too |
| manifests | `llmp check PATH...`, `helm template CHART \\| llmp check -`, `kustomize build \\| llmp check -` | anybody's YAML and JSON |

**Severities.** An *error* stops: the object does not work, or lets everybody in. A *warn* is shown and does not stop: it
works today. *Advice* is for the report. The severity in the tables is the usual one; a rule lowers it where the same
thing is harmless (a head with a GPU that a pipeline needs, a floating tag in dev) and the finding says so.

**Profiles.** *General* rules hold for everybody's manifests. *House* rules are what this program's own manifests always
have; `llmp check --profile house` applies them to others.

**Order of an update.** Rules between objects see resources only after they are made. So: `pulumi preview` with the pack, then
`pulumi up` with the pack. What one resource decides alone is stopped before it is made in either.

**Values that are not known in a preview.** A rule that needs one says `could not be decided` with the value's path, and
nothing that is unknown is called wrong. On this program's stacks only policy documents of AWS wait for the update
(`iam-wildcard`, `resource-policy-public`, `bucket-without-tls-rule`).

**Overrides and waivers** stand in the stack (`policy.overrides`, `policy.waivers`) or in the pack's config (`rules`,
`waivers`). Both need a reason. A waiver names an object and a last day, and is an error from the next day on.

**What the rules do not see.** Objects inside a Helm chart (only its values; render it and check that), quotas and what already
runs in the cluster, whether a bucket holds the model. Sizes of models that are not in the table are taken from their
names. Secrets arrive in a policy pack as plain text, so a secret in chart values looks like a literal there.

"""


def catalogue() -> str:
    """The page."""
    parts = [HEADER.rstrip("\n")]
    for theme in THEMES:
        title = (theme.__doc__ or "").splitlines()[0].rstrip(".")
        parts.append(
            f"\n## {title}\n\n| Rule | Usual severity | Sentence | Why | Source |\n|---|---|---|---|---|"
        )
        parts += [_row(rule) for rule, _ in theme.RULES]
    return "\n".join(parts) + "\n"


def _row(rule: Rule) -> str:
    house = ", house" if rule.profile is Profile.HOUSE else ""
    source = f"{rule.source}; {rule.framework}" if rule.framework else rule.source
    cells = (f"`{rule.id}`", f"{rule.severity.value}{house}", rule.sentence, rule.why, source)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.write_text(catalogue(), encoding="utf-8")
