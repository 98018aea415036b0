"""Every rule, one file a theme, each a table of rules and functions. `TABLE` is all of them."""

from types import ModuleType

from guardrails.core import Table
from guardrails.rules import (
    availability,
    aws,
    aws_documents,
    capacity,
    charts,
    efa,
    engine_arguments,
    exposure,
    house,
    hub_cache,
    images,
    karpenter_api,
    karpenter_keys,
    karpenter_values,
    memory_fit,
    metrics,
    node_agents,
    node_disks,
    node_images,
    node_pools,
    node_room,
    packages,
    parallel,
    plan,
    ray,
    ray_exposure,
    scaling,
    scheduling,
    secrets,
    serve_document,
    serve_fields,
    serve_refusals,
    shm,
    stack_agreement,
    stack_serving,
    stack_shape,
    storage,
    weights,
)

# In the order in which the catalogue shows them.
THEMES: tuple[ModuleType, ...] = (
    images, packages, charts, shm, scheduling, node_agents, parallel, memory_fit, capacity, node_room, efa,
    engine_arguments, ray, ray_exposure, serve_document, serve_fields, serve_refusals, karpenter_api,
    karpenter_keys, karpenter_values, node_pools, node_images, node_disks, storage, hub_cache, scaling,
    metrics, availability, secrets, exposure, weights, aws, aws_documents, stack_shape, stack_agreement,
    stack_serving, plan, house,
)  # fmt: skip
TABLE: Table = tuple(entry for theme in THEMES for entry in theme.RULES)
