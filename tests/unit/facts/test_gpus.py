"""GPUs: usable memory and what a missing value means."""

from __future__ import annotations

import pytest

from components.facts.gpus import GPUS


def test_usable_memory_is_below_the_card() -> None:
    """What the runtime reports is 0.4 to 1.6 percent less than the card's memory."""
    for gpu in GPUS.values():
        assert 0.984 <= gpu.usable_memory_mib / gpu.memory_mib < 1, gpu.name


@pytest.mark.parametrize("name", ["A10G", "A100-40", "A100-80", "RTX-A6000", "RTX-3090Ti"])
def test_ampere_has_no_fp8(name: str) -> None:
    """FP8 weights on these GPUs save memory and no time."""
    assert GPUS[name].fp8_tflops is None
