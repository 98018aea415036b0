"""Engine contracts: Ray and vLLM pairs, argument names."""

from __future__ import annotations

import pytest

from components.facts.engines import argument_types, engine_arguments, vllm_for
from components.facts.refresh.engine_arguments import arguments_of


def test_the_pair_of_the_platform() -> None:
    """Ray 2.60.0 asks for vLLM 0.29.0 exactly."""
    assert vllm_for("2.60.0") == "==0.29.0"


def test_an_unknown_ray_has_no_pair() -> None:
    """Nothing is guessed for a release that was not read."""
    assert vllm_for("9.9.9") is None


def test_knows_arguments_that_exist_and_not_those_that_are_gone() -> None:
    """`swap_space` and `engine_use_ray` of older versions are not arguments of 0.29.0."""
    known = engine_arguments("0.29.0")
    assert known & {"max_model_len", "enable_log_requests", "swap_space", "engine_use_ray"} == {
        "max_model_len",
        "enable_log_requests",
    }


def test_an_unknown_version_is_a_sentence() -> None:
    """The message names the versions that are known."""
    with pytest.raises(
        KeyError, match=r"vLLM 0\.0\.1 is not in the table of engine arguments; known: .*0\.29\.0"
    ):
        argument_types("0.0.1")


def test_reads_annotated_fields_of_both_classes_only() -> None:
    """Constants without annotation and other classes are no arguments."""
    source = "class Other:\n a: int\nclass EngineArgs:\n b: int = 1\n c = 2\nclass AsyncEngineArgs(EngineArgs):\n d: str\n"
    assert arguments_of(source) == {"b": "int", "d": "str"}
