"""Questions to an AWS account, read only and only when asked for: nothing here runs in a preview or an update.

botocore is imported when a question is asked; the program itself does not need it.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from components import pins


class AccountError(Exception):
    """The account cannot be asked; the text says why and what to do."""


def client(service: str, region: str) -> Any:
    """A botocore client with the credentials that are there.

    Raises:
        AccountError: botocore is not installed.
    """
    try:
        session = import_module("botocore.session").get_session()
    except ImportError:
        message = "botocore is not installed; run: .venv/bin/pip install -c constraints.txt botocore"
        raise AccountError(message) from None
    return session.create_client(service, region_name=region)


def ask(question: Callable[[], Any]) -> Any:
    """The answer of one call.

    Raises:
        AccountError: no credentials, no permission, or no way to AWS; with AWS's own words.
    """
    errors = import_module("botocore.exceptions")
    try:
        return question()
    except (errors.BotoCoreError, errors.ClientError) as error:
        raise AccountError(f"AWS does not answer: {error}") from None


def account_id(region: str) -> str:
    """The account that the credentials belong to. Raises AccountError."""
    sts = client("sts", region)
    return str(ask(sts.get_caller_identity)["Account"])


def zones_offering(instance_type: str, region: str) -> tuple[str, ...]:
    """Zones of a region that offer an instance type. Raises AccountError."""
    ec2 = client("ec2", region)
    answer = ask(
        lambda: ec2.describe_instance_type_offerings(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": [instance_type]}]
        )
    )
    return tuple(sorted(offer["Location"] for offer in answer["InstanceTypeOfferings"]))


def addon_versions(region: str, kubernetes_version: str) -> Iterator[tuple[str, str, bool, tuple[str, ...]]]:
    """For each pinned EKS add-on: name, pinned version, whether AWS offers it, and what it offers, newest first.

    Raises:
        AccountError: the account cannot be asked.
    """
    eks = client("eks", region)
    for name in pins.ADDONS:
        question = partial(eks.describe_addon_versions, addonName=name, kubernetesVersion=kubernetes_version)
        answer = ask(question)
        offered = tuple(_versions(answer))
        pinned = pins.addon_version(name, kubernetes_version)
        yield name, pinned, pinned in offered, offered


def _versions(answer: Mapping[str, Any]) -> Iterator[str]:
    for addon in answer["addons"]:
        yield from (version["addonVersion"] for version in addon["addonVersions"])
