"""Small stand-ins for the NVIDIA libraries that torch is linked with and that a CPU never calls.

The only torch on PyPI for Linux is the CUDA build. It does not load without some twelve libraries, 4 GB, although no
function of theirs is ever called on a machine without a GPU. A stand-in has the name, the symbol versions and the
function names that torch asks the loader for, and every function returns 1, an error code in all of them. The CUDA
runtime and CUPTI stay real: torch calls the first when it loads, to register its kernels, and takes addresses of the other.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

# Libraries whose symbols carry no version, or another one than the file's name: how their functions are recognized.
PREFIXES = {
    "libcufile": "cuFile",
    "libcurand": "curand",
    "libcusparseLt": "cusparseLt",
    "libnccl": "nccl",
    "libnvshmem_host": "nvshmem",
}
VERSION_NAMES = {"libnvshmem_host": "NVSHMEM"}
# The driver (libcuda.so.1) is opened by name and only when there is a GPU.
_STOOD_IN_FOR = re.compile(
    r"lib(cublas|cudnn|cufft|cufile|curand|cusolver|cusparse|nccl|nvrtc|nvshmem)\w*\.so\."
)
_UNDEFINED = re.compile(r"^\s*\d+: \S+\s+\d+ \w+\s+\w+\s+\w+\s+UND (\S+)", re.MULTILINE)
_NEEDED = re.compile(r"\(NEEDED\).*\[(.*?)\]")


def possible() -> bool:
    """Whether the compiler and readelf, which come together, are there."""
    return shutil.which("gcc") is not None and shutil.which("readelf") is not None


def write(libraries: Path) -> list[str]:
    """Put the stand-ins beside torch's own libraries, where the loader looks first. Returns their names."""
    own = sorted(libraries.glob("lib*.so"))
    needed = {name for path in own for name in _NEEDED.findall(_readelf("-d", path))}
    names = sorted(name for name in needed if _STOOD_IN_FOR.match(name))
    wanted = _functions(
        {symbol for path in own for symbol in _UNDEFINED.findall(_readelf("--dyn-syms", path))}, names
    )
    for name in names:
        _compile(name, sorted(wanted[name]), libraries / name)
    return names


def _functions(symbols: Iterable[str], names: list[str]) -> dict[str, set[str]]:
    """Library -> the functions torch wants of it. A symbol reads `name@VERSION` or `name`."""
    by_version = {VERSION_NAMES.get(_stem(name), name): name for name in names}
    by_prefix = {PREFIXES[_stem(name)]: name for name in names if _stem(name) in PREFIXES}
    found: dict[str, set[str]] = defaultdict(set)
    for symbol in symbols:
        function, _, version = symbol.partition("@")
        if version.strip("@") in by_version:
            found[by_version[version.strip("@")]].add(function)
        elif not version:
            for prefix, name in by_prefix.items():
                if function.startswith(prefix):
                    found[name].add(function)
    return found


def _stem(name: str) -> str:
    return name.partition(".")[0]


def _compile(name: str, functions: list[str], target: Path) -> None:
    version = VERSION_NAMES.get(_stem(name), "" if _stem(name) in PREFIXES else name)
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder) / "stand_in.c", Path(folder) / "versions"
        source.write_text("".join(f"int {function}(void) {{ return 1; }}\n" for function in functions))
        script.write_text(f"{version} {{ global: *; }};\n")
        versions = [f"-Wl,--version-script={script}"] if version else []
        subprocess.run(
            [
                "gcc",
                "-w",
                "-fno-builtin",
                "-shared",
                "-fPIC",
                "-o",
                target,
                source,
                f"-Wl,-soname,{name}",
                *versions,
            ],
            check=True,
        )


def _readelf(option: str, path: Path) -> str:
    return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout
