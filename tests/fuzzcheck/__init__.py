"""Mutated manifests: `llmp check` must neither break nor hang on anything."""
