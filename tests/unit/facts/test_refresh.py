"""The scripts that make the tables again: what they read and what they print."""

from __future__ import annotations

import json
from pathlib import Path

from components.facts.refresh import gpus, instance_types, links, models, spot

DESCRIBED = {
    "VCpuInfo": {"DefaultVCpus": 48},
    "MemoryInfo": {"SizeInMiB": 196608},
    "GpuInfo": {"Gpus": [{"Name": "A10G", "Count": 4, "MemoryInfo": {"SizeInMiB": 22888}}]},
    "InstanceStorageInfo": {"TotalSizeInGB": 3800, "Disks": [{"Count": 1, "SizeInGB": 3800}]},
    "EbsInfo": {"EbsOptimizedInfo": {"MaximumBandwidthInMbps": 16000}},
    "NetworkInfo": {
        "NetworkPerformance": "40 Gigabit",
        "NetworkCards": [{"BaselineBandwidthInGbps": 40.0}],
        "EfaInfo": {"MaximumEfaInterfaces": 1},
    },
}


def test_an_instance_type_becomes_a_row() -> None:
    """EC2's answer for g5.12xlarge with a price."""
    values = instance_types.fields("g5.12xlarge", DESCRIBED, 5.672)
    assert instance_types.row(values) == (
        '    ("g5.12xlarge", 48, 192, "A10G", 4, 22888, "pcie", 3800, 1, 40.0, 16000, 1, 5.672),'
    )


def test_up_to_means_the_baseline() -> None:
    """A class named "up to" is not what a cold start can count on."""
    network = {"NetworkPerformance": "Up to 10 Gigabit", "NetworkCards": [{"BaselineBandwidthInGbps": 2.5}]}
    assert instance_types.network_gbps(network) == 2.5


def test_prices_are_read_from_go(tmp_path: Path) -> None:
    """Karpenter's generated file, several prices on a line."""
    path = tmp_path / "prices.go"
    path.write_text('"g5.12xlarge": 5.672000, "g5.16xlarge": 4.096000,\n')
    assert instance_types.read_prices(path) == {"g5.12xlarge": 5.672, "g5.16xlarge": 4.096}


def test_a_list_of_types_is_read_like_a_mapping(tmp_path: Path) -> None:
    """`aws ec2 describe-instance-types` gives a list."""
    path = tmp_path / "types.json"
    path.write_text(json.dumps({"InstanceTypes": [{"InstanceType": "g5.12xlarge"}]}))
    assert instance_types.read_types(path) == {"g5.12xlarge": {"InstanceType": "g5.12xlarge"}}


def test_the_better_of_two_all_reduces_counts() -> None:
    """NCCL and the kernel of vLLM at one size; sizes of the source are elements of two bytes."""
    rows = [
        {
            "num_gpus": 4,
            "message_size": 4096,
            "latency": 0.0175,
            "op_name": "all_reduce",
            "backend": "vllm_graph",
        },
        {
            "num_gpus": 4,
            "message_size": 4096,
            "latency": 0.0161,
            "op_name": "all_reduce",
            "nccl_dtype": "half",
        },
    ]
    assert (links.microseconds(rows, 4, 8192), links.microseconds(rows, 4, 4096)) == (16.1, None)


def test_a_model_that_changed_is_said(tmp_path: Path) -> None:
    """A config.json with other positions than the table."""
    path = tmp_path / "config.json"
    config = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    }  # fmt: skip
    path.write_text(json.dumps(config))
    assert models.differences("llama-3.1-8b", path) == ["llama-3.1-8b.max_positions: table 131072, file 8192"]


def test_spot_rows_are_printed_for_gpu_types() -> None:
    """One record per region that the advisor knows."""
    advisor = {"us-east-1": {"Linux": {"g5.12xlarge": {"s": 58, "r": 4}, "m6i.large": {"s": 50, "r": 0}}}}
    assert spot.rows(advisor, ["us-east-1", "eu-west-1"]) == [
        '    "g5.12xlarge": (Spot("us-east-1", 58, 4),),'
    ]


def test_gpu_memory_is_compared_with_ec2() -> None:
    """Nothing to say where both agree."""
    assert gpus.differences({"g5.12xlarge": DESCRIBED}) == []
