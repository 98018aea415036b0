"""Builds the environment in which the real Ray Serve LLM and vLLM run on CPU, and the tiny model they serve.

Only the standard library is used, so that `python -m tools.serving build` runs before any virtual environment exists.
"""
