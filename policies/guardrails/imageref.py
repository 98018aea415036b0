"""Reading container image references: registry, name, tag, digest, and the versions that a tag tells."""

import re
from dataclasses import dataclass
from functools import lru_cache

from guardrails.contract import vllm_of_ray

_VERSION = re.compile(
    r"(?:^|[^0-9a-z.])v?\d+\.\d+|^v?\d+(?:[-_.]|$)|(?:vllm|ray|cuda)v?\d+\.\d+", re.IGNORECASE
)
_DATE = re.compile(r"20\d{2}[-_.]?[01]\d(?:[-_.]?[0-3]\d)?")
_HASH = re.compile(r"(?:^|[^0-9a-z])(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?:$|[^0-9a-z])", re.IGNORECASE)
_BUILD = re.compile(r"(?:^|[-_.])(?:build|b|rev|r|release|pr|run)[-_.]?\d+(?:$|[-_.])", re.IGNORECASE)
_FLOATING_WORD = re.compile(r"(?:latest|nightly|main|master|edge)(?:$|[-_.])", re.IGNORECASE)

_RAY = re.compile(r"(?:^|[-_]|ray)v?(2\.\d+(?:\.\d+)?)(?![0-9])")
_RAY_NAMES = ("ray", "ray-llm", "ray-ml")
_VLLM = re.compile(r"vllm[-_]?v?(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)
_LEADING = re.compile(r"v?(\d+\.\d+(?:\.\d+)?)")

# The newest vllm/vllm-openai that still ships Ray (vllm-project/production-stack issue 995 and PR 1056).
LAST_OPENAI_WITH_RAY = (0, 17, 1)


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One image reference."""

    text: str
    repository: str  # with the registry, without tag and digest
    tag: str | None
    digest: str | None

    @property
    def name(self) -> str:
        """Last part of the repository: "ray-llm"."""
        return self.repository.rpartition("/")[2]

    @property
    def is_template(self) -> bool:
        """Whether a tool fills it in later, so that nothing can be said about it."""
        return "{{" in self.text or "$" in self.text or "<" in self.text

    @property
    def floats(self) -> bool:
        """Whether what is pulled may change: no digest, and no tag that names a version, a day or a content."""
        if self.digest or self.is_template:
            return False
        if not self.tag or self.tag.lower() == "latest" or self.tag.lower().startswith("latest-"):
            return True
        if _FLOATING_WORD.match(self.tag):
            return not (_DATE.search(self.tag) or _HASH.search(self.tag))
        return not any(pattern.search(self.tag) for pattern in (_VERSION, _DATE, _HASH, _BUILD))

    @property
    def ray_version(self) -> str | None:
        """Ray's version in the tag of a Ray image; None for other images and tags that tell none."""
        words = re.split(r"[-_]", self.name)
        if not self.tag or "ray" not in words:
            return None
        found = _RAY.search(self.tag)
        if found is None or (self.name not in _RAY_NAMES and found.start() > 0 and "ray" not in self.tag):
            return None
        return found[1]

    @property
    def vllm_version(self) -> str | None:
        """VLLM's version in the tag, or the one that goes with the Ray of a Ray LLM image."""
        if not self.tag:
            return None
        named = _VLLM.search(self.tag)
        if named:
            return named[1]
        if "ray" in re.split(r"[-_]", self.name):
            return vllm_of_ray(self.ray_version) if self.name == "ray-llm" else None
        if "vllm" in self.repository.lower():
            leading = _LEADING.match(self.tag)
            return leading[1] if leading else None
        return None

    @property
    def is_openai_server(self) -> bool:
        """Whether it is vLLM's own server image, from any registry or mirror."""
        return self.name == "vllm-openai"


@lru_cache(maxsize=4096)
def image_ref(text: str) -> ImageRef:
    """Parse a reference; the colon of `host:5000/name` is a port."""
    body, at, digest = text.strip().partition("@")
    head, slash, last = body.rpartition("/")
    name, colon, tag = last.partition(":")
    return ImageRef(text, f"{head}{slash}{name}", tag if colon and tag else None, digest if at else None)
