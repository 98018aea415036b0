"""Who may update one stack of the platform, and how it is done: access, then deployments."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(1, str(ROOT))  # the engine starts the program in its own folder; the library is beside it

import pulumi  # noqa: E402 - needs the path above
import pulumi_aws as aws  # noqa: E402

from delivery.access import AccessArgs, DeliveryAccess  # noqa: E402
from delivery.deployment import DeploymentArgs, StackDeployment  # noqa: E402
from delivery.load import load_delivery  # noqa: E402
from delivery.runner import pack_config  # noqa: E402
from preview.touched import paths_of  # noqa: E402

delivery = load_delivery()
stack, settings, platform = delivery.stack, delivery.settings, delivery.platform
provider = aws.Provider(
    "aws",
    region=platform.region,
    allowed_account_ids=[delivery.account_id],
    default_tags=aws.ProviderDefaultTagsArgs(tags=platform.tags),
)

access = DeliveryAccess(
    "access",
    AccessArgs(stack=stack, settings=settings, platform=platform, account_id=delivery.account_id),
    pulumi.ResourceOptions(providers=[provider]),
)
pulumi.export("deployerRole", access.deployer_arn)
pulumi.export("previewRole", access.preview_arn)
if settings.deployments:
    deployment = StackDeployment(
        "deployment",
        DeploymentArgs(
            stack=stack,
            settings=settings,
            deployments=settings.deployments,
            role_arn=access.deployer_arn,
            paths=paths_of(stack),
            pack_config=pack_config(ROOT, stack),
        ),
        pulumi.ResourceOptions(depends_on=[access]),
    )
    pulumi.export("poolToken", deployment.pool_token)
