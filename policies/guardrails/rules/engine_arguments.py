"""Engine arguments: known to the version, spelt where a shell does not split them, sensible with each other."""

import re
from collections.abc import Iterator, Mapping

from guardrails.command import SHORT_FLAGS, Flag
from guardrails.contract import knows, names, suggestion
from guardrails.core import Hit, Rule, Severity, Table
from guardrails.engines import Engine
from guardrails.world import World

UNKNOWN = Rule(
    id="engine-argument-unknown",
    severity=Severity.ERROR,
    sentence="Every engine argument is one that the engine's version has.",
    why="vLLM exits on an unknown flag; inside Ray the replica fails when the engine is built, twenty times over.",
    remedy="remove it, or use the name that this version has",
    source="vllm/engine/arg_utils.py of each release (components/facts/data/engine_arguments.json)",
    reads=("RayService:spec.serveConfigV2", "pod:containers.*.args", "pod:containers.*.command"),
)
SPACE = Rule(
    id="args-token-space",
    severity=Severity.ERROR,
    sentence="A flag and its value are two elements of args, or joined by =.",
    why="Without a shell nothing splits them: the program gets one argument with a space in it.",
    remedy="write --flag=value, or two list elements",
    source="Kubernetes docs, define a command and arguments for a container",
)
RESERVED = Rule(
    id="engine-argument-reserved",
    severity=Severity.ERROR,
    sentence="Engine arguments do not name what Ray or the stack sets itself.",
    why="Ray's LLM builder refuses them, or the two values fight.",
    remedy="use the setting that stands for it",
    source="Ray 2.60 llm_config.py; components/settings/models.py",
)
CONTEXT = Rule(
    id="context-too-long",
    severity=Severity.ERROR,
    sentence="The context length is at most the positions that the model knows.",
    why="vLLM refuses to start.",
    remedy="lower max_model_len, or give hf_overrides with rope scaling",
    source="vllm/config/model.py _get_and_verify_max_len",
)
BATCH = Rule(
    id="batched-tokens-too-few",
    severity=Severity.ERROR,
    sentence="A batch holds one token of every sequence, and a whole prompt where prefill is not chunked.",
    why="vLLM refuses such a scheduler configuration.",
    remedy="raise max_num_batched_tokens, lower max_num_seqs, or leave chunked prefill on",
    source="vllm/config/scheduler.py",
)
REMOTE_CODE = Rule(
    id="trust-remote-code",
    severity=Severity.WARN,
    sentence="Code that comes with the weights is not run.",
    why="Whoever can change the model's repository runs code beside the prompts and the cloud identity.",
    remedy="use an architecture that vLLM has, or pin the revision and read its code",
    source="CVE-2026-4944, CVE-2026-22807; vLLM security guide",
    framework="OWASP LLM03 supply chain",
)
INSECURE_ENV = Rule(
    id="engine-unsafe-setting",
    severity=Severity.WARN,
    sentence="vLLM's unsafe development settings are off.",
    why="They accept pickled objects, or open endpoints that change the running server.",
    remedy="remove the variable",
    source="vllm/envs.py; CVE-2025-32444, CVE-2025-30165",
)


def unknown(world: World) -> Iterator[Hit]:
    """Arguments that the version does not know."""
    for engine in world.engines:
        if engine.origin == "application":
            continue  # an application of one's own may name its arguments as it likes
        if engine.origin == "container":
            yield from _unknown_flags(engine)
        else:
            yield from _unknown_arguments(engine)


def _unknown_flags(engine: Engine) -> Iterator[Hit]:
    for name, item in engine.flags.items():
        if _flag_is_known(engine.version, name, item) is False:
            yield _unknown_hit(engine, name, item.written, "flags", f"--{name.replace('_', '-')}")


def _flag_is_known(version: str | None, name: str, item: Flag) -> bool | None:
    if not item.written.startswith("--") or "$" in item.written or "{" in item.written:
        return True if item.written in SHORT_FLAGS else None
    written = f"--{name.replace('_', '-')}"
    spellings = [written]
    if written.startswith("--no-"):
        spellings.append(f"--{written.removeprefix('--no-')}")
    found = [knows("flags", version, spelling) for spelling in spellings]
    if True in found or _is_abbreviation(written, version):
        return True
    return False if False in found else None


