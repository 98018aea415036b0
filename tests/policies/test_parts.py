"""The parts that rules are made of: queries, images, versions, hardware, commands."""

from __future__ import annotations

import pytest
from crossguard import ALONE

from components.facts.gpus import GPUS
from components.facts.instance_types import INSTANCE_TYPES
from guardrails import TABLE
from guardrails.command import engine_command
from guardrails.contract import knows, suggestion, version_of, vllm_of_ray
from guardrails.hardware import ec2_types, hardware
from guardrails.imageref import image_ref
from guardrails.promql import metrics_in, series_of

MANY = [
    "vllm:num_requests_waiting",
    "sum by (pod) (vllm:num_requests_waiting)",
    "sum without (pod) (vllm:num_requests_waiting)",
    "histogram_quantile(0.9, rate(vllm:time_to_first_token_seconds_bucket[5m]))",
    "sum(rate(x[5m])) by (le)",
]
ONE = [
    "sum(vllm:num_requests_waiting)",
    "max(vllm:kv_cache_usage_perc) or vector(0)",
    "histogram_quantile(0.9, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
    "sum(rate(a[5m])) / sum(rate(b[5m]))",
    "scalar(up) * 3",
    'vllm:num_requests_waiting{pod="chat-0"}',
    "topk(1, vllm:num_requests_waiting)",
]


@pytest.mark.parametrize("query", MANY)
def test_queries_of_many_series(query):
    """A scaler refuses these."""
    series = series_of(query)
    assert series is not None
    assert series.many


@pytest.mark.parametrize("query", ONE)
def test_queries_of_one_series(query):
    """And takes these."""
    series = series_of(query)
    assert series is not None
    assert not series.many


@pytest.mark.parametrize("query", ["(", "sum(", "{{ .Values.query }}", "", "sum(x) sum(y)"])
def test_what_is_no_query_is_not_judged(query):
    """None: not clear."""
    assert series_of(query) is None


@pytest.mark.parametrize(
    ("query", "ratio"),
    [("avg(x)", True), ("sum(a)/sum(b)", True), ("sum(a)/60", False), ("sum(x)", False),
     ("max(vllm:kv_cache_usage_perc)", True)],
)  # fmt: skip
def test_ratios(query, ratio):
    """An average is not divided by the replicas once more."""
    series = series_of(query)
    assert series is not None
    assert series.ratio is ratio


def test_metrics_in_a_text():
    """Each engine metric once."""
    assert metrics_in("sum(vllm:a) / sum(vllm:a) + ray_vllm_b + node_load1") == ["vllm:a", "ray_vllm_b"]


@pytest.mark.parametrize(
    ("text", "repository", "tag", "floats"),
    [
        ("vllm/vllm-openai", "vllm/vllm-openai", None, True),
        ("localhost:5000/vllm", "localhost:5000/vllm", None, True),
        ("localhost:5000/vllm:v0.29.0", "localhost:5000/vllm", "v0.29.0", False),
        ("vllm/vllm-openai@sha256:" + "a" * 64, "vllm/vllm-openai", None, False),
        ("vllm/vllm-openai:latest", "vllm/vllm-openai", "latest", True),
        ("vllm/vllm-openai:latest-cu130", "vllm/vllm-openai", "latest-cu130", True),
        ("vllm/vllm-openai:nightly", "vllm/vllm-openai", "nightly", True),
        ("vllm/vllm-openai:nightly-8b5f2a1c9d", "vllm/vllm-openai", "nightly-8b5f2a1c9d", False),
        ("app:stable", "app", "stable", True),
        ("app:2026-03-01", "app", "2026-03-01", False),
        ("app:8b5f2a1", "app", "8b5f2a1", False),
        ("app:{{ .Values.tag }}", "app", "{{ .Values.tag }}", False),
    ],
)
def test_images(text, repository, tag, floats):
    """A colon in the host is a port, and a digest or a content hash is a pin."""
    image = image_ref(text)
    assert (image.repository, image.tag, image.floats) == (repository, tag, floats)


