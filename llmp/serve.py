"""`llmp serve`: a stack's own Serve document, answered on this machine's CPU by the real Ray and vLLM."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from llmp.words import EXIT_BAD_INPUT, EXIT_FINDING, complain


def serve(
    stack: Annotated[str, typer.Option(help="Stack: the S of Pulumi.S.yaml.")] = "local",
    model: Annotated[str | None, typer.Option(help="Model of the stack, where it has several.")] = None,
    port: Annotated[int, typer.Option(help="Port on loopback.")] = 8000,
    weights: Annotated[
        Path | None, typer.Option(help="Folder of a model; a tiny one with random weights if unset.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="Key that callers may use, where the stack asks for keys.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of the program; this repository's if unset.")
    ] = None,
) -> None:
    """Serve a model of a stack on loopback until Ctrl-C: the emitted document, with what has to differ said first.

    Exit code 0: ended by Ctrl-C; 1: it did not start; 2: the stack cannot be used.
    """
    # Imported here so that `llmp --help` does not wait for the provider SDKs.
    from bench.local.plan import PlanError  # noqa: PLC0415
    from bench.local.ray import LocalError  # noqa: PLC0415
    from bench.local.service import LocalService  # noqa: PLC0415
    from llmp.preview import built  # noqa: PLC0415
    from tools.serving import environment  # noqa: PLC0415
    from tools.table import ToolsError  # noqa: PLC0415

    # SIGTERM ends it as Ctrl-C does, and Ctrl-C counts even where a shell has started it in the background.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)
    objects = built(stack, folder).objects
    try:
        home = environment.ensure().folder
        keys = tuple(key or ("local-key",))
        with LocalService(
            objects, home, model=model, port=port, weights=weights, keys=keys, say=complain
        ) as service:
            for difference in service.plan.differences:
                complain(f"differs from the stack: {difference}")
            _say_how_to_call(service.url, service.plan.model, keys[0] if service.plan.keys else None)
            while service.head.alive():
                time.sleep(0.5)
        complain("Ray has ended by itself")
        raise typer.Exit(EXIT_FINDING)
    except PlanError as error:
        complain(str(error))
        raise typer.Exit(EXIT_BAD_INPUT) from None
    except (LocalError, ToolsError) as error:
        complain(str(error))
        raise typer.Exit(EXIT_FINDING) from None
    except KeyboardInterrupt:
        complain("ended; nothing is left running")


def _say_how_to_call(url: str, model: str, key: str | None) -> None:
    header = f" -H 'authorization: Bearer {key}'" if key else ""
    body = f'{{"model": "{model}", "messages": [{{"role": "user", "content": "hello"}}]}}'
    complain(f"OpenAI API: {url}   (Ctrl-C ends it)")
    complain(f"curl -s {url}/chat/completions -H 'content-type: application/json'{header} -d '{body}'")
