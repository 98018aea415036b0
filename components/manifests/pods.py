"""What pods of ours have in common."""


def confined() -> dict[str, object]:
    """Security context of a container that needs nothing of the node: what the restricted level asks for."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
