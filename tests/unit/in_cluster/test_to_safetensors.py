"""The conversion of PyTorch weights."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.in_cluster.loading import load

convert = load("to_safetensors")


class _FakeTensor:
    """As much of a torch tensor as the converter asks for."""

    def __init__(self, data: bytes, dtype: str, shape: tuple[int, ...]) -> None:
        self.data, self.dtype, self.shape = data, f"torch.{dtype}", shape

    def numel(self) -> int:
        return len(self.data) // self.element_size()

    def element_size(self) -> int:
        return {"torch.float32": 4, "torch.bfloat16": 2}[self.dtype]

    def contiguous(self) -> "_FakeTensor":
        return self

    def reshape(self, _: int) -> "_FakeTensor":
        return self

    def view(self, _: object) -> "_FakeTensor":
        return self

    def numpy(self) -> "_FakeTensor":
        return self

    def tobytes(self) -> bytes:
        return self.data


def _torch(
    monkeypatch: pytest.MonkeyPatch, state: dict[str, Any], error: Exception | None = None
) -> list[dict[str, Any]]:
    """Put a torch in place that gives a state, and notes how it was asked."""
    asked: list[dict[str, Any]] = []

    def torch_load(_: Path, **options: Any) -> dict[str, Any]:
        asked.append(options)
        if error:
            raise error
        return state

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=torch_load, uint8="uint8"))
    return asked


def _header(path: Path) -> tuple[dict[str, Any], bytes]:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def test_writes_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Header, types, shapes, offsets and bytes are those of the safetensors format, aligned to 8."""
    state = {"a": _FakeTensor(b"1234" * 2, "float32", (2, 1)), "b": _FakeTensor(b"xyzw", "bfloat16", (2,))}
    _torch(monkeypatch, state)

    names = convert.write_safetensors(tmp_path / "model.safetensors", convert.load_pickle(tmp_path / "m.bin"))
    header, data = _header(tmp_path / "model.safetensors")

    assert header == {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [8, 12]},
    }
    assert data == b"12341234xyzw"
    assert names == {"a": "model.safetensors", "b": "model.safetensors"}
    assert ((tmp_path / "model.safetensors").stat().st_size - len(data)) % 8 == 0


def test_runs_no_code_of_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only torch's unpickler for weights is used."""
    asked = _torch(monkeypatch, {})

    assert list(convert.load_pickle(tmp_path / "m.bin")) == []
    assert asked == [{"map_location": "cpu", "weights_only": True, "mmap": False}]


def test_refuses_what_needs_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What that unpickler cannot read is refused, not read another way."""
    _torch(monkeypatch, {}, error=ValueError("unsafe"))

    with pytest.raises(
        convert.Refused, match=r"m\.bin cannot be read without running its code \(ValueError\)"
    ):
        list(convert.load_pickle(tmp_path / "m.bin"))


def test_refuses_what_is_no_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training state or a quantizer's object has no place in a safetensors file."""
    _torch(monkeypatch, {"step": 7})

    with pytest.raises(
        convert.Refused, match=r"m\.bin: step is a int, which is no tensor that safetensors knows"
    ):
        list(convert.load_pickle(tmp_path / "m.bin"))


def test_says_when_torch_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image without torch cannot convert."""
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(convert.Refused, match="the image has no torch to convert it"):
        list(convert.load_pickle(tmp_path / "m.bin"))
