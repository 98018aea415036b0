"""Typed config per stack. `stack_file` reads a file offline, `load` reads what the Pulumi engine was given."""

from components.settings.platform import PlatformSettings

__all__ = ["PlatformSettings"]
