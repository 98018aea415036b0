"""The platform, top to bottom: a cluster, what runs in it, and the models it serves."""

from pathlib import Path

import pulumi

from components.addons import Addons, AddonsArgs
from components.cluster import cluster_for
from components.gateway import Gateway, GatewayArgs
from components.gpu_pools import GpuPools, GpuPoolsArgs
from components.guard import refuse_mistakes
from components.headroom import Headroom, HeadroomArgs
from components.karpenter import Karpenter, KarpenterArgs
from components.model_storage import ModelStorage, ModelStorageArgs
from components.observability import Observability, ObservabilityArgs
from components.platform_base import Platform, PlatformArgs
from components.ray_operator import RayOperator, RayOperatorArgs
from components.redis import redis_for
from components.settings.load import load_secrets, load_settings
from components.vllm_ray_service import VllmRayService, VllmRayServiceArgs

here = Path(__file__).parent
platform = load_settings(here)
refuse_mistakes(platform, here)
secrets, installs = load_secrets(platform), platform.operators.installs
cluster = cluster_for(platform)
after = cluster.after  # options: in this cluster, created after the named resources and destroyed before them

base = Platform("platform", PlatformArgs(settings=platform, secrets=secrets), after())
karpenter = Karpenter("karpenter", KarpenterArgs.of(platform, cluster), after())
pools = GpuPools(
    "pools",
    GpuPoolsArgs.of(platform, node_role=karpenter.node_role_name, discovery_tags=cluster.discovery_tags),
    after(karpenter),
)
addons = Addons("addons", AddonsArgs(settings=platform, cluster=cluster), after(base, karpenter))
observability = Observability(
    "observability", ObservabilityArgs(settings=platform, install=installs("monitoring")), after(base, addons)
)
ray = RayOperator("ray", RayOperatorArgs(install=installs("kuberay"), images=platform.images), after(base))
gateway = Gateway("gateway", GatewayArgs(settings=platform, cluster=cluster), after(base))
storage = ModelStorage(
    "storage",
    ModelStorageArgs(settings=platform, cluster=cluster, driver_role=addons.s3_csi_role),
    after(base, pools, addons),
)
redis = redis_for(platform, cluster, secrets.get("redisPassword"), after())
Headroom(
    "headroom", HeadroomArgs(settings=platform, install=installs("keda")), after(base, pools, observability)
)

models = [
    VllmRayService(
        model.name,
        VllmRayServiceArgs(
            model=model,
            platform=platform,
            pool=platform.pool_of(model),
            bucket=storage.bucket_name,
            redis_address=redis.address if redis else None,
        ),
        after(base, pools, ray, gateway, storage, *([redis] if redis else [])),
    )
    for model in platform.models
]

pulumi.export("cluster", cluster.name)
pulumi.export("endpoints", {model.service: model.url for model in models})
pulumi.export("bucket", storage.bucket_name)
