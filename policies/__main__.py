"""The policy pack as the engine starts it: `python -u -m pulumi.policy <engine> <this folder>`.

`PolicyPack` starts a gRPC server, prints its port and never returns, so it is made here only.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
if not (HERE / "components").is_dir():  # in the repository; the bundle brings its own copy
    sys.path.insert(1, str(HERE.parent))

from crossguard import NAME, policies  # noqa: E402 - needs the path above
from pulumi_policy import EnforcementLevel, PolicyPack  # noqa: E402

PolicyPack(
    name=NAME,
    policies=policies(),
    enforcement_level=EnforcementLevel.MANDATORY,
    display_name="LLM platform guardrails",
    description="Rules for self-hosted LLM serving on EKS, over single objects and between them.",
    repository="llm-platform/policies",
)
