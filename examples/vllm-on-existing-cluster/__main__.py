"""One model on a cluster that has KubeRay and GPU nodes already, by one component of the library.

The namespace is there, and the GPU nodes carry the labels and the taint of `components.gpu_pools` (examples/gpu-pools).
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # where `components` is, until it is installed

import pulumi
import pulumi_kubernetes

from components.settings.cluster import ClusterSettings, ExistingCluster
from components.settings.extras import ObservabilitySettings
from components.settings.models import EngineSettings, HubSource, Loader, Model, Scaling
from components.settings.platform import PlatformSettings
from components.settings.pools import GpuPool, Limits
from components.vllm_ray_service import VllmRayService, VllmRayServiceArgs

CLUSTER = "research"

kubernetes = pulumi_kubernetes.Provider("kubernetes", context=CLUSTER, cluster_identifier=CLUSTER)
l4 = GpuPool(name="l4", instance_types=("g6.2xlarge",), limits=Limits(gpus=4), local_nvme=False)
model = Model(
    name="qwen",
    # The engine reads the hub by itself: fine to try a model, too slow and too fragile to scale one.
    source=HubSource(
        repository="Qwen/Qwen2.5-7B-Instruct", revision="a09a35458c702b33eeacc393d103063234e8bc28"
    ),
    loader=Loader.LOCAL,
    architecture="qwen2.5-7b",
    pool=l4.name,
    shm="4Gi",
    engine=EngineSettings(max_model_len=8192, max_num_seqs=16),
    scaling=Scaling(min_replicas=1, max_replicas=2, target_ongoing_requests=12, max_ongoing_requests=20),
)
platform = PlatformSettings(
    region="us-west-2",
    namespace="inference",
    cluster=ClusterSettings(existing=ExistingCluster(context=CLUSTER, name=CLUSTER)),
    cpu_pool=None,  # heads and ingress run wherever there is room
    gpu_pools=(l4,),
    models=(model,),
    observability=ObservabilitySettings(enabled=False),
)
qwen = VllmRayService(
    model.name,
    VllmRayServiceArgs(
        model=model,
        pool=l4,
        platform=platform,
        priority_class=None,  # the cluster has none of ours
        ray_token_secret=None,  # KubeRay makes a token
    ),
    pulumi.ResourceOptions(providers=[kubernetes]),
)
pulumi.export("service", qwen.service)
