"""Where images are pulled from: their own registry, a mirror, or the rules of a pull-through cache."""

from __future__ import annotations

from typing import Any

import pytest

from components import pins
from components.manifests import headroom, monitoring
from components.manifests.iam import nodes
from components.manifests.images import reference, registry_of
from components.settings.cluster import ImageSettings, PullThroughCache
from components.settings.extras import ObservabilitySettings

HOSTS = ("docker.io", "public.ecr.aws", "registry.k8s.io", "quay.io", "ghcr.io", "nvcr.io")
CACHE = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
DIRECT, MIRRORED = ImageSettings(), ImageSettings(mirror="registry.example.com/mirror")


def cached(**prefixes: str) -> ImageSettings:
    """Images through a cache with rules for Docker Hub and ECR Public, and some more."""
    return ImageSettings(
        pull_through_cache=PullThroughCache(account_id="111122223333", region="us-west-2", **prefixes)
    )


ALL = cached(kubernetes_prefix="kubernetes", quay_prefix="quay", github_prefix="github")


@pytest.mark.parametrize(
    ("images", "registries"),
    [
        (DIRECT, [None] * 6),
        (MIRRORED, ["registry.example.com/mirror"] * 6),
        (cached(), [f"{CACHE}/docker-hub", f"{CACHE}/ecr-public", None, None, None, None]),
        (
            ALL,
            [*(f"{CACHE}/{x}" for x in ("docker-hub", "ecr-public", "kubernetes", "quay", "github")), None],
        ),
    ],
)
def test_what_stands_for_a_registry(images: ImageSettings, registries: list[str | None]) -> None:
    """Only registries with a rule; ECR has none for NVIDIA's."""
    assert [registry_of(host, images) for host in HOSTS] == registries


def test_the_pause_image_comes_through_its_rule() -> None:
    """Path and tag stay."""
    assert reference(pins.PAUSE_IMAGE, cached()) == "registry.k8s.io/pause:3.10.1"
    assert reference(pins.PAUSE_IMAGE, ALL) == f"{CACHE}/kubernetes/pause:3.10.1"
    assert reference(pins.Image("rayproject/ray", "1"), ALL) == f"{CACHE}/docker-hub/rayproject/ray:1"


def test_keda_comes_through_its_rule() -> None:
    """The chart has one registry for all of its images."""
    assert "global" not in headroom.chart_values(cached())
    assert headroom.chart_values(ALL)["global"] == {"image": {"registry": f"{CACHE}/github"}}


def test_monitoring_comes_from_three_registries() -> None:
    """The chart's one setting for all of them fits a mirror; a cache has another prefix for each."""
    values: dict[str, Any] = monitoring.chart_values(ObservabilitySettings(), ALL)
    quay = {"registry": f"{CACHE}/quay"}

    assert values["prometheus"]["prometheusSpec"]["image"] == quay
    assert values["prometheusOperator"]["image"] == quay
    assert values["prometheusOperator"]["prometheusConfigReloader"]["image"] == quay
    assert values["alertmanager"]["alertmanagerSpec"]["image"] == quay
    assert values["prometheus-node-exporter"]["image"] == quay
    assert values["kube-state-metrics"]["image"] == {"registry": f"{CACHE}/kubernetes"}
    assert values["grafana"]["image"] == {"registry": f"{CACHE}/docker-hub"}
    assert "global" not in values


@pytest.mark.parametrize("images", [DIRECT, MIRRORED])
def test_monitoring_without_a_cache_names_no_image(images: ImageSettings) -> None:
    """A mirror is told once."""
    values = monitoring.chart_values(ObservabilitySettings(), images)

    assert "'image'" not in str(values)
    assert values.get("global", {}).get("imageRegistry") == images.mirror


def test_nodes_may_fill_every_rule() -> None:
    """The first pull makes the repository."""
    assert ALL.pull_through_cache is not None
    (statement,) = nodes.cache_policy(ALL.pull_through_cache)["Statement"]
    registry = "arn:aws:ecr:us-west-2:111122223333:repository"

    assert statement["Resource"] == [
        f"{registry}/{prefix}/*" for prefix in ("docker-hub", "ecr-public", "kubernetes", "quay", "github")
    ]
