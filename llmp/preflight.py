"""`llmp preflight`: what a stack needs of its AWS account, and with `--live` whether the account has it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from components.aws_account import AccountError, account_id, zones_offering
from components.settings import PlatformSettings, stack_file
from components.settings.problems import SettingsError
from components.sizing.quota import account_quota, compare, zone_command
from components.sizing.stack import StackSize, size_stack
from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain, put

ROOT = Path(__file__).resolve().parent.parent
STDOUT = Path("-")


def preflight(
    stack: Annotated[str, typer.Option(help="Stack: the S of Pulumi.S.yaml.")],
    *,
    live: Annotated[
        bool, typer.Option("--live", help="Ask the account, with the credentials that are there.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the stack file; this repository's if unset.")
    ] = None,
) -> None:
    """List EC2 quotas and zones that a stack needs at its ceiling; with --live compare them with the account.

    Exit code 0: enough, or only listed; 1: the account lacks something; 2: it cannot be asked.
    """
    try:
        home = folder or ROOT
        settings = stack_file.settings_of(stack_file.read(home / f"Pulumi.{stack}.yaml"))
        size = size_stack(settings, home)
        lines = list(_compared(settings, size) if live else _listed(settings, size))
    except (SettingsError, AccountError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None
    put("".join(f"{text}\n" for _, text in lines), STDOUT)
    raise typer.Exit(0 if all(good for good, _ in lines) else EXIT_FINDING)


def _listed(settings: PlatformSettings, size: StackSize) -> Iterator[tuple[bool, str]]:
    """Needs, each with the command that shows what the account has."""
    for need in size.quotas:
        yield True, f"{need.vcpus} vCPUs of {need.quota.name} ({', '.join(need.groups)})\n  {need.command}"
    for name in _gpu_types(size):
        yield (
            True,
            f"{name} in {', '.join(settings.zones) or 'the zones of the cluster'}\n  {zone_command(name, settings.region)}",
        )


def _compared(settings: PlatformSettings, size: StackSize) -> Iterator[tuple[bool, str]]:
    """Needs beside what the account has; True where it is enough."""
    here = account_id(settings.region)
    if settings.account_id and here != settings.account_id:
        raise AccountError(
            f"the credentials are of account {here}, the stack may touch only {settings.account_id}"
        )
    yield True, f"account {here}, {settings.region}"
    for check in compare(size.quotas, account_quota(settings.region)):
        has = "not readable" if check.vcpus is None else f"{check.vcpus:g}"
        verdict = {True: "enough", False: "TOO FEW", None: "unknown"}[check.enough]
        yield (
            check.enough is not False,
            f"{verdict}: {check.need.quota.name}: needs {check.need.vcpus}, has {has}",
        )
    for name in _gpu_types(size):
        offered = set(zones_offering(name, settings.region))
        wanted = _zones_of(name, settings)
        missing = sorted(wanted - offered)
        said = f"not in {', '.join(missing)}" if missing else "offered"
        yield (
            bool(offered & wanted) or not wanted,
            f"{name}: {said} (offered in {', '.join(sorted(offered)) or 'no zone'})",
        )


def _gpu_types(size: StackSize) -> list[str]:
    return sorted({name for verdict in size.verdicts for name in (one.instance_type for one in verdict.on)})


def _zones_of(instance_type: str, settings: PlatformSettings) -> set[str]:
    """Zones in which some pool may start a type."""
    pools = [pool for pool in settings.gpu_pools if instance_type in pool.instance_types]
    return {zone for pool in pools for zone in (pool.zones or settings.zones)}
