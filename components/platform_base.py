"""What all models of a stack share inside the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components import conventions
from components.kubernetes_object import KubernetesObject
from components.manifests import base
from components.manifests.weights import hub_source
from components.settings.platform import PlatformSettings


@dataclass(frozen=True, kw_only=True)
class PlatformArgs:
    """What the shared objects are made of.

    Attributes:
        settings: the stack's settings.
        secrets: values by key of `conventions.SECRETS`; each becomes a Kubernetes secret.
    """

    settings: PlatformSettings
    secrets: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)


class Platform(pulumi.ComponentResource):
    """What all models of a stack share inside the cluster.

    Makes:
    * the stack's namespace with Pod Security labels, and the namespaces of the operators that the stack installs
    * where weights are cached on nodes, an admission policy that lets pods have that folder of a node and no more
    * the priority classes of serving and of headroom
    * defaults for containers, and a quota that allows no load balancer beside the stack's own
    * the stack's secrets, and the service account of its download jobs
    """

    namespace: str
    """Name of the stack's namespace, known at preview."""

    def __init__(self, name: str, args: PlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Platform", name, None, opts)
        settings = args.settings
        if unknown := sorted(set(args.secrets) - set(conventions.SECRETS)):
            raise ValueError(f"unknown secrets {', '.join(unknown)}; known: {', '.join(conventions.SECRETS)}")
        own, *others = base.namespaces(settings)
        serving = self._place(name, own)
        for manifest in (*others, *base.priority_classes(), *base.host_path_guard(settings)):
            self._place(name, manifest)
        inside = [base.limit_range(settings), base.resource_quota(settings)]
        if any(hub_source(model) for model in settings.models):
            inside.append(base.download_service_account(settings))
        # Marked here as well: a caller may pass a plain string.
        inside += [
            base.secret(key, pulumi.Output.secret(value), settings) for key, value in args.secrets.items()
        ]
        for manifest in inside:
            self._place(name, manifest, serving)
        self.namespace = settings.namespace
        self.register_outputs({"namespace": self.namespace})

    def _place(self, name: str, manifest: dict[str, Any], *after: pulumi.Resource) -> KubernetesObject:
        what = f"{name}-{manifest['kind'].lower()}-{manifest['metadata']['name']}"
        return KubernetesObject(what, manifest, pulumi.ResourceOptions(parent=self, depends_on=[*after]))
