"""Packages installed at run time: over the engine of the image, or without a version."""

import re
from collections.abc import Iterator

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.objects import Subject
from guardrails.reading import inner_mapping
from guardrails.serve import packages
from guardrails.values import texts
from guardrails.world import World

ENV_ENGINE = Rule(
    id="runtime-env-engine",
    severity=Severity.ERROR,
    sentence="A runtime environment does not install vLLM, torch or Ray.",
    why="It replaces the pair that the image was built with, and downloads gigabytes at every start of a replica.",
    remedy="take the version from the image; for another version build an image",
    source="ray#59639, gpustack#2691",
    reads=("RayService:spec.serveConfigV2",),
)
ENV_UNPINNED = Rule(
    id="runtime-env-unpinned",
    severity=Severity.WARN,
    sentence="Packages and code of a runtime environment have an exact version.",
    why="A replica that starts next month runs other code than those beside it.",
    remedy="write ==VERSION, and a commit or version in the address of the code",
    source="Ray docs, runtime environments",
    reads=("RayService:spec.serveConfigV2",),
)
REQUIREMENTS = Rule(
    id="requirements-unpinned",
    severity=Severity.WARN,
    sentence="requirements.txt names exact versions.",
    why="The same commit then deploys different things on different days.",
    remedy="write == and let Renovate or Dependabot move it",
    source="pip docs, repeatable installs",
)


def _runtime_envs(world: World) -> Iterator[tuple[Subject, Path, dict[str, object], str]]:
    """Runtime environments of Serve documents and RayJobs, with the name of the cluster's image."""
    for document in world.serve_documents:
        image = _worker_image(world, document.subject)
        for path, body in document.runtime_envs:
            yield document.subject, path, body, image
    for subject in world.kind("RayJob", group="ray.io"):
        written = subject.get("spec", "runtimeEnvYAML")
        if isinstance(written, str):
            yield subject, ("spec", "runtimeEnvYAML"), inner_mapping(written), _worker_image(world, subject)


def _worker_image(world: World, subject: Subject) -> str:
    pods = [pod for pod in world.pods_by_owner.get(subject, []) if pod.is_ray and pod.main and pod.main.image]
    workers = [pod for pod in pods if pod.role == "worker"] or pods
    return workers[0].main.image.name if workers and workers[0].main and workers[0].main.image else ""


MOST_NAMED = 5  # of unpinned requirements in one message
_PACKAGE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(.*)")
_ENGINES = ("vllm", "torch", "ray")


def _name_of(package: str) -> str:
    found = _PACKAGE.fullmatch(package)
    return found[1].lower().replace("_", "-") if found else ""


def env_engine(world: World) -> Iterator[Hit]:
    """The engine installed over the image's own."""
    for subject, path, body, image in _runtime_envs(world):
        for inner, package in packages(body):
            name = _name_of(package)
            if name in _ENGINES:
                # Ray's plain image has no vLLM: then it is slow, but replaces nothing (KubeRay's older samples do so).
                severity = Severity.WARN if image == "ray" and name != "ray" else None
                yield Hit(
                    subject,
                    (*path, *inner),
                    f"runtime_env installs {package} over what the image has",
                    severity,
                )


_PINNED_URL = re.compile(r"[0-9a-f]{7,64}|refs/tags/|v?\d+\.\d+|20\d{2}-?\d{2}|versionId=|v\d+(?:[/._-]|$)")
_MOVING_URL = re.compile(
    r"refs/heads/|/(?:main|master|latest|develop)\.(?:zip|tar\.gz|tgz)|/archive/(?:main|master)\b"
)


def env_unpinned(world: World) -> Iterator[Hit]:
    """Packages and code that move."""
    for subject, path, body, _ in _runtime_envs(world):
        for inner, package in packages(body):
            if not _is_pinned(package):
                yield Hit(
                    subject, (*path, *inner), f"runtime_env installs {package} without an exact version"
                )
        for key in ("working_dir", "py_modules"):
            for index, address in enumerate(texts(body.get(key))):
                if "://" in address and (_MOVING_URL.search(address) or not _PINNED_URL.search(address)):
                    where: Path = (key,) if isinstance(body.get(key), str) else (key, index)
                    yield Hit(subject, (*path, *where), f"{key} {address} names no commit or version")


def _is_pinned(package: str) -> bool:
    if package.startswith(("-", "#")) or package.endswith((".txt", ".yaml", ".yml")):
        return True  # an option or a file, of which nothing is known here
    if "@" in package or "://" in package:
        return bool(_PINNED_URL.search(package.partition("@")[2] or package))
    found = _PACKAGE.fullmatch(package)
    return bool(found and re.match(r"={1,3}\s*[0-9]", found[3]) and "*" not in found[3])


def requirements(world: World) -> Iterator[Hit]:
    """Requirement files without exact versions."""
    for subject in world.by_kind.get("requirements.txt", []):
        lines = [(index, line) for index, line in enumerate(texts(subject.body.get("lines")))]
        open_ones = [
            (index, line)
            for index, line in lines
            if _is_requirement(line) and not _is_pinned(line.split(";")[0].strip())
        ]
        if open_ones:
            more = " …" if len(open_ones) > MOST_NAMED else ""
            named = ", ".join(line.strip() for _, line in open_ones[:MOST_NAMED]) + more
            yield Hit(subject, ("lines", open_ones[0][0]), f"without an exact version: {named}")


def _is_requirement(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith(("#", "-"))


RULES: Table = (
    (ENV_ENGINE, env_engine),
    (ENV_UNPINNED, env_unpinned),
    (REQUIREMENTS, requirements),
)
