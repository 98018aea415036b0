"""The direct mode's application without the router in the middle: HAProxy itself picks a replica (fewest connections).

Ray's own builder puts a Serve deployment beside the engine that HAProxy asks over HTTP for every request, in Python. It
is needed for routing by prefix, session or adapter; for the least busy replica HAProxy's own count does. Ray only.
"""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.llm._internal.serve.core.ingress.builder import LLMServingArgs
from ray.serve.llm import LLMServer, build_llm_deployment


def build(arguments: dict[str, Any]) -> Any:
    """The engine's deployment as the ingress of its application; takes what `build_openai_app` takes."""
    configs = LLMServingArgs.model_validate(arguments).llm_configs
    if len(configs) != 1:
        raise ValueError(f"direct_app serves exactly one model, not {len(configs)}")
    server = configs[0].server_cls or LLMServer
    return build_llm_deployment(configs[0], deployment_cls=serve.ingress()(server))