def _is_abbreviation(written: str, version: str | None) -> bool:
    """Argparse takes any prefix that is the beginning of exactly one flag."""
    return sum(flag.startswith(written) for flag in names("flags", version)) == 1


def _unknown_arguments(engine: Engine) -> Iterator[Hit]:
    listed = engine.model.further if engine.model is not None else tuple(engine.arguments)
    for name in listed:
        # Ray hands what is no engine argument to vLLM's own server (enable_auto_tool_choice, chat_template …).
        flag = f"--{name.replace('_', '-')}"
        is_unknown = (
            knows("arguments", engine.version, name) is False
            and knows("flags", engine.version, flag) is not True
        )
        if name not in RESERVED_BY_RAY and is_unknown:
            yield _unknown_hit(engine, name, name, "arguments", name)


def _unknown_hit(engine: Engine, name: str, written: str, table: str, key: str) -> Hit:
    near = suggestion("arguments", engine.version, name) or suggestion(table, engine.version, key)
    hint = (
        f"; did you mean {near.lstrip('-').replace('-', '_') if table == 'arguments' else near}?"
        if near
        else ""
    )
    message = f"{engine.name}: vLLM {engine.version} has no {written}{hint}"
    return Hit(engine.subject, engine.path_of(name), message)


def space(world: World) -> Iterator[Hit]:
    """`--flag value` in one element."""
    for pod in world.pods:
        for container in pod.all_containers:
            program = next(iter(container.words("command")), None)
            if program and re.match(r"(?:vllm|python3?|/\S*python3?) \S", program[1]):
                message = f"container {container.name}: {program[1]!r} is the name of one program, not a program and its arguments"
                yield Hit(pod.owner, program[0], message, remedy="make each word an element of command")
            if container.engine is None:
                continue
            for path, word in (*container.words("command"), *container.words("args")):
                if _is_two_words(word):
                    flag, _, value = word.partition(" ")
                    message = f"container {container.name}: {word!r} is one argument with a space, not a flag and its value"
                    yield Hit(pod.owner, path, message, remedy=f"write {flag}={value.strip()}")


def _is_two_words(word: str) -> bool:
    first, blank, rest = word.partition(" ")
    return bool(blank) and first.startswith("-") and first[1:2] != " " and "=" not in first and "\n" not in word and bool(
        rest.strip()
    )  # fmt: skip


# Argument -> what stands for it. Ray's builder refuses the first four itself.
RESERVED_BY_RAY: Mapping[str, str] = {
    "model": "model_loading_config.model_source",
    "served_model_name": "model_loading_config.model_id",
}
RESERVED_BY_STACK: Mapping[str, str] = {
    "model": "source",
    "served_model_name": "servedName",
    "distributed_executor_backend": "nothing: Ray's own is used",
    "tensor_parallel_size": "tensorParallel",
    "pipeline_parallel_size": "pipelineParallel",
    "dtype": "engine.dtype",
    "quantization": "engine.quantization",
    "kv_cache_dtype": "engine.kvCacheDtype",
    "max_model_len": "engine.maxModelLen",
    "max_num_seqs": "engine.maxNumSeqs",
    "max_num_batched_tokens": "engine.maxNumBatchedTokens",
    "gpu_memory_utilization": "engine.gpuMemoryUtilization",
    "trust_remote_code": "engine.trustRemoteCode",
    "enable_prefix_caching": "engine.prefixCaching",
    "enable_chunked_prefill": "engine.chunkedPrefill",
    "enforce_eager": "engine.enforceEager",
    "load_format": "loader",
    "enable_lora": "engine.lora",
    "disable_log_stats": "nothing: the scaling policy reads the metrics",
}


