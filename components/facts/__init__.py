"""Tables of facts, each value with its source: GPUs, instance types, prices, model shapes, engine contracts."""
