"""The Python in a model's Ray cluster."""

from components.manifests.scaling import code_hash, code_of
from components.settings.models import S3Source
from tests.unit.manifests.serving_samples import cpu_model, model, platform


def test_holds_the_files_and_the_revision() -> None:
    """What Serve imports, and which copy of the weights a new node waits for."""
    code = code_of(model(), platform())

    assert code["metadata"]["name"] == "chat-code"
    assert sorted(code["data"]) == [
        "direct_app.py",
        "endpoint_keys.py",
        "keyed_ingress.py",
        "revision",
        "scaling_policy.py",
    ]
    assert code["data"]["revision"] == "r1"
    assert "class VllmQueuePolicy" in code["data"]["scaling_policy.py"]


def test_a_path_has_no_revision() -> None:
    """Weights of an image have none."""
    assert "revision" not in code_of(cpu_model(), platform())["data"]


def test_hash_is_of_the_code_alone() -> None:
    """Another revision of the weights must not make another Ray cluster."""
    other = model(source=S3Source(kind="s3", prefix="models/chat", revision="r2"))

    assert code_hash(other, platform()) == code_hash(model(), platform())
