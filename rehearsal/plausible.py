"""Plausible values for what only AWS knows: one table, by the kind of object and the path of the leaf.

A leaf that is not known before AWS has made something reaches us as `{"$unknown": true}`, a secret as
`{"$secret": true}`. The API server needs a value of the right shape in its place. A leaf that no row fits is an
error and not a guess: it would hide that something which policies read is unknown in preview.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

UNKNOWN = "$unknown"
SECRET = "$secret"  # noqa: S105 - the name of a marker
ACCOUNT = "123456789012"  # the account number of AWS's own examples
STAND_IN = "stand-in"


class NoPlausibleValueError(Exception):
    """No row of the table fits an unknown leaf; the message names the object's kind and the path."""


@dataclass(frozen=True)
class Row:
    """A value for leaves whose `Kind:path` the pattern matches wholly. Indices are written `[0]`."""

    pattern: str
    value: Any


def _arn(service: str, rest: str) -> str:
    return f"arn:aws:{service}:us-east-1:{ACCOUNT}:{rest}"


_ENCODED = base64.b64encode(STAND_IN.encode()).decode()

# The first row that fits wins, so special ones stand before general ones.
ROWS: tuple[Row, ...] = (
    # Names and places of objects
    Row(r"Namespace:metadata\.name", "stand-in-namespace"),
    Row(r"\w+:metadata\.name", "stand-in"),
    Row(r"\w+:metadata\.namespace", "default"),
    # Karpenter
    Row(r"EC2NodeClass:spec\.role", "stand-in-node-role"),
    Row(r"EC2NodeClass:spec\.instanceProfile", "stand-in-profile"),
    Row(r"EC2NodeClass:spec\.subnetSelectorTerms\[\d+\]\.id", "subnet-0123456789abcdef0"),
    Row(r"EC2NodeClass:spec\.securityGroupSelectorTerms\[\d+\]\.id", "sg-0123456789abcdef0"),
    Row(r"EC2NodeClass:spec\.capacityReservationSelectorTerms\[\d+\]\.id", "cr-0123456789abcdef0"),
    Row(r"EC2NodeClass:spec\.amiSelectorTerms\[\d+\]\.id", "ami-0123456789abcdef0"),
    Row(r"EC2NodeClass:spec\.placementGroupSelector\.id", "pg-0123456789abcdef0"),
    Row(r"EC2NodeClass:spec\.placementGroupSelector\.name", "stand-in-group"),
    Row(r"EC2NodeClass:spec\.blockDeviceMappings\[\d+\]\.ebs\.kmsKeyID", _arn("kms", "key/stand-in")),
    Row(r"EC2NodeClass:spec\.(tags|\w+SelectorTerms\[\d+\]\.tags)\..+", STAND_IN),
    Row(r"EC2NodeClass:spec\.userData", ""),
    # Identities and addresses of AWS in annotations
    Row(r"\w+:metadata\.annotations\.eks\.amazonaws\.com/role-arn", f"arn:aws:iam::{ACCOUNT}:role/stand-in"),
    Row(
        r"Ingress:metadata\.annotations\.alb\.ingress\.kubernetes\.io/certificate-arn",
        _arn("acm", "certificate/0"),
    ),
    Row(
        r"Ingress:metadata\.annotations\.alb\.ingress\.kubernetes\.io/security-groups", "sg-0123456789abcdef0"
    ),
    Row(r"Ingress:metadata\.annotations\.alb\.ingress\.kubernetes\.io/subnets", "subnet-0123456789abcdef0"),
    Row(
        r"Ingress:metadata\.annotations\.alb\.ingress\.kubernetes\.io/wafv2-acl-arn",
        _arn("wafv2", "regional/0"),
    ),
    Row(r"Ingress:metadata\.annotations\..+", STAND_IN),
    # Buckets and caches
    Row(r"PersistentVolume:spec\.csi\.volumeHandle", "stand-in-volume"),
    Row(r"PersistentVolume:spec\.csi\.volumeAttributes\..+", "stand-in-bucket"),
    Row(r"PersistentVolume:spec\.mountOptions\[\d+\]", "read-only"),
    Row(r"RayService:.*\.gcsFaultToleranceOptions\.redisAddress", "rediss://stand-in.invalid:6379"),
    # Whatever a container is told
    Row(r"\w+:.*\.env\[\d+\]\.value", STAND_IN),
    Row(r"\w+:.*\.(args|command)\[\d+\]", STAND_IN),
    # Secrets and settings, as leaves or as a whole
    Row(r"Secret:data\..+", _ENCODED),
    Row(r"Secret:data", {"key": _ENCODED}),
    Row(r"Secret:stringData\..+", STAND_IN),
    Row(r"Secret:stringData", {"key": STAND_IN}),
    Row(r"ConfigMap:data\..+", STAND_IN),
    Row(r"ScaledObject:spec\.triggers\[\d+\]\.metadata\..+", STAND_IN),
)


def is_stand_in(value: Any) -> bool:
    """Whether a value is the marker of an unknown or of a secret."""
    return isinstance(value, Mapping) and len(value) == 1 and (UNKNOWN in value or SECRET in value)


def fill(manifest: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A copy of a manifest with a plausible value at each unknown or secret leaf, and the paths of those.

    Raises NoPlausibleValueError when the table has no row for one.
    """
    filled: list[str] = []
    kind = str(manifest.get("kind", ""))

    def walk(value: Any, path: str) -> Any:
        if is_stand_in(value):
            filled.append(path)
            return _value(kind, path)
        if isinstance(value, Mapping):
            return {key: walk(item, f"{path}.{key}" if path else key) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [walk(item, f"{path}[{index}]") for index, item in enumerate(value)]
        # The engine knows only floats; the provider's JSON writes whole ones as integers again, and so do we.
        return int(value) if isinstance(value, float) and value.is_integer() else value

    whole = walk(manifest, "")
    if not whole.get("metadata", {}).get("name"):
        # The provider makes up a name where a manifest has none.
        whole["metadata"] = {**whole.get("metadata", {}), "name": _value(kind, "metadata.name")}
        filled.append("metadata.name")
    return whole, filled


def _value(kind: str, path: str) -> Any:
    place = f"{kind}:{path}"
    for row in ROWS:
        if re.fullmatch(row.pattern, place):
            return row.value
    message = (
        f"{kind} {path} is not known before the update, and rehearsal/plausible.py has no value for it. Make it known "
        "in preview (policies cannot read what is unknown), or add a row if only AWS can know it."
    )
    raise NoPlausibleValueError(message)
