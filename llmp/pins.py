"""`llmp pins`: every version that the program installs, and with `--live` what AWS offers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from components import pins as table
from components.aws_account import AccountError, addon_versions
from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain, put

STDOUT = Path("-")
_SHOWN = 5  # newest versions of an add-on


def pins(
    *,
    live: Annotated[bool, typer.Option("--live", help="Ask AWS which add-on versions it offers.")] = False,
    region: Annotated[str, typer.Option(help="Region to ask.")] = "us-west-2",
    kubernetes: Annotated[
        str, typer.Option(help="Kubernetes version to ask for.")
    ] = table.KUBERNETES_DEFAULT,
) -> None:
    """List the pinned versions. With --live, exit code 1 means that AWS does not offer one of them."""
    try:
        lines = list(_offered(region, kubernetes) if live else _pinned(kubernetes))
    except AccountError as error:
        complain(str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None
    put("".join(f"{text}\n" for _, text in lines), STDOUT)
    raise typer.Exit(0 if all(good for good, _ in lines) else EXIT_FINDING)


def _pinned(kubernetes: str) -> Iterator[tuple[bool, str]]:
    yield True, f"Kubernetes {kubernetes} (supported: {', '.join(table.KUBERNETES_SUPPORTED)})"
    yield (
        True,
        f"Bottlerocket {table.BOTTLEROCKET}, NVIDIA driver {table.NVIDIA_DRIVER}, CUDA up to {table.CUDA_OF_DRIVER}",
    )
    for engine in (table.SERVING, table.SERVING_EFA):
        yield (
            True,
            f"image {engine.image.reference()} (Ray {engine.ray}, vLLM {engine.vllm}, CUDA {engine.cuda})",
        )
    for chart in table.CHARTS:
        yield True, f"chart {chart.name} {chart.version} from {chart.repository}"
    for addon in table.ADDONS.values():
        note = "" if addon.confirmed else f" (unconfirmed: {addon.source})"
        yield True, f"add-on {addon.name} {table.addon_version(addon.name, kubernetes)}{note}"


def _offered(region: str, kubernetes: str) -> Iterator[tuple[bool, str]]:
    for name, pinned, is_offered, offered in addon_versions(region, kubernetes):
        said = "offered" if is_offered else "NOT OFFERED"
        yield is_offered, f"{name} {pinned}: {said}; newest: {', '.join(offered[:_SHOWN]) or 'none'}"