def reserved(world: World) -> Iterator[Hit]:
    """Arguments that are set elsewhere."""
    for engine in world.engines:
        if engine.model is not None and any(
            stack.house and engine.model in stack.models for stack in world.stacks
        ):
            for name in engine.model.further:
                if name in RESERVED_BY_STACK:
                    message = f"{name} has a setting of its own: {RESERVED_BY_STACK[name]}"
                    yield Hit(engine.subject, (*engine.path, "engine", "arguments", name), message)
        elif engine.config is not None:
            for name, instead in RESERVED_BY_RAY.items():
                if name in engine.config.engine_kwargs:
                    message = f"{engine.name}: Ray refuses {name} in engine_kwargs; it is set by {instead}"
                    yield Hit(engine.subject, engine.path_of(name), message)
            backend = engine.text("distributed_executor_backend")
            if backend not in (None, "ray"):
                message = (
                    f"{engine.name}: Ray refuses distributed_executor_backend {backend}; only ray is accepted"
                )
                yield Hit(engine.subject, engine.path_of("distributed_executor_backend"), message)


def context(world: World) -> Iterator[Hit]:
    """Contexts longer than the model's."""
    for engine in world.engines:
        asked = engine.whole("max_model_len", 0)
        known = engine.shape.max_positions if engine.shape and engine.shape.certain else None
        stretched = any(name in engine.arguments for name in ("hf_overrides", "rope_scaling", "rope_theta"))
        if known and asked > known and not stretched:
            message = f"{engine.name}: max_model_len {asked:,} is longer than the {known:,} positions of {engine.shape.name}"  # type: ignore[union-attr]
            allowed = "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in (engine.container.env if engine.container else {})
            sure = engine.model is not None and engine.model.architecture
            severity = None if sure and not allowed else Severity.WARN
            yield Hit(engine.subject, engine.path_of("max_model_len"), message, severity)


def batch(world: World) -> Iterator[Hit]:
    """Batches that cannot hold what they must."""
    for engine in world.engines:
        tokens, sequences = engine.whole("max_num_batched_tokens", 0), engine.whole("max_num_seqs", 0)
        if not tokens:
            continue
        if sequences > tokens:
            message = f"{engine.name}: max_num_batched_tokens {tokens} is below max_num_seqs {sequences}"
            yield Hit(engine.subject, engine.path_of("max_num_batched_tokens"), message)
        length = engine.whole("max_model_len", 0)
        if engine.arguments.get("enable_chunked_prefill") in (False, "false", "False") and tokens < length:
            message = f"{engine.name}: chunked prefill is off, and max_num_batched_tokens {tokens} is below max_model_len {length}"
            yield Hit(engine.subject, engine.path_of("max_num_batched_tokens"), message)


def remote_code(world: World) -> Iterator[Hit]:
    """Engines that run the weights' own code."""
    for engine in world.engines:
        if engine.is_on("trust_remote_code"):
            pinned = any(engine.text(name) for name in ("revision", "code_revision"))
            message = f"{engine.name} runs code that comes with {engine.source or 'the weights'}" + (
                "" if pinned or not engine.from_hub else ", at whatever revision the hub has"
            )
            yield Hit(engine.subject, engine.path_of("trust_remote_code"), message)


# Variable -> what it does.
UNSAFE: Mapping[str, str] = {
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "unpickles what comes over the network",
    "VLLM_SERVER_DEV_MODE": "opens endpoints that reset and reconfigure the server",
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "lets any caller load adapters from anywhere",
}


def unsafe(world: World) -> Iterator[Hit]:
    """Unsafe settings of the engine that are on."""
    for pod in world.pods:
        for container in pod.all_containers:
            for name, what in UNSAFE.items():
                index, _ = container.env.get(name, (0, {}))
                if container.env_values.get(name, "").lower() in ("1", "true"):
                    message = f"container {container.name}: {name} {what}"
                    yield Hit(pod.owner, (*container.path, "env", index), message)


RULES: Table = (
    (UNKNOWN, unknown), (SPACE, space), (RESERVED, reserved), (CONTEXT, context), (BATCH, batch),
    (REMOTE_CODE, remote_code), (INSECURE_ENV, unsafe),
)  # fmt: skip
