"""What is checked, as rules see it: Kubernetes objects, Pulumi resources, stack settings and requirement files."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from guardrails.core import Path
from guardrails.values import get, items, mapping, plain, text

Locate = Callable[[Path], int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """One thing that findings name. `locate` gives the line of a path in `file`, on demand."""

    kind: str
    name: str
    namespace: str = ""
    api: str = ""  # apiVersion of a Kubernetes object, type token of a Pulumi resource
    body: dict[str, object] = field(default_factory=dict)
    file: str | None = None
    locate: Locate | None = None
    urn: str | None = None

    @property
    def group(self) -> str:
        """API group: "ray.io" of "ray.io/v1", empty for the core."""
        return self.api.rpartition("/")[0]

    @property
    def label(self) -> str:
        """How findings name it: "RayService llm/chat", "NodePool gpu", "model chat"."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()

    def get(self, *path: str | int) -> object:
        """A value of its body."""
        return get(self.body, *path)


@dataclass(frozen=True, slots=True)
class Source:
    """An object to check together with where it was read."""

    value: object
    file: str | None = None
    locate: Locate | None = None
    urn: str | None = None


# Kinds that live outside namespaces, of those that rules name.
CLUSTER_SCOPED = frozenset(
    {
        "ClusterPolicy", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "DeviceClass",
        "EC2NodeClass", "IngressClass", "Namespace", "Node", "NodeClass", "NodeClaim", "NodeOverlay", "NodePool",
        "PersistentVolume", "PriorityClass", "Provisioner", "AWSNodeTemplate", "StorageClass",
    }
)  # fmt: skip


def subjects(sources: Iterable[object]) -> Iterator[Subject]:
    """Each object as a subject; Lists are opened, and what is neither an object nor a resource is passed over."""
    for given in sources:
        source = given if isinstance(given, Source) else Source(given)
        body = plain(source.value)
        if isinstance(body, dict):
            yield from _subjects_of(body, source)


def _subjects_of(body: dict[str, object], source: Source) -> Iterator[Subject]:
    kind, api = text(body.get("kind")) or "", text(body.get("apiVersion")) or ""
    if kind.endswith("List") and isinstance(body.get("items"), list) and api:
        for index, item in enumerate(items(body["items"])):
            if isinstance(item, dict):
                yield from _subjects_of(item, _below(source, ("items", index)))
    elif api and kind:
        yield _kubernetes(body, kind, api, source)
    elif "type" in body and ("props" in body or "inputs" in body):
        yield _resource(body, source)
    elif kind in ("requirements.txt", "intent"):
        name = text(body.get("stack")) or text(body.get("name")) or ""
        yield Subject(kind, name, body=body, file=source.file, locate=source.locate, urn=source.urn)


def _kubernetes(body: dict[str, object], kind: str, api: str, source: Source) -> Subject:
    metadata = mapping(body.get("metadata"))
    name = text(metadata.get("name")) or text(metadata.get("generateName")) or ""
    scope = "" if kind in CLUSTER_SCOPED else text(metadata.get("namespace")) or "default"
    return Subject(kind, name, scope, api, body, source.file, source.locate, source.urn)


def _resource(body: dict[str, object], source: Source) -> Subject:
    """A Pulumi resource; one that is a Kubernetes object becomes that object."""
    token = text(body.get("type")) or ""
    props = mapping(body.get("props", body.get("inputs")))
    urn = source.urn or text(body.get("urn"))
    name = text(body.get("name")) or ""
    api, kind = text(props.get("apiVersion")) or _api_of(token), text(props.get("kind")) or _kind_of(token)
    if token.startswith("kubernetes:") and api and kind:
        made = _kubernetes(props, kind, api, Source(props, source.file, None, urn))
        return made if made.name else replace(made, name=name)  # Pulumi makes a name of the resource's
    return Subject(token.rpartition(":")[2], name, "", token, props, source.file, source.locate, urn)


# Tokens of the Kubernetes provider that are no objects of a cluster.
_NO_OBJECTS = ("helm.sh/", "yaml", "kustomize", "index", "apiextensions.k8s.io:")


def _api_of(token: str) -> str:
    """`v1` of `kubernetes:core/v1:Service`, which is what the SDKs write into the object."""
    _, _, rest = token.partition(":")
    return "" if rest.startswith(_NO_OBJECTS) else rest.rpartition(":")[0].removeprefix("core/")


def _kind_of(token: str) -> str:
    return token.rpartition(":")[2]


def _below(source: Source, prefix: Path) -> Source:
    outer = source.locate
    inner = (lambda path: outer((*prefix, *path))) if outer else None
    return Source(None, source.file, inner, source.urn)


def labels_match(selector: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    """Whether a Kubernetes label selector (matchLabels and matchExpressions) selects these labels."""
    wanted = mapping(selector.get("matchLabels"))
    if any(labels.get(key) != text(value) for key, value in wanted.items()):
        return False
    return all(
        _expression_matches(expression, labels)
        for expression in items(selector.get("matchExpressions"))
        if isinstance(expression, dict)
    )


def _expression_matches(expression: dict[str, object], labels: Mapping[str, str]) -> bool:
    key, operator = text(expression.get("key")) or "", text(expression.get("operator"))
    values = [text(value) for value in items(expression.get("values"))]
    match operator:
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
    return True
