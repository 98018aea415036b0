"""The direct mode's application without the router in the middle: HAProxy itself picks a replica (fewest connections).

Ray's builder puts a Serve deployment beside the engine that HAProxy asks over HTTP for every request, in Python. It is
needed for routing by prefix, session or adapter; for the least busy replica HAProxy's own count does. Ray only.
"""

from __future__ import annotations

from typing import Any

from ray.llm._internal.serve.core.ingress import builder


def build(arguments: dict[str, Any]) -> Any:
    """The engine's deployment as the ingress of its application; takes what `build_openai_app` takes."""
    settings = builder.LLMServingArgs.model_validate(arguments)
    if not builder.RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING or len(settings.llm_configs) != 1:
        raise ValueError("direct_app needs RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING=1 and exactly one model")
    return builder._build_direct_streaming_llm_deployment(settings.llm_configs[0])  # noqa: SLF001 - Ray is pinned
