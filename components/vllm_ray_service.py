"""One model: its Ray cluster with vLLM, what protects it, and its host name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components import conventions
from components.kubernetes_object import KubernetesObject
from components.manifests.disruption import disruption_budgets
from components.manifests.ingress import model_ingress
from components.manifests.network_policies import Neighbours, around_stack, network_policies
from components.manifests.ray_pods import ServedModel, service_account
from components.manifests.ray_service import ray_service, service_name
from components.manifests.scaling import code_of
from components.manifests.serve import serve_text, streams_from_bucket
from components.manifests.weights import bucket_of
from components.settings.models import Model
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool


@dataclass(frozen=True, kw_only=True)
class VllmRayServiceArgs:
    """What a model is served with.

    The namespace, the priority class and the secrets of `conventions.SECRETS` that the model needs must be there: a Ray
    token where it asks for one, keys where the endpoint does, a password where it uses Redis.

    Attributes:
        model: the model.
        platform: namespace, images, endpoint and CPU pool of the stack.
        pool: GPU pool of the model; None for a model on CPU.
        bucket: name of the stack's bucket; needed only where the engine streams weights from it.
        redis_address: `rediss://host:port` of the stack's Redis, for a model that asks for Redis and names no address.
        redis_password: whether Redis takes the password of the secret.
        ray_token_secret: secret with the Ray token; None lets KubeRay make one.
        role_arn: AWS role for the model's pods, handed over by EKS Pod Identity. A stack's `ModelStorage` does that by
            itself for models that read S3.
        prometheus: address of a Prometheus that scrapes the Ray pods, for the scaling policy. None: the stack's own;
            without observability there is none, and the policy counts requests in flight.
        operator_namespace: where KubeRay runs.
        networks: networks of the load balancer and of Redis. Unset: the subnets that the stack makes, or all private ranges.
        priority_class: priority class of the pods, or None.
        wait_until_ready: whether Pulumi waits until the model answers. Where no KubeRay runs it would wait in vain.
    """

    model: Model
    platform: PlatformSettings
    pool: GpuPool | None = None
    bucket: pulumi.Input[str] | None = None
    redis_address: pulumi.Input[str] | None = None
    redis_password: bool = True
    ray_token_secret: str | None = conventions.SECRETS["rayAuthToken"][0]
    role_arn: pulumi.Input[str] | None = None
    prometheus: str | None = None
    operator_namespace: str = conventions.KUBERAY_NAMESPACE
    networks: tuple[str, ...] = ()
    priority_class: str | None = conventions.SERVING_PRIORITY_CLASS
    wait_until_ready: bool = True


class VllmRayService(pulumi.ComponentResource):
    """A model behind an OpenAI-compatible API, on a Ray cluster of its own.

    Makes:
    * the service account of its pods and, with a role, its EKS Pod Identity association
    * network policies: HTTP from the load balancer, metrics from monitoring, the head's ports for nobody outside
    * disruption budgets of workers and ingress pods, where there is a pod to spare
    * the ConfigMap with the scaling policy and the ingress that checks keys
    * the RayService: head without GPU, CPU ingress group (unless vLLM itself answers), workers, Serve document
    * the Ingress with its host name, where the stack has an endpoint
    """

    service: str
    """Name of the Service for HTTP on port 8000, known at preview."""
    url: str | None
    """Address of the OpenAI API from outside, known at preview; None without an endpoint."""

    def __init__(
        self, name: str, args: VllmRayServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:VllmRayService", name, None, opts)
        self._name, self._args = name, args
        model, platform = args.model, args.platform
        before = [
            *self._place([service_account(model, platform)]),
            *self._place(network_policies(model, platform, _neighbours(args))),
            *self._place(disruption_budgets(model, platform)),
            *self._place([code_of(model, platform)]),
            *self._identity(),
        ]
        service = ray_service(_served(args), _serve_text(args), wait=args.wait_until_ready)
        served = self._place([service], before)
        if ingress := model_ingress(model, platform, wait=args.wait_until_ready):
            self._place([ingress], served)
        self.service = service_name(model)
        self.url = _url(model, platform)
        self.register_outputs({"service": self.service, "url": self.url})

    def _place(
        self, manifests: Iterable[Mapping[str, Any]], after: Iterable[pulumi.Resource] = ()
    ) -> list[pulumi.Resource]:
        """Place objects under names of their kind and, of several of a kind, what their own names add to the model's."""
        opts = pulumi.ResourceOptions(parent=self, depends_on=[*after])
        placed: list[pulumi.Resource] = []
        for manifest in manifests:
            kind, own = manifest["kind"].lower(), manifest["metadata"]["name"]
            extra = own.removeprefix(f"{self._args.model.name}-") if kind in _SEVERAL else ""
            placed.append(KubernetesObject("-".join(filter(None, (self._name, kind, extra))), manifest, opts))
        return placed

    def _identity(self) -> list[pulumi.Resource]:
        args = self._args
        if args.role_arn is None:
            return []
        return [
            aws.eks.PodIdentityAssociation(
                f"{self._name}-identity",
                cluster_name=args.platform.cluster_name,
                namespace=args.platform.namespace,
                service_account=conventions.model_service_account(args.model.name),
                role_arn=args.role_arn,
                opts=pulumi.ResourceOptions(parent=self),
            )
        ]


_SEVERAL = frozenset({"networkpolicy", "poddisruptionbudget"})


def _prometheus(args: VllmRayServiceArgs) -> str | None:
    own = conventions.PROMETHEUS_ADDRESS if args.platform.observability.enabled else None
    return args.prometheus or own


def _served(args: VllmRayServiceArgs) -> ServedModel:
    return ServedModel(
        model=args.model,
        pool=args.pool,
        platform=args.platform,
        prometheus=_prometheus(args),
        priority_class=args.priority_class,
        ray_token_secret=args.ray_token_secret,
        redis_address=args.redis_address,
        redis_password=args.redis_password,
    )


def _neighbours(args: VllmRayServiceArgs) -> Neighbours:
    given = {"balancer": args.networks, "redis": args.networks} if args.networks else {}
    return around_stack(
        args.platform,
        operator_namespace=args.operator_namespace,
        prometheus=_prometheus(args),
        **given,
    )


def _serve_text(args: VllmRayServiceArgs) -> pulumi.Input[str]:
    """The Serve document. Only where weights are streamed from a bucket yet to be made is it unknown at preview."""
    model, pool, platform, bucket = args.model, args.pool, args.platform, args.bucket
    if not streams_from_bucket(model) or bucket is None or isinstance(bucket_of(model, bucket), str):
        return serve_text(model, pool, platform, bucket if isinstance(bucket, str) else None)
    return pulumi.Output.from_input(bucket).apply(lambda known: serve_text(model, pool, platform, known))


def _url(model: Model, platform: PlatformSettings) -> str | None:
    host = platform.host_of(model)
    if host is None or platform.endpoint is None:
        return None
    return f"{'https' if platform.endpoint.certificate_arn else 'http'}://{host}/v1"
