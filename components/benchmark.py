"""A load test of one model, run inside the cluster."""

from dataclasses import dataclass, field

import pulumi

from components import conventions
from components.kubernetes_object import KubernetesObject
from components.manifests.benchmark import Load, benchmark
from components.settings.models import Model
from components.settings.platform import PlatformSettings


@dataclass(frozen=True, kw_only=True)
class BenchmarkArgs:
    """What is loaded and how.

    Attributes:
        model: the model; its Service is loaded from inside the cluster.
        settings: the stack's settings.
        load: 1,000 prompts at 20 requests a second by default; a schedule makes it a CronJob.
    """

    model: Model
    settings: PlatformSettings
    load: Load = field(default_factory=Load)


class Benchmark(pulumi.ComponentResource):
    """A load test of one model.

    Makes:
    * a Job that runs `vllm bench serve` once, or a CronJob where the load has a schedule
    * the ConfigMap with its code, and a NetworkPolicy: its pods reach the model's API and nothing else
    * a PodMonitor, so that its figures land in Prometheus (`llm_benchmark_*`), where the stack has monitoring
    """

    def __init__(self, name: str, args: BenchmarkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{conventions.TYPE_PREFIX}:Benchmark", name, None, opts)
        code, policy, *others = benchmark(args.model, args.settings, args.load)
        options = pulumi.ResourceOptions(parent=self)
        before = [
            KubernetesObject(f"{name}-code", code, options),
            KubernetesObject(f"{name}-networkpolicy", policy, options),
        ]
        after = pulumi.ResourceOptions(parent=self, depends_on=before)
        for manifest in others:
            KubernetesObject(f"{name}-{manifest['kind'].lower()}", manifest, after)
        self.register_outputs({})
