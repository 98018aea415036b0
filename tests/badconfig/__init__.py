"""Breaks the stack files in many ways and holds what people then read. Run: `python -m tests.badconfig`."""
