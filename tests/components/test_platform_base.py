"""What all models share."""

from typing import Any

import pytest

from components.platform_base import Platform, PlatformArgs
from tests.components.infra import EXISTING, STACK, Graph, model, once, registered, settings

FROM_HUB = {
    "kind": "s3", "prefix": "qwen", "revision": "v1",
    "downloadFrom": {"repository": "Qwen/Qwen2.5-7B-Instruct", "revision": "a09a35458c702b33eeacc393d103063234e8bc28"},
}  # fmt: skip


@once
def platform(stack: Any = STACK, secrets: tuple[str, ...] = (), **changes: Any) -> Graph:
    """What the shared objects are, with some of the stack's settings changed."""
    wanted = settings(stack, **changes)
    args = PlatformArgs(settings=wanted, secrets=dict.fromkeys(secrets, "value"))

    return registered(lambda: Platform("platform", args))


def test_makes_the_shared_objects() -> None:
    """On an existing cluster: namespace, priorities, defaults and quota."""
    expected = [
        "platform",
        "platform-limitrange-container-defaults",
        "platform-namespace-llm-serving",
        "platform-priorityclass-llm-headroom",
        "platform-priorityclass-llm-serving",
        "platform-resourcequota-no-own-load-balancers",
    ]

    assert expected == platform(EXISTING).names()


def test_namespaces_come_first() -> None:
    """What lies in the namespace is made after it, and goes before it."""
    graph = platform(secrets=("rayAuthToken",))

    for name in ("platform-secret-ray-auth-token", "platform-resourcequota-no-own-load-balancers"):
        assert "platform-namespace-llm-serving" in graph.dependencies(name)


def test_operators_find_their_namespaces() -> None:
    """With labels that let their pods in, where Helm would make them without."""
    names = platform().names(":Namespace")

    assert names == [
        "platform-namespace-kuberay-system",
        "platform-namespace-llm-serving",
        "platform-namespace-monitoring",
    ]


def test_secrets_stay_secret() -> None:
    """A value that came as plain text is one in the state as well."""
    inputs = platform(secrets=("huggingFaceToken",)).inputs("platform-secret-hugging-face-token")

    assert inputs["stringData"] == {"token": {"$secret": True}}


def test_a_misspelt_secret_is_refused() -> None:
    """Its pods would wait for a secret that never comes."""
    args = PlatformArgs(settings=settings(STACK), secrets={"hfToken": "x"})

    with pytest.raises(ValueError, match="unknown secrets hfToken; known: huggingFaceToken, rayAuthToken"):
        registered(lambda: Platform("platform", args))


def test_download_jobs_have_an_identity() -> None:
    """Only where there are such jobs."""
    name = "platform-serviceaccount-model-download"

    assert name in platform(models=[model(source=FROM_HUB)])
    assert name not in platform()


def test_host_paths_are_guarded() -> None:
    """A namespace that must let them in has an admission policy."""
    graph = platform(models=[model(loader="nvmeCache")])
    labels = graph.inputs("platform-namespace-llm-serving")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"
    assert "platform-validatingadmissionpolicybinding-llm-platform-host-paths-llm-serving" in graph
