"""Where weights come from and what they can do: hubs at run time, pickled formats."""

from collections.abc import Iterator

from guardrails.core import Hit, Path, Rule, Severity, Table
from guardrails.values import texts
from guardrails.world import World

HUB = Rule(
    id="hub-download-in-prod",
    severity=Severity.ADVICE,
    sentence="In production engines read weights that are kept beside them.",
    why="Each new pod depends on a hub that answers 429 under load, and on weights that can change or vanish.",
    remedy="copy them to a bucket once, and set HF_HUB_OFFLINE=1",
    source="huggingface_hub#3312, vllm#24541, dynamo#874",
)
PICKLE = Rule(
    id="pickled-weights",
    severity=Severity.WARN,
    sentence="Weights are safetensors.",
    why=".bin and .pt files are pickles: loading one runs whatever its author put there.",
    remedy="convert them to safetensors once, and leave load_format at auto",
    source="safetensors docs; vLLM load formats",
    framework="OWASP LLM03 supply chain",
)

_PICKLE_FORMATS = ("pt", "npcache")
_PICKLE_FILES = ("*.bin", "*.pt", "*.pth", "pytorch_model")


def hub(world: World) -> Iterator[Hit]:
    """Downloads at every start."""
    for engine in world.engines:
        offline = engine.container is not None and engine.container.env_values.get(
            "HF_HUB_OFFLINE", ""
        ).lower() in ("1", "true")
        if world.prod and engine.model is None and engine.from_hub and not offline:
            yield Hit(
                engine.subject,
                engine.path_of("model"),
                f"{engine.name} asks the hub for {engine.source} at every start",
            )


def pickle(world: World) -> Iterator[Hit]:
    """Formats that run code."""
    for engine in world.engines:
        asked = engine.text("load_format")
        if asked in _PICKLE_FORMATS:
            yield Hit(
                engine.subject,
                engine.path_of("load_format"),
                f"{engine.name}: load_format {asked} reads pickled weights",
            )
    for pod in world.pods:
        for container in pod.all_containers:
            for key in ("command", "args"):
                for index, word in enumerate(texts(container.body.get(key))):
                    loads = (
                        "huggingface-cli" in word
                        or "hf download" in word
                        or "aws s3" in word
                        or "snapshot_download" in word
                    )
                    if loads and any(
                        f"include {name}" in word.replace("'", "").replace('"', "") for name in _PICKLE_FILES
                    ):
                        path: Path = (*container.path, key, index)
                        yield Hit(pod.owner, path, f"container {container.name} downloads pickled weights")


RULES: Table = ((HUB, hub), (PICKLE, pickle))
