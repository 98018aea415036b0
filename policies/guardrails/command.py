"""What a container runs: the engine's flags out of its command and arguments, however they are written.

Direct (`args: [--tensor-parallel-size=2]`), as two elements, through a shell (`sh -c "vllm serve …"`), as a Python
module, and short forms (`-tp 2`). A flag's path points to the element of `command` or `args` that has it.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from guardrails.core import Path

_SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_ENGINE_MODULE = re.compile(r"vllm\.entrypoints\.(?:openai\.)?(?:api_server|rpc)")
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\$(\w+)")
_ENDS = frozenset({"&&", "||", ";", "|", "&", ">", ">>", "2>&1", "2>"})

SHORT_FLAGS: Mapping[str, str] = {
    "-tp": "tensor_parallel_size", "-pp": "pipeline_parallel_size", "-dp": "data_parallel_size", "-q": "quantization",
    "-n": "nnodes", "-r": "node_rank", "-dpn": "data_parallel_rank", "-dpl": "data_parallel_size_local",
    "-dpa": "data_parallel_address", "-dpp": "data_parallel_rpc_port", "-dpb": "data_parallel_backend",
    "-ep": "enable_expert_parallel", "-dcp": "decode_context_parallel_size", "-asc": "api_server_count",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag of the engine: as written, its value (True alone), where it is, and whether a shell read it."""

    written: str
    value: object
    path: Path
    shell: bool


@dataclass(frozen=True, slots=True)
class Command:
    """An engine's command line. `flags` are keyed by Python names (`max_model_len`)."""

    flags: Mapping[str, Flag] = field(default_factory=dict)
    model: str | None = None
    model_path: Path = ()
    explicit: bool = False  # the command names vLLM itself; otherwise the image's entry point does


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    path: Path
    shell: bool = False


def engine_command(
    command: Iterable[tuple[Path, str]],
    args: Iterable[tuple[Path, str]],
    env: Mapping[str, str],
    *,
    is_engine_image: bool,
) -> Command | None:
    """The engine's command line in a container, or None where it runs no engine that can be seen."""
    commands = [_Token(text, path) for path, text in command]
    tokens = [*commands, *(_Token(text, path) for path, text in args)]
    expanded = [_Token(_expand(token.text, env), token.path, token.shell) for token in _through_shell(tokens)]
    start = _engine_start(expanded)
    if start is not None:
        return _parse(expanded[start:], explicit=True)
    if is_engine_image and not commands:
        return _parse(expanded, explicit=False)
    return None


def _through_shell(tokens: list[_Token]) -> list[_Token]:
    """Tokens with the script of `sh -c` split into its words."""
    for index, token in enumerate(tokens):
        if token.text.rpartition("/")[2] in _SHELLS and index + 1 < len(tokens):
            script = next(
                (place for place in range(index + 1, len(tokens)) if not tokens[place].text.startswith("-")),
                None,
            )
            if script is not None and any(
                item.text.startswith("-") and "c" in item.text for item in tokens[index:script]
            ):
                words = [_Token(word, tokens[script].path, True) for word in _words(tokens[script].text)]
                return [*tokens[:index], *words]
    return tokens


def _words(script: str) -> list[str]:
    """Words of a shell script, as far as a split can tell; line continuations are joined."""
    joined = script.replace("\\\r\n", " ").replace("\\\n", " ").replace("\n", " ; ")
    try:
        lexer = shlex.shlex(joined, posix=True, punctuation_chars=";&|<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        return list(lexer)
    except ValueError:  # an open quote: still better than nothing
        return joined.split()


def _engine_start(tokens: list[_Token]) -> int | None:
    """Index after `vllm serve` or after the server's module."""
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text.rpartition("/")[2] == "vllm" and following == "serve":
            return index + 2
        if _ENGINE_MODULE.search(token.text.replace("/", ".")):
            return index + 1
    return None


def _parse(tokens: list[_Token], *, explicit: bool) -> Command:
    flags: dict[str, Flag] = {}
    model: str | None = None
    model_path: Path = ()
    for token, name, value in _flags(tokens):
        if not name:
            if model is None and not flags:
                model, model_path = token.text, token.path
            continue
        written = token.text.partition("=")[0].partition(" ")[0]
        flags.setdefault(name, Flag(written, value, token.path, token.shell))
    if "model" in flags:
        named = flags["model"]
        model, model_path = named.value if isinstance(named.value, str) else None, named.path
    return Command(flags, model, model_path, explicit)


def _flags(tokens: list[_Token]) -> Iterator[tuple[_Token, str, object]]:
    """Each flag with its value, and each word that is no flag (name "")."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.shell and token.text in _ENDS:
            return
        index += 1
        if not _is_flag(token.text):
            yield token, "", None
            continue
        written, equals, value = token.text.partition("=")
        if (
            not equals and " " in written.strip()
        ):  # flag and value in one element; the rule args-token-space says so
            written, _, value = written.strip().partition(" ")
            equals = " "
        if equals:
            yield token, flag_name(written), value.strip()
        elif index < len(tokens) and not _is_flag(tokens[index].text) and tokens[index].text not in _ENDS:
            yield token, flag_name(written), tokens[index].text
            index += 1
        else:
            yield token, flag_name(written), True


def _is_flag(text: str) -> bool:
    return bool(re.match(r"--?[A-Za-z]", text))


def flag_name(written: str) -> str:
    """Python name of a flag: "max_model_len" of "--max-model-len", "tensor_parallel_size" of "-tp"."""
    if written in SHORT_FLAGS:
        return SHORT_FLAGS[written]
    return written.lstrip("-").partition(".")[0].replace("-", "_")


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Variables of the container's own environment replaced; others stay, so that a rule sees it cannot know."""
    if "$" not in text:
        return text
    return _VARIABLE.sub(lambda found: env.get(next(filter(None, found.groups())), found[0]), text)
