"""Converts a PyTorch pickle of weights to safetensors without running its code. Standard library, and torch to read.

Tensors are written one at a time, so memory holds one, and weights that share memory (tied ones) are each written whole.
"""

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Names in safetensors' header of the types that PyTorch knows (safetensors README, "Format").
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
}  # fmt: skip


class Refused(Exception):  # noqa: N818 - a verdict, not a fault
    """The model is not taken; the text says why and what to do."""


@dataclass(frozen=True)
class Tensor:
    """A tensor about to be written: its type by safetensors' name, its shape, its bytes on demand."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int
    data: Callable[[], bytes]


def write_safetensors(path: Path, tensors: Iterable[Tensor]) -> dict[str, str]:
    """Write tensors one at a time, so that memory holds one; the file's name by each tensor's name.

    The format (safetensors README): length of the header as 8 bytes, the header as JSON, the bytes in its order.
    """
    tensors = list(tensors)
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": tensor.dtype, "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.size],
        }  # fmt: skip
        offset += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors:
            file.write(tensor.data())
    return {tensor.name: path.name for tensor in tensors}


def load_pickle(path: Path) -> Iterator[Tensor]:
    """The tensors of a PyTorch file, by the unpickler that runs no code.

    Raises:
        Refused: torch is missing, or the file holds anything but tensors.
    """
    try:
        import torch  # noqa: PLC0415 - large, and only needed here
    except ImportError:
        raise Refused(
            f"{path.name} is a pickle, and the image has no torch to convert it; use the serving image"
        ) from None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # torch raises many kinds
        raise Refused(
            f"{path.name} cannot be read without running its code ({type(error).__name__}); choose safetensors"
        ) from error
    for name, tensor in state.items():
        kind = str(getattr(tensor, "dtype", type(tensor).__name__)).removeprefix("torch.")
        if kind not in DTYPES:
            raise Refused(f"{path.name}: {name} is a {kind}, which is no tensor that safetensors knows")
        yield Tensor(
            name,
            DTYPES[kind],
            tuple(tensor.shape),
            tensor.numel() * tensor.element_size(),
            _bytes_of(tensor, torch),
        )


def _bytes_of(tensor: Any, torch: Any) -> Callable[[], bytes]:
    return lambda: tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
