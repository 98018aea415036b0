"""The rules of `policies/guardrails`, asked before a program registers anything.

The pack asks them again inside the engine. `policies/` is a folder of its own (the engine starts the pack there), so its
import name is `guardrails`, and this module is where the program puts it on the path.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import pulumi

from components.settings import PlatformSettings, stack_file
from components.settings.load import StackRefused

_POLICIES = str(Path(__file__).resolve().parent.parent / "policies")
if _POLICIES not in sys.path:
    sys.path.append(_POLICIES)

from guardrails.core import Finding, Severity, dotted  # noqa: E402 - needs the path above
from guardrails.run import check_settings  # noqa: E402


class StackBroken(StackRefused):
    """The settings break a mandatory rule; ``findings`` holds all findings, also the milder ones."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        mandatory = (finding for finding in self.findings if finding.severity is Severity.ERROR)
        super().__init__("\n".join(map(sentence, mandatory)))


def refuse_mistakes(settings: PlatformSettings, folder: Path | None = None) -> None:
    """Refuse a stack that cannot work or breaks a mandatory rule, before anything is registered.

    Raises:
        StackBroken: with every such finding as `Pulumi.<stack>.yaml:LINE: path: sentence`.
    """
    folder = folder or Path.cwd()
    path = folder / f"Pulumi.{pulumi.get_stack().rpartition('/')[2]}.yaml"
    file = stack_file.read(path) if path.exists() else None
    findings = check_settings(settings, file=path.name, locate=file.line_of if file else None, folder=folder)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise StackBroken(findings)


def sentence(finding: Finding) -> str:
    """A finding as one line: place, path, what is wrong, the rule, what to do."""
    return f"{finding.place}: {dotted(finding.path)}: {finding.message} [{finding.rule}]; {finding.remedy}"
