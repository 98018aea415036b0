"""Secrets in plain text: in environments, arguments, Serve documents, chart values and stack settings."""

import re
from collections.abc import Iterator

from guardrails.containers import Container
from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.pods import Pod
from guardrails.values import leaves, mapping, text
from guardrails.world import World

PLAINTEXT = Rule(
    id="secret-in-plain-text",
    severity=Severity.ERROR,
    sentence="Tokens, keys and passwords come from a Secret.",
    why="In the manifest they are in git, in the state file and in every kubectl get -o yaml.",
    remedy="use valueFrom.secretKeyRef; in Pulumi a secret config value (pulumi config set --secret)",
    source="production-stack#14, kserve#4674; Kubernetes docs, good practices for Secrets",
    framework="CIS EKS 4.4 / NSA Kubernetes Hardening, secrets",
)

# What tokens of services look like, wherever they stand.
TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|sk-(?:proj-|ant-)?[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{20,}|AKIA[0-9A-Z]{16}|ASIA[0-9A-Z]{16}|xox[bpars]-[\w-]{10,}|nvapi-[\w-]{20,})\b"
)
# Names whose value is a secret. Not: TOKENIZERS_PARALLELISM, MAX_TOKENS, HF_TOKEN_PATH, …_KEY_FILE.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-. a-z])(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY|CREDENTIALS?)$",
    re.IGNORECASE,
)
_CAMEL_NAME = re.compile(r"(?:[a-z]|^)(?:Token|Secret|Password|ApiKey|AccessKey|SecretKey|PrivateKey)$")
_NOT_SECRET_NAME = re.compile(
    r"(?:_PATH|_FILE|_DIR|_NAME|_REF|_ID|_URL|_TTL)$|^(?:PAD|BOS|EOS|UNK|SEP|CLS|MASK)_TOKEN$", re.IGNORECASE
)
# Values that stand for none: references, words that clients need, and gaps to fill in.
_NO_SECRET = re.compile(
    r"|\$[({]?\w+[)}]?|\$\{.*\}|\{\{.*\}\}|none|null|empty|dummy|unused|not[-_ ]?(?:needed|required|used)|no[-_ ]?key|true|false|\d{1,6}"
    r"|sk-no-key.*|token-abc123|/[\w./-]+|<.*>|\[.*\]",
    re.IGNORECASE,
)
_GAP = re.compile(r"<[^>]+>|(?:your|change|replace|insert|fill|todo|xxx|example)[\w-]*", re.IGNORECASE)
_KEY_FLAG = re.compile(r"--(?:api-key|hf-token|token|password|secret)(?:=|\s+)(\S+)")
_FLAGS = ("--api-key", "--hf-token", "--hf_token", "--api_key")


def names_secret(name: str) -> bool:
    """Whether a variable or key of this name holds a secret."""
    return not _NOT_SECRET_NAME.search(name) and bool(_SECRET_NAME.search(name) or _CAMEL_NAME.search(name))


def is_secret(name: str, value: str) -> bool:
    """Whether a literal value is a secret: by its own shape, or by its name where it stands for something."""
    stripped = value.strip()
    if TOKEN.search(stripped):
        return True
    return names_secret(name) and not _NO_SECRET.fullmatch(stripped)


def _severity(value: str) -> Severity | None:
    """A gap that somebody is to fill in invites a token, but is none."""
    return Severity.WARN if _GAP.match(value.strip()) and not TOKEN.search(value) else None


def plaintext(world: World) -> Iterator[Hit]:
    """Secrets that anyone with the file can read."""
    for pod in world.pods:
        for container in pod.all_containers:
            yield from _environment(pod, container)
            yield from _arguments(pod, container)
    for document in world.serve_documents:
        for path, value in leaves(document.body):
            yield from _leaf(document, path, value)
    for subject in world.kind("RayJob", group="ray.io"):
        written = text(subject.get("spec", "runtimeEnvYAML")) or ""
        if TOKEN.search(written):
            yield Hit(subject, ("spec", "runtimeEnvYAML"), "runtimeEnvYAML holds a token in plain text")
    for subject in world.by_kind.get("ConfigMap", []):
        for key, value in mapping(subject.get("data")).items():
            if isinstance(value, str) and is_secret(key, value) and len(value) < 4096:  # noqa: PLR2004 - not a whole file
                yield Hit(
                    subject,
                    ("data", key),
                    f"ConfigMap key {key} holds a secret in plain text",
                    _severity(value),
                )
    yield from _chart_values(world)
    yield from _stacks(world)


def _environment(pod: Pod, container: Container) -> Iterator[Hit]:
    for name, (index, entry) in container.env.items():
        value = text(entry.get("value"))
        if value and is_secret(name, value):
            path: Path = (*container.path, "env", index, "value")
            yield Hit(
                pod.owner, path, f"container {container.name}: {name} has a literal value", _severity(value)
            )


def _arguments(pod: Pod, container: Container) -> Iterator[Hit]:
    for key in ("command", "args"):
        words = container.body.get(key)
        listed = [text(word) or "" for word in words] if isinstance(words, list) else []
        for index, word in enumerate(listed):
            value = _argument_secret(word, listed[index + 1] if index + 1 < len(listed) else "")
            if value:
                flag = word.split("=")[0].split(" ")[0] if word.startswith("-") else "a token"
                message = f"container {container.name}: {flag} is given in plain text"
                yield Hit(pod.owner, (*container.path, key, index), message, _severity(value))


def _argument_secret(word: str, following: str) -> str:
    if word in _FLAGS:
        return following if following and not _NO_SECRET.fullmatch(following) else ""
    for value in _KEY_FLAG.findall(word):
        if not _NO_SECRET.fullmatch(value.strip("'\"")):
            return str(value)
    found = TOKEN.search(word)
    return found[0] if found else ""


def _leaf(document: object, path: Path, value: object) -> Iterator[Hit]:
    subject, base = getattr(document, "subject", None), getattr(document, "path", ())
    written = text(value) if isinstance(value, str) else None
    if subject is None or not written:
        return
    name = str(path[-1]) if path else ""
    in_env = "env_vars" in path
    if TOKEN.search(written) or ((in_env or name in ("api_key", "hf_token")) and is_secret(name, written)):
        yield Hit(
            subject, (*base, *path), f"the Serve document sets {name} in plain text", _severity(written)
        )


def _chart_values(world: World) -> Iterator[Hit]:
    for release in world.releases:
        for path, value in leaves(release.values):
            name = str(path[-1]) if path else ""
            if isinstance(value, str) and value and is_secret(name, value):
                token = bool(TOKEN.search(value))
                message = (
                    f"{release.label}: value {'.'.join(str(step) for step in path)} is a secret in plain text"
                )
                severity = _severity(value) if token else Severity.WARN
                yield Hit(release.subject, (*release.values_path, *path), message, severity)


def _stacks(world: World) -> Iterator[Hit]:
    for stack in world.stacks:
        for path, value in leaves(stack.plain):
            names = [str(step) for step in path if isinstance(step, str)]
            written = value if isinstance(value, str) else ""
            if written and names and is_secret(names[-1], written) and "secure" not in names:
                subject = world.stack_subject(stack, "settings", "stack")
                yield Hit(subject, path, f"setting {names[-1]} is a secret in plain text", _severity(written))


RULES: Table = ((PLAINTEXT, plaintext),)
