"""One container of a pod."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from components.conventions import EFA_RESOURCE, GPU_RESOURCE, SHM_PATH
from guardrails.command import Command, engine_command
from guardrails.core import Path
from guardrails.imageref import ImageRef, image_ref
from guardrails.values import get, is_hidden, items, mappings, number, text, whole

# Flags by which an image with vLLM in its name is known to start the server itself.
ENGINE_FLAGS = ("--model", "--tensor-parallel-size", "--served-model-name", "--max-model-len")


@dataclass(eq=False)
class Container:
    """One container of a pod."""

    body: dict[str, object]
    path: Path  # in the owner's body
    is_init: bool = False

    @cached_property
    def name(self) -> str:
        """Its name."""
        return text(self.body.get("name")) or ""

    @cached_property
    def image(self) -> ImageRef | None:
        """Its image; None where there is none or it is not known."""
        written = self.body.get("image")
        return image_ref(written) if isinstance(written, str) and written.strip() else None

    @cached_property
    def env(self) -> dict[str, tuple[int, dict[str, object]]]:
        """Environment entries by name, each with its index."""
        return {
            text(entry.get("name")) or "": (index, entry) for index, entry in mappings(self.body.get("env"))
        }

    @cached_property
    def env_values(self) -> dict[str, str]:
        """Environment variables that have a literal value."""
        found = {name: text(entry.get("value")) for name, (_, entry) in self.env.items()}
        return {name: value for name, value in found.items() if value is not None}

    def is_hidden(self, variable: str) -> bool:
        """Whether an environment variable may be set to something that cannot be read."""
        if is_hidden(self.body.get("env")):
            return True
        if any(is_hidden(item) or is_hidden(get(item, "name")) for item in items(self.body.get("env"))):
            return True
        return variable in self.env and is_hidden(self.env[variable][1].get("value"))

    def limit(self, resource: str) -> float | None:
        """A limit as a number."""
        return number(get(self.body, "resources", "limits", resource))

    def request(self, resource: str) -> float | None:
        """What the container asks for: its request, and its limit where there is no request (as Kubernetes does)."""
        asked = number(get(self.body, "resources", "requests", resource))
        return asked if asked is not None else self.limit(resource)

    @cached_property
    def gpus(self) -> int:
        """NVIDIA GPUs that it gets."""
        return int(
            self.limit(GPU_RESOURCE) or number(get(self.body, "resources", "requests", GPU_RESOURCE)) or 0
        )

    @cached_property
    def efa(self) -> int:
        """EFA interfaces that it gets."""
        return int(
            self.limit(EFA_RESOURCE) or number(get(self.body, "resources", "requests", EFA_RESOURCE)) or 0
        )

    @cached_property
    def mounts(self) -> list[tuple[int, str, dict[str, object]]]:
        """Volume mounts: index, path, entry."""
        return [
            (index, (text(mount.get("mountPath")) or "").rstrip("/") or "/", mount)
            for index, mount in mappings(self.body.get("volumeMounts"))
        ]

    @cached_property
    def shm_mount(self) -> dict[str, object] | None:
        """What is mounted at /dev/shm."""
        return next((mount for _, path, mount in self.mounts if path == SHM_PATH), None)

    @cached_property
    def ports(self) -> list[tuple[str, int]]:
        """Ports: name and number."""
        return [
            (text(port.get("name")) or "", whole(port.get("containerPort")) or 0)
            for _, port in mappings(self.body.get("ports"))
        ]

    @cached_property
    def engine(self) -> Command | None:
        """The vLLM command line that it runs, if it runs one."""
        image = self.image
        return engine_command(
            self.words("command"),
            self.words("args"),
            self.env_values,
            is_engine_image=(image is not None and image.is_openai_server) or self._named_engine,
        )

    @cached_property
    def _named_engine(self) -> bool:
        """Whether an image with vLLM in its name is started with engine flags and no command of its own."""
        image = self.image
        words = [word for _, word in self.words("args")]
        return (
            image is not None
            and "vllm" in image.repository.lower()
            and any(word.partition("=")[0] in ENGINE_FLAGS for word in words)
        )

    def words(self, key: str) -> Iterator[tuple[Path, str]]:
        """Words of its command or args, each with its path."""
        value = self.body.get(key)
        if isinstance(value, str):  # not valid, but then at least it can be read
            yield (*self.path, key), value
        for index, item in enumerate(items(value)):
            word = text(item)
            if word is not None:
                yield (*self.path, key, index), word
