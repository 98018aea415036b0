"""How Pulumi Deployments runs one stack of the platform."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_pulumiservice as service

from components import conventions
from delivery import runner
from delivery.settings import DeliverySettings, Deployments

# What an assumed role is called in CloudTrail; the values are filled in by Pulumi Cloud (docs, deployments/guides/oidc/aws).
SESSION_NAME = "${stack.name}-${deployment.operation}-${deployment.version}"


@dataclass(frozen=True, kw_only=True)
class DeploymentArgs:
    """What the deployment settings follow from."""

    stack: str
    settings: DeliverySettings
    deployments: Deployments
    role_arn: pulumi.Input[str]
    paths: Sequence[str]
    pack_config: str | None


class StackDeployment(pulumi.ComponentResource):
    """Push to deploy: what is merged into the stack's branch and changes the stack is previewed, then updated.

    Makes:

    * a runner pool, where the settings name one; its token is the output `pool_token`, for the runners that you start;
    * the deployment settings: branch, paths, previews of pull requests, role, policy pack, tools, runners;
    * a drift schedule.
    """

    pool_token: pulumi.Output[str] | None

    def __init__(self, name: str, args: DeploymentArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:StackDeployment", name, None, opts)
        runners = args.deployments.runners
        pool = self._pool(name, args) if runners.pool else None
        self.pool_token = pool.token_value if pool else None
        settings = service.DeploymentSettings(
            f"{name}-settings",
            organization=args.settings.organization,
            project=conventions.PROJECT,
            stack=args.stack,
            agent_pool_id=pool.agent_pool_id if pool else runners.pool_id,
            executor_context=service.DeploymentSettingsExecutorContextArgs(
                executor_image=args.deployments.executor_image
            ),
            github=_github(args),
            source_context=service.DeploymentSettingsSourceContextArgs(
                git=service.DeploymentSettingsGitSourceArgs(branch=f"refs/heads/{args.settings.branch}")
            ),
            operation_context=_operation(args),
            opts=pulumi.ResourceOptions(parent=self),
        )
        if args.deployments.drift:
            service.DriftSchedule(
                f"{name}-drift",
                organization=args.settings.organization,
                project=conventions.PROJECT,
                stack=args.stack,
                schedule_cron=args.deployments.drift.schedule,
                auto_remediate=args.deployments.drift.remediate,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[settings]),
            )
        self.register_outputs({})

    def _pool(self, name: str, args: DeploymentArgs) -> service.AgentPool:
        return service.AgentPool(
            f"{name}-pool",
            name=args.deployments.runners.pool,
            organization_name=args.settings.organization,
            description=f"Runners inside the VPC of {conventions.PROJECT}/{args.stack}",
            force_destroy=False,
            opts=pulumi.ResourceOptions(parent=self),
        )


def _github(args: DeploymentArgs) -> service.DeploymentSettingsGithubArgs:
    """What starts a deployment."""
    return service.DeploymentSettingsGithubArgs(
        repository=args.settings.repository,
        deploy_commits=True,
        preview_pull_requests=args.deployments.preview_pull_requests,
        pull_request_template=False,  # a stack with GPUs for each pull request is nobody's default
        paths=list(args.paths),
    )


def _operation(args: DeploymentArgs) -> service.DeploymentSettingsOperationContextArgs:
    """What a deployment does, as whom."""
    role = service.AWSOIDCConfigurationArgs(
        role_arn=args.role_arn, session_name=SESSION_NAME, duration=f"{args.deployments.session}0m0s"
    )
    return service.DeploymentSettingsOperationContextArgs(
        environment_variables=runner.environment(args.pack_config),
        pre_run_commands=runner.before(args.settings, args.stack, args.pack_config),
        oidc=service.OperationContextOIDCArgs(aws=role),
        options=service.OperationContextOptionsArgs(
            skip_install_dependencies=True,  # `make setup` installs the exact requirements, and only those
            skip_intermediate_deployments=True,
            delete_after_destroy=False,
        ),
    )
