"""Job or CronJob that loads a model's Service with `vllm bench serve` and lets Prometheus fetch the figures."""

from dataclasses import dataclass
from typing import Any

from components import conventions
from components.manifests.code import CODE_HASH, code_config_map, hash_of
from components.manifests.images import serving_image
from components.manifests.network_policies import closed, from_monitoring, to_model
from components.manifests.placement import cpu_selector
from components.manifests.pods import confined
from components.manifests.ray_service import service_name
from components.settings.models import Model
from components.settings.platform import PlatformSettings

Manifest = dict[str, Any]

FILES = ("endpoint_keys.py", "run_benchmark.py", "words.py")
PROMPTS = 1000
PORT = 8080
_TIMEOUT = 3600
_KEPT = 3  # finished runs whose logs can still be read


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is asked. `rate` in requests a second: the published guides ask for 20; None goes as fast as it can."""

    prompts: int = PROMPTS
    tokens_in: int = 512
    tokens_out: int = 128
    concurrency: int | None = None
    rate: float | None = 20.0
    schedule: str | None = None  # a cron expression makes a CronJob


def benchmark(model: Model, platform: PlatformSettings, load: Load) -> list[Manifest]:
    """The code, what its pods may reach, the Job or CronJob and, where the stack has monitoring, a monitor of its pods."""
    # Not the model's own instance label: its Services and disruption budgets would count these pods.
    labels = conventions.labels("vllm-bench", "benchmark", f"{model.name}-benchmark")
    name = f"{model.name}-benchmark"
    code = code_config_map(FILES, name, platform.namespace, labels)
    template = {
        "metadata": {"labels": labels, "annotations": {CODE_HASH: hash_of(code)}},
        "spec": _pod(model, platform, load, name),
    }
    job = {
        "backoffLimit": 0,  # a second run would load the model again and say nothing new
        "activeDeadlineSeconds": _TIMEOUT,
        "ttlSecondsAfterFinished": 7 * 24 * 3600,
        "template": template,
    }
    metadata = {"name": name, "namespace": platform.namespace, "labels": labels}
    monitor = [_monitor(metadata, platform)] if platform.observability.enabled else []
    return [code, _policy(name, labels, model, platform), _job(metadata, job, load), *monitor]


def _policy(name: str, labels: dict[str, str], model: Model, platform: PlatformSettings) -> Manifest:
    """Its pods reach the model's API and nothing else; Prometheus reaches their figures."""
    policy = closed(name, labels, platform, to_model(model))
    if platform.observability.enabled:
        policy["spec"]["ingress"] = [from_monitoring(PORT)]
    return policy


def _job(metadata: Manifest, job: Manifest, load: Load) -> Manifest:
    if load.schedule is None:
        # Whoever applies it does not wait for the run to end.
        annotations = {"pulumi.com/skipAwait": "true"}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**metadata, "annotations": annotations},
            "spec": job,
        }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {
            "schedule": load.schedule,
            "concurrencyPolicy": "Forbid",  # two loads at once measure each other
            "successfulJobsHistoryLimit": _KEPT,
            "failedJobsHistoryLimit": _KEPT,
            "jobTemplate": {"metadata": {"labels": metadata["labels"]}, "spec": job},
        },
    }


def _pod(model: Model, platform: PlatformSettings, load: Load, code_name: str) -> Manifest:
    shown = 3 * platform.observability.scrape_interval
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": cpu_selector(platform.cpu_pool),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "benchmark",
                "image": serving_image(
                    model, None, platform.images
                ),  # has the load tool and is on the nodes anyway
                "command": ["python3", f"{conventions.POLICY_MOUNT}/run_benchmark.py"],
                "args": _arguments(model, load),
                "env": [
                    {"name": "MODEL", "value": model.name},
                    {"name": "SHOWN_SECONDS", "value": str(shown)},
                    {"name": "HOME", "value": "/scratch"},
                    {"name": "TMPDIR", "value": "/scratch"},
                    {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
                    *_key(platform),
                ],
                "ports": [{"name": "metrics", "containerPort": PORT}],
                "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
                "securityContext": confined(),
                "volumeMounts": [
                    {"name": "code", "mountPath": conventions.POLICY_MOUNT, "readOnly": True},
                    {"name": "scratch", "mountPath": "/scratch"},
                ],
            }
        ],
        "volumes": [
            {"name": "code", "configMap": {"name": code_name}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "2Gi"}},
        ],
    }


def _arguments(model: Model, load: Load) -> list[str]:
    """Text of random words (`in_cluster/words.py`): the tokenizer of the model is not at hand here."""
    limit = [] if load.concurrency is None else ["--max-concurrency", str(load.concurrency)]
    return [
        *("--backend", "openai"),
        *("--base-url", f"http://{service_name(model)}:{conventions.SERVE_PORT}"),
        *("--model", model.api_name),
        *("--dataset-name", "random"),
        *("--random-input-len", str(load.tokens_in)),
        *("--random-output-len", str(load.tokens_out)),
        *("--num-prompts", str(load.prompts)),
        *("--request-rate", "inf" if load.rate is None else f"{load.rate:g}"),
        *limit,
        "--ignore-eos",
    ]


def _key(platform: PlatformSettings) -> list[Manifest]:
    """All keys; the script gives the tool the first."""
    if platform.endpoint is None or not platform.endpoint.keys:
        return []
    secret, key = conventions.SECRETS["endpointKeys"]
    return [{"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]


def _monitor(metadata: Manifest, platform: PlatformSettings) -> Manifest:
    interval = f"{platform.observability.scrape_interval}s"
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata,
        "spec": {
            "selector": {
                "matchLabels": {conventions.INSTANCE_LABEL: metadata["labels"][conventions.INSTANCE_LABEL]}
            },
            "podMetricsEndpoints": [
                {"port": "metrics", "path": "/metrics", "interval": interval, "honorLabels": True}
            ],
        },
    }
