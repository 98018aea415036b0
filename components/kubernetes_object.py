"""Places one manifest in a cluster, whatever its kind.

The typed classes of the Kubernetes SDK cost a second of imports and would split one dict into many arguments. The type
token here is the SDK's own, so URNs are the same as with its classes.
"""

from collections.abc import Mapping
from typing import Any

import pulumi

# Version of the provider plugin; the same as the SDK's in requirements.txt (a test compares them).
PROVIDER_VERSION = "4.34.2"


class KubernetesObject(pulumi.CustomResource):
    """One Kubernetes object, made from a plain dict with Outputs only at its leaves."""

    def __init__(self, name: str, manifest: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        api_version, kind = manifest["apiVersion"], manifest["kind"]
        token = f"kubernetes:{api_version if '/' in api_version else f'core/{api_version}'}:{kind}"
        options = pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=PROVIDER_VERSION), opts)
        super().__init__(token, name, dict(manifest), options)
