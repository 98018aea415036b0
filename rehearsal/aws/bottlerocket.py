"""Bottlerocket's images in the moto server: the public parameters that name them, and the images themselves.

Karpenter resolves `bottlerocket@VERSION` by them. moto neither has them nor lets anyone put a parameter under
`/aws/service`, so they are made in its process, one at a time when first asked for. Any version of the right form is
found, so a version that AWS never published is not noticed here.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

NAME = re.compile(
    r"/aws/service/bottlerocket/(?P<variant>aws-k8s-\d+\.\d+(-nvidia)?)/(?P<arch>x86_64|arm64)/(?P<version>[^/]+)/image_id"
)


def serve() -> None:
    """Let the SSM of this process answer for Bottlerocket's parameters."""
    from moto.core.utils import utcnow  # noqa: PLC0415
    from moto.ec2.models import ec2_backends  # noqa: PLC0415 - the server's process only; others need no moto
    from moto.ec2.models.amis import Ami  # noqa: PLC0415
    from moto.ssm.models import Parameter, SimpleSystemManagerBackend  # noqa: PLC0415

    known = SimpleSystemManagerBackend.get_parameter

    def get_parameter(self: Any, name: str) -> Any:
        match = NAME.fullmatch(name)
        if match and not self._parameters.get(name):
            backend = ec2_backends[self.account_id][self.region_name]
            image = Ami(
                backend,
                image_id(match, self.region_name),
                name=f"bottlerocket-{match['variant']}-{match['arch']}-v{match['version']}",
                owner_alias="amazon",
                public=True,
                virtualization_type="hvm",
                architecture=match["arch"],
                root_device_type="ebs",
                root_device_name="/dev/xvda",
                region_name=self.region_name,
            )
            backend.amis[image.id] = image
            parameter: Any = Parameter  # abstract for what only CloudFormation asks
            row = parameter(self.account_id, name, image.id, "String", None, None, None, utcnow(), 1, "text")
            self._parameters[name].append(row)
        return known(self, name)

    SimpleSystemManagerBackend.get_parameter = get_parameter  # type: ignore[method-assign]


def image_id(match: re.Match[str], region: str) -> str:
    """The id of an image, the same in each run."""
    return f"ami-{hashlib.sha256(f'{region}{match[0]}'.encode()).hexdigest()[:17]}"
