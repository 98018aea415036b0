"""The bucket with the weights, who may read it, and how they get into pods."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components import conventions, identity
from components.cluster import ClusterHandle
from components.kubernetes_object import KubernetesObject
from components.manifests import iam, storage, weights
from components.manifests.iam.storage import BucketArn, read_policy, write_policy
from components.settings import PlatformSettings
from components.settings.models import Loader, Model
from components.weights_bucket import MadeBucket, make_bucket


@dataclass(frozen=True, kw_only=True)
class ModelStorageArgs:
    """What the storage is made of.

    Attributes:
        settings: the stack's bucket, models, pools and deletion settings.
        cluster: where volumes and jobs are placed.
        driver_role: name of the S3 CSI driver's role, when the driver is not the cluster's own.
    """

    settings: PlatformSettings
    cluster: ClusterHandle
    driver_role: pulumi.Input[str] | None = None


class ModelStorage(pulumi.ComponentResource):
    """Weights of the stack's models, from the bucket to the pods.

    Makes:
    * the bucket (`weights_bucket`), unless it exists or no model needs it;
    * permission to read it for the S3 CSI driver, and for each model that reads S3 by itself (streamer, LoRA adapters) a
      role for its own weights only, handed to its service account by Pod Identity (or the role that the model names);
    * per model a volume and a claim of its folder;
    * on pools of models with the NVMe cache, the filler of that cache;
    * per model that comes from Hugging Face, the job that brings it into the bucket, with a role that reads and adds.

    An update waits for the jobs, so a model's pods start when its weights are whole. The jobs run on the CPU pool: the
    component depends on the pools.
    """

    bucket_name: pulumi.Input[str] | None
    """Name of the stack's bucket, plain when the settings name it; None when no model needs one."""
    read_policy_arn: pulumi.Output[str] | None = None
    """Policy to read all weights; an S3 CSI driver that this stack does not install needs it on its role."""

    def __init__(self, name: str, args: ModelStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:ModelStorage", name, None, opts)
        self._name, self._args, self._settings = name, args, args.settings
        self._made_up_arn: pulumi.Output[str] | None = None
        stored = [model for model in self._settings.models if model.source.kind != "path"]
        bucket = self._make_bucket(stored)
        self.bucket_name = bucket.name if bucket else self._settings.storage.bucket
        ready = [*args.cluster.ready, *(bucket.resources if bucket else ())]
        if args.cluster.aws:
            ready += [*self._let_driver_read(stored), *self._give_identities()]
        volumes = [
            placed
            for model in stored
            for placed in self._place(
                "weights", model.name, storage.volume(model, self._settings, self.bucket_name), ready
            )
        ]
        downloads = self._download(stored, ready)
        for pool in self._settings.gpu_pools:
            filler = storage.cache_filler(pool, self._settings.models, self._settings)
            # Nodes are filled with what the jobs have brought: the other way round they would wait for it in vain.
            self._place("cache", pool.name, filler, [*ready, *volumes, *downloads])
        self.register_outputs({"bucketName": self.bucket_name, "readPolicyArn": self.read_policy_arn})

    def _child(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self, depends_on=list(depends_on))

    def _make_bucket(self, stored: Sequence[Model]) -> MadeBucket | None:
        """The stack's own bucket, where a model lies in it and it does not exist yet."""
        settings = self._settings
        if settings.storage.existing or not any(weights.bucket_of(model, None) is None for model in stored):
            return None
        partition = self._args.cluster.scope("making a bucket for weights").partition
        return make_bucket(self._name, partition, settings.storage, settings.deletion, self)

    def _arn(self, bucket: Any, folder: str = "") -> BucketArn:
        """ARN of a bucket and of all in it, or only of what lies in ``folder``."""
        partition = iam.partition_of(self._args.cluster.region)
        if isinstance(bucket, str):
            return BucketArn.of(partition, bucket, folder.strip("/"))
        # Only the stack's own bucket has a name that AWS makes up.
        arn = self._made_up_arn = self._made_up_arn or pulumi.Output.concat(f"arn:{partition}:s3:::", bucket)
        return BucketArn(bucket=arn, objects=pulumi.Output.concat(arn, f"/{folder}*"))

    def _arn_of(self, model: Model) -> BucketArn:
        return self._arn(weights.bucket_of(model, self.bucket_name), weights.weights_folder(model))

    def _policy(self, what: str, document: Mapping[str, Any]) -> aws.iam.Policy:
        return aws.iam.Policy(
            f"{self._name}-{what}",
            description=f"Weights of {self._args.cluster.name}: {what}",
            policy=pulumi.Output.json_dumps(document),
            opts=self._child(),
        )

    def _let_driver_read(self, stored: Sequence[Model]) -> list[pulumi.Resource]:
        """The stack's bucket as a whole, so that a new model changes no policy; of other buckets the models' folders."""
        if not stored:
            return []
        own = [model for model in stored if weights.bucket_of(model, None) is None]
        elsewhere = [model for model in stored if weights.bucket_of(model, None) is not None]
        arns = [self._arn(self.bucket_name)] * bool(own) + [self._arn_of(model) for model in elsewhere]
        policy = self._policy("read", read_policy(arns, self._settings.storage.kms_key_arn))
        self.read_policy_arn = policy.arn
        role = self._args.driver_role or self._args.cluster.s3_csi_role
        if role is None:
            return [policy]
        return [policy, identity.attach(f"{self._name}-read-of-driver", role, policy.arn, self._child())]

    def _give_identities(self) -> list[pulumi.Resource]:
        """To models whose own process reads S3, or that bring a role of their own."""
        granted: list[pulumi.Resource] = []
        for model in self._settings.models:
            arns = [self._arn_of(model)] if model.loader is Loader.STREAMER else []
            if model.engine.lora:
                bucket, _, folder = model.engine.lora.path.removeprefix("s3://").partition("/")
                arns.append(self._arn(bucket, folder))
            if arns or model.identity_role_arn:
                granted.append(self._give_identity(model, arns))
        return granted

    def _give_identity(self, model: Model, arns: Sequence[BucketArn]) -> pulumi.Resource:
        account = self._account(conventions.model_service_account(model.name))
        name = f"{self._name}-identity-{model.name}"
        if model.identity_role_arn:
            return aws.eks.PodIdentityAssociation(
                name,
                cluster_name=account.cluster,
                namespace=account.namespace,
                service_account=account.name,
                role_arn=model.identity_role_arn,
                opts=self._child(*self._args.cluster.ready),
            )
        policy = self._policy(f"read-{model.name}", read_policy(arns, self._settings.storage.kms_key_arn))
        role = identity.pod_role(
            f"{self._name}-reader-{model.name}", account, {"policy": policy.arn}, self._child()
        )
        return identity.associate(name, role, self._child(*self._args.cluster.ready))

    def _account(self, service_account: str) -> identity.ServiceAccount:
        return identity.ServiceAccount(
            cluster=self._args.cluster.name, namespace=self._settings.namespace, name=service_account
        )

    def _download(self, stored: Sequence[Model], ready: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:
        """The jobs that bring models from Hugging Face, with one role for all of them.

        Their service account is the platform's, as are the secret and the namespace.
        """
        wanted = [model for model in stored if weights.hub_source(model)]
        if not wanted:
            return []
        needed = [*ready]
        if self._args.cluster.aws:
            arns = [self._arn_of(model) for model in wanted]
            policy = self._policy("write", write_policy(arns, self._settings.storage.kms_key_arn))
            role = identity.pod_role(
                f"{self._name}-writer",
                self._account(conventions.DOWNLOAD_SERVICE_ACCOUNT),
                {"policy": policy.arn},
                self._child(),
            )
            needed.append(
                identity.associate(
                    f"{self._name}-identity-of-download", role, self._child(*self._args.cluster.ready)
                )
            )
        return [
            placed
            for model in wanted
            for placed in self._place(
                "download",
                model.name,
                storage.download_job(model, self._settings, self.bucket_name),
                needed,
            )
        ]

    def _place(
        self,
        what: str,
        last: str,
        manifests: Iterable[Mapping[str, Any]],
        depends_on: Sequence[pulumi.Resource],
    ) -> list[pulumi.Resource]:
        """Place objects one after the other: a claim after its volume, a pod after its code."""
        placed: list[pulumi.Resource] = []
        for manifest in manifests:
            kind = re.sub(r"(?<!^)(?=[A-Z])", "-", manifest["kind"]).lower()
            opts = self._child(*depends_on, *placed)
            placed.append(KubernetesObject(f"{self._name}-{what}-{kind}-{last}", manifest, opts))
        return placed
