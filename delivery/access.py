"""The roles by which a stack is updated and previewed, and the identity providers that they trust."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components import conventions
from components.manifests import iam
from components.settings import PlatformSettings
from delivery import names, trust
from delivery.permissions import Place, deployer_policy, preview_policy
from delivery.settings import DeliverySettings, IdentityProviders

_HOUR = 3600


@dataclass(frozen=True, kw_only=True)
class AccessArgs:
    """What the roles follow from."""

    stack: str
    settings: DeliverySettings
    platform: PlatformSettings
    account_id: str

    @property
    def place(self) -> Place:
        """Where the roles are and what they are for."""
        return Place(self.platform, self.account_id)

    @property
    def issuers(self) -> dict[trust.Issuer, str]:
        """Whose tokens are trusted, with the audience of each."""
        return {
            **({trust.PULUMI: self.settings.organization} if self.settings.deployments else {}),
            **({trust.GITHUB: trust.GITHUB_AUDIENCE} if self.settings.actions else {}),
        }

    def provider_arn(self, issuer: trust.Issuer) -> str:
        """ARN of an identity provider, made here or by another stack of the account."""
        return f"arn:{self.place.partition}:iam::{self.account_id}:oidc-provider/{issuer.host}"

    def role_arn(self, name: str) -> str:
        """ARN of a role of the account."""
        return names.role_arn(self.platform.region, self.account_id, name)


class DeliveryAccess(pulumi.ComponentResource):
    """Short-lived credentials for updates of one stack; no key is stored anywhere.

    Makes:

    * with `identityProviders: create` the OIDC provider of Pulumi Cloud and of GitHub, as far as they are used;
    * the deployer's role: taken by deployments of this one stack for the operations that are allowed, by jobs of the
      GitHub environment of the same name, and by the people that the settings name;
    * with GitHub Actions the preview's role, which only reads, for jobs of the environment `<stack>-preview`.
    """

    deployer_arn: str
    preview_arn: str | None

    def __init__(self, name: str, args: AccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:DeliveryAccess", name, None, opts)
        providers = _identity_providers(name, args, self)
        self._name, self._args = name, args
        self._after = pulumi.ResourceOptions(parent=self, depends_on=providers)
        self.deployer_arn = args.role_arn(names.deployer(args.stack))
        self._deployer()
        self.preview_arn = self._preview() if args.settings.actions else None
        self.register_outputs({"deployer_arn": self.deployer_arn, "preview_arn": self.preview_arn})

    def _deployer(self) -> None:
        args, name = self._args, f"{self._name}-deployer"
        hours = int(args.settings.deployments.session.removesuffix("h")) if args.settings.deployments else 2
        role = aws.iam.Role(
            name,
            name=names.deployer(args.stack),
            description=f"Updates the stack {args.stack} of {conventions.PROJECT}",
            assume_role_policy=json.dumps(_deployer_trust(args)),
            max_session_duration=hours * _HOUR,
            permissions_boundary=args.settings.permissions.boundary,
            opts=self._after,
        )
        self._policy(name, role, deployer_policy(args.place))
        for arn in args.settings.permissions.policies:
            aws.iam.RolePolicyAttachment(
                f"{name}-{arn.rpartition('/')[2]}",
                role=role.name,
                policy_arn=arn,
                opts=pulumi.ResourceOptions(parent=self),
            )

    def _preview(self) -> str:
        args, name = self._args, f"{self._name}-preview"
        assert args.settings.actions is not None  # noqa: S101 - asked by the caller
        statement = trust.actions_trust(
            args.provider_arn(trust.GITHUB), args.settings.actions.subject, f"{args.stack}-preview"
        )
        role = aws.iam.Role(
            name,
            name=names.preview(args.stack),
            description=f"Previews the stack {args.stack} of {conventions.PROJECT} for pull requests",
            assume_role_policy=json.dumps(trust.trust(statement)),
            max_session_duration=_HOUR,
            permissions_boundary=args.settings.permissions.boundary,
            opts=self._after,
        )
        self._policy(name, role, preview_policy(args.place))
        return args.role_arn(names.preview(args.stack))

    def _policy(self, name: str, role: aws.iam.Role, policy: iam.Document) -> None:
        aws.iam.RolePolicy(
            f"{name}-policy",
            role=role.name,
            policy=json.dumps(policy),
            opts=pulumi.ResourceOptions(parent=self),
        )


def _deployer_trust(args: AccessArgs) -> iam.Document:
    settings, statements = args.settings, []
    if settings.deployments:
        allowed = trust.operations(settings.deployments)
        provider = args.provider_arn(trust.PULUMI)
        statements.append(trust.deployments_trust(provider, settings.organization, args.stack, allowed))
    if settings.actions:
        statements.append(
            trust.actions_trust(args.provider_arn(trust.GITHUB), settings.actions.subject, args.stack)
        )
    if settings.people:
        statements.append(trust.people_trust(settings.people))
    return trust.trust(*statements)


def _identity_providers(name: str, args: AccessArgs, parent: pulumi.Resource) -> list[pulumi.Resource]:
    if args.settings.identity_providers is IdentityProviders.PRESENT:
        return []
    # Every delivery of the account trusts them, so a destroy of this stack must not take them along.
    opts = pulumi.ResourceOptions(parent=parent, protect=True)
    return [
        aws.iam.OpenIdConnectProvider(
            f"{name}-issuer-{issuer.name}", url=issuer.url, client_id_lists=[audience], opts=opts
        )
        for issuer, audience in args.issuers.items()
    ]
