"""What a runner of Pulumi Deployments does before `pulumi up`: plain text, tested as it stands.

The order is: tools, environment, the offline rules, a preview with the policy pack, and only then the update. Rules
between objects fire in an update only after resources exist; the preview shows them before. A command that fails ends the
deployment.
"""

from pathlib import Path
from typing import Final

from components import conventions
from delivery.settings import DeliverySettings

PACK: Final = "policies"
AWS_CLI: Final = "awscli==1.46.3"  # renovate: datasource=pypi depName=awscli
# The kubeconfig calls `aws eks get-token`. The default image has had the AWS CLI (pulumi-docker-containers,
# docker/pulumi/Dockerfile), its documentation does not promise it.
_AWS: Final = (
    "command -v aws || { python3 -m venv /opt/aws-cli && /opt/aws-cli/bin/pip install --quiet "
    f"{AWS_CLI} && ln -s /opt/aws-cli/bin/aws /usr/local/bin/aws; }}"
)
_SETUP: Final = "make setup"  # Python 3.11 to 3.13 and exact requirements, or a sentence and no deployment


def pack_config(folder: Path, stack: str) -> str | None:
    """The stack's config of the policy pack, where there is one."""
    path = f"{PACK}/config.{stack}.json"
    return path if (folder / path).is_file() else None


def environment(config: str | None) -> dict[str, str]:
    """Variables of every operation.

    Each flag of the CLI is also a variable (since 3.208.0). So the pack is enforced in the update itself too; that Pulumi
    Deployments hands these to its `pulumi up` was never seen, and the preview before it does not depend on them.
    """
    return {
        "PULUMI_OPTION_POLICY_PACK": PACK,
        **({"PULUMI_OPTION_POLICY_PACK_CONFIG": config} if config else {}),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }


def before(settings: DeliverySettings, stack: str, config: str | None) -> list[str]:
    """Commands before the operation; each runs in a shell of its own. Destroy and refresh are not judged by the rules."""
    name = f"{settings.organization}/{conventions.PROJECT}/{stack}"
    with_config = f" --policy-pack-config {config}" if config else ""
    preview = f"pulumi preview --non-interactive --stack {name} --policy-pack {PACK}{with_config}"
    return [
        _AWS,
        _SETUP,
        f"case $PULUMI_CI_OPERATION in update|preview) .venv/bin/llmp preview --stack {stack};; esac",
        f"case $PULUMI_CI_OPERATION in update) {preview};; esac",
    ]
