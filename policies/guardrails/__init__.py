"""Every rule about meaning, once, over plain objects. No Pulumi.

    from guardrails import check, check_settings

`check` takes Kubernetes objects and Pulumi resources as plain mappings, `check_settings` a typed stack.
"""

from guardrails.core import Finding, Override, Profile, Rule, Severity, Waiver, dotted
from guardrails.intent import from_intent
from guardrails.objects import Source
from guardrails.rules import TABLE
from guardrails.run import check, check_settings, governance, world_of
from guardrails.stack import StackFacts, from_settings
from guardrails.world import EngineDefaults, World

__all__ = [
    "TABLE", "EngineDefaults", "Finding", "Override", "Profile", "Rule", "Severity", "Source", "StackFacts", "Waiver",
    "World", "check", "check_settings", "dotted", "from_intent", "from_settings", "governance", "world_of",
]  # fmt: skip
