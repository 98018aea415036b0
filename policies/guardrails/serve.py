"""Ray Serve documents (`serveConfigV2`) parsed once, with the paths of what they hold."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from guardrails.core import Path
from guardrails.objects import Subject
from guardrails.reading import UnreadableError, yaml_value
from guardrails.values import Hidden, get, mapping, mappings, plain, text, texts

SERVE_PATH: Path = ("spec", "serveConfigV2")


@dataclass(eq=False)
class LlmConfig:
    """One model of Ray's LLM builder."""

    document: "ServeDocument"
    path: Path
    body: dict[str, object]
    application: dict[str, object]

    @property
    def name(self) -> str:
        """Model id, or its place in the document."""
        return text(get(self.body, "model_loading_config", "model_id")) or ".".join(
            str(step) for step in self.path[-2:]
        )

    @property
    def source(self) -> str | None:
        """Where the weights come from; Ray takes the id where no source is given."""
        given = get(self.body, "model_loading_config", "model_source")
        if isinstance(given, dict):
            given = given.get("bucket_uri")
        return text(given) or text(get(self.body, "model_loading_config", "model_id"))

    @property
    def engine_kwargs(self) -> dict[str, object]:
        """Engine arguments."""
        return mapping(self.body.get("engine_kwargs"))

    @property
    def deployment(self) -> dict[str, object]:
        """Options of the model's deployment."""
        return mapping(self.body.get("deployment_config"))


@dataclass(eq=False)
class ServeDocument:
    """One Serve document. `error` says why it could not be read."""

    subject: Subject
    path: Path
    body: dict[str, object]
    error: str = ""
    hidden: bool = False

    @cached_property
    def applications(self) -> list[tuple[Path, dict[str, object]]]:
        """Applications with their paths."""
        return [
            ((*self.path, "applications", index), body)
            for index, body in mappings(self.body.get("applications"))
        ]

    @cached_property
    def deployments(self) -> list[tuple[Path, dict[str, object]]]:
        """Deployments named in any application."""
        return [
            ((*path, "deployments", index), body)
            for path, application in self.applications
            for index, body in mappings(application.get("deployments"))
        ]

    @cached_property
    def llm_configs(self) -> list[LlmConfig]:
        """Models of Ray's LLM builders."""
        return [
            LlmConfig(self, (*path, "args", "llm_configs", index), body, application)
            for path, application in self.applications
            for index, body in mappings(get(application, "args", "llm_configs"))
        ]

    @cached_property
    def deployment_options(self) -> list[tuple[Path, dict[str, object], str]]:
        """Every set of deployment options: its path, the options and a name for messages."""
        named = [
            (path, body, f"deployment {text(body.get('name')) or path[-1]}")
            for path, body in self.deployments
        ]
        models = [
            ((*item.path, "deployment_config"), item.deployment, f"model {item.name}")
            for item in self.llm_configs
        ]
        ingress = [
            ((*path, "args", "ingress_deployment_config"), found, "the ingress deployment")
            for path, application in self.applications
            if (found := mapping(get(application, "args", "ingress_deployment_config")))
        ]
        return [*named, *models, *ingress]

    @cached_property
    def runtime_envs(self) -> list[tuple[Path, dict[str, object]]]:
        """Every runtime environment in it."""
        places: list[tuple[Path, object]] = [
            ((*path, "runtime_env"), body.get("runtime_env")) for path, body in self.applications
        ]
        places += [
            ((*path, "ray_actor_options", "runtime_env"), get(body, "ray_actor_options", "runtime_env"))
            for path, body in self.deployments
        ]
        places += [((*item.path, "runtime_env"), item.body.get("runtime_env")) for item in self.llm_configs]
        return [(path, body) for path, found in places if (body := mapping(found))]

    @cached_property
    def env_vars(self) -> dict[str, str]:
        """Environment variables of its applications, later ones winning."""
        return {
            key: value
            for _, body in self.runtime_envs
            for key, item in mapping(body.get("env_vars")).items()
            if (value := text(item)) is not None
        }


def serve_document(subject: Subject) -> ServeDocument | None:
    """The Serve document of a RayService; None where it has none."""
    if subject.kind != "RayService" or subject.group != "ray.io":
        return None
    written = subject.get(*SERVE_PATH)
    if written is None:
        return None
    if isinstance(written, Hidden):
        return ServeDocument(subject, SERVE_PATH, {}, hidden=True)
    if not isinstance(written, str):
        return ServeDocument(
            subject, SERVE_PATH, mapping(written), "is not text; write `serveConfigV2: |` and indent it"
        )
    return _parse(subject, written)


def _parse(subject: Subject, written: str) -> ServeDocument:
    try:
        body = plain(yaml_value(written))
    except UnreadableError as error:
        where = f" (line {error.line} of the document)" if error.line else ""
        return ServeDocument(subject, SERVE_PATH, {}, f"{error}{where}")
    if not isinstance(body, dict):
        return ServeDocument(subject, SERVE_PATH, {}, "holds no mapping; it needs the key applications")
    return ServeDocument(subject, SERVE_PATH, body)


def packages(runtime_env: dict[str, object]) -> Iterator[tuple[Path, str]]:
    """Packages that a runtime environment installs, with their paths in it."""
    for tool in ("pip", "uv", "conda"):
        listed = runtime_env.get(tool)
        if isinstance(listed, dict):
            inner = "dependencies" if tool == "conda" else "packages"
            for index, item in enumerate(texts(listed.get(inner))):
                yield (tool, inner, index), item
            continue
        for index, item in enumerate(texts(listed)):
            yield (tool, index) if isinstance(listed, list) else (tool,), item


def serve_documents(subjects: Iterable[Subject]) -> list[ServeDocument]:
    """The Serve documents among the objects."""
    return [found for subject in subjects if (found := serve_document(subject)) is not None]