@pytest.mark.parametrize(
    ("text", "ray", "vllm"),
    [
        ("rayproject/ray-llm:2.56.0-py312-cu130", "2.56.0", vllm_of_ray("2.56.0")),
        ("rayproject/ray:2.6.3.0a1b2c-py38", "2.6.3", None),
        ("vllm/vllm-openai:v0.19.1", None, "0.19.1"),
        ("111122223333.dkr.ecr.us-east-1.amazonaws.com/vllm:0.29.0-x", None, "0.29.0"),
        ("nginx:1.27", None, None),
    ],
)
def test_versions_in_images(text, ray, vllm):
    """Only images that say so tell a version."""
    image = image_ref(text)
    assert (image.ray_version, image.vllm_version) == (ray, vllm)


@pytest.mark.parametrize(
    ("version", "argument", "known"),
    [
        ("0.29.0", "tensor_parallel_size", True),
        ("0.29.0", "use_v2_block_manager", False),
        ("0.29.0", "tensor_paralel_size", False),
        ("0.28.0", "tensor_parallel_size", True),
        ("9.9.9", "something_new", None),
        (None, "tensor_parallel_size", True),
    ],
)
def test_arguments_by_version(version, argument, known):
    """Names are judged by the release that is pinned; newer than the table nothing is called wrong."""
    assert knows("arguments", version, argument) is known


def test_metrics_by_version():
    """The cache gauge was renamed."""
    assert knows("metrics", "0.10.2", "vllm:gpu_cache_usage_perc") is True
    assert knows("metrics", "0.29.0", "vllm:gpu_cache_usage_perc") is False
    assert suggestion("metrics", "0.29.0", "vllm:gpu_cache_usage_perc") == "vllm:kv_cache_usage_perc"


@pytest.mark.parametrize(
    ("written", "version"),
    [("v0.29.0", (0, 29, 0)), ("0.29.0+cpu", (0, 29, 0)), ("1.35", (1, 35)), ("latest", None), ("", None)],
)
def test_versions(written, version):
    """As people write them."""
    assert version_of(written) == version


def test_every_type_of_the_platform_is_the_same_type():
    """Two tables of instance types agree: the platform's own and EC2's."""
    for name, ours in INSTANCE_TYPES.items():
        found = hardware(name)
        assert found is not None, name
        assert (found.vcpus, found.memory_mib, found.gpus) == (
            ours.vcpus,
            ours.memory_gib * 1024,
            ours.gpus,
        ), name
        if ours.gpu is not None:
            assert found.capability == GPUS[ours.gpu].compute_capability, name


def test_types_of_one_size_only():
    """The table has what EC2 has, not what people guess."""
    assert hardware("g5.12xlarge") is not None
    assert hardware("g9.99xlarge") is None
    assert len(ec2_types()) > 1000


def words(*given: str) -> list[tuple[tuple[str | int, ...], str]]:
    """Words with their paths."""
    return [((index,), word) for index, word in enumerate(given)]


@pytest.mark.parametrize(
    ("command", "args", "model", "tensor_parallel"),
    [
        (["vllm", "serve", "org/model", "-tp", "4"], [], "org/model", "4"),
        (["sh", "-c", "exec vllm serve org/model --tensor-parallel-size=4 | tee /log"], [], "org/model", "4"),
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], ["--model=org/model", "--tensor_parallel_size", "4"],
         "org/model", "4"),
        (["bash", "-c", "if true; then vllm serve $MODEL -tp $TP; fi"], [], "org/model", "4"),
    ],
)  # fmt: skip
def test_commands(command, args, model, tensor_parallel):
    """However the engine is started."""
    found = engine_command(
        words(*command), words(*args), {"MODEL": "org/model", "TP": "4"}, is_engine_image=False
    )
    assert found is not None
    assert found.model == model
    assert str(found.flags["tensor_parallel_size"].value) == tensor_parallel


def test_a_command_that_is_no_engine():
    """Not everything is one."""
    assert engine_command(words("python3", "app.py"), [], {}, is_engine_image=False) is None


def test_rules_that_decide_on_one_resource_exist():
    """Names in the pack's list are rules."""
    assert {rule.id for rule, _ in TABLE} >= ALONE
