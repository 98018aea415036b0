"""The way from the machine into the namespace of a control plane: ports on the machine's loopback, forwarded inside.

A listening socket belongs to the network in which it was made, whoever holds it. So doors are opened outside and the
sockets handed in, over a Unix socket in the state folder, which no network namespace hides: at any time, by anyone who
may read the folder. A door leads to an address inside, or to whatever endpoint of a Service is ready at the moment:

    {"target": "10.244.0.1:6443"}      {"target": "llm-serving/tiny-serve-svc:8000"}
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rehearsal.api import Api
from rehearsal.errors import ApiError, ApiUnreachableError, ControlPlaneError
from tools import terminal

SOCKET_NAME = "doorway.sock"
LOOPBACK = "127.0.0.1"
CHUNK = 1 << 16
BACKLOG = 128
ASK_SECONDS = 10.0
KNOWN_SECONDS = 1.0  # how long endpoints that were looked up are used
CONNECT_SECONDS = 5.0
DENIED = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%s"
)


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A short name of the Unix socket in a folder: the system takes no path of more than 107 characters."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def listen(port: int) -> socket.socket:
    """A listening socket on the machine's loopback; port 0 takes any. Raises ControlPlaneError when it is taken."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
    except OSError as error:
        listener.close()
        raise ControlPlaneError(
            f"Port {port} of {LOOPBACK} cannot be opened: {error.strerror}. End what listens there, or name another port."
        ) from error
    listener.listen(BACKLOG)
    return listener


def hand_in(state: Path, listener: socket.socket, target: str) -> None:
    """Give a listening socket to the doorway of a state folder. Raises ControlPlaneError."""
    line = json.dumps({"target": target}).encode()
    try:
        with _short(state) as name, socket.socket(socket.AF_UNIX) as link:
            link.settimeout(ASK_SECONDS)
            link.connect(name)
            socket.send_fds(link, [line], [listener.fileno()])
            answer = link.recv(CHUNK).decode()
    except OSError as error:
        raise ControlPlaneError(f"The doorway of {state} does not answer: {error}.") from error
    if answer != "open":
        raise ControlPlaneError(answer or f"The doorway of {state} closed without a word.")


def reachable(state: Path) -> bool:
    """Whether the doorway of a state folder takes doors; a socket file may be left of an earlier one."""
    try:
        with _short(state) as name, socket.socket(socket.AF_UNIX) as link:
            link.connect(name)
    except OSError:
        return False
    return True


@dataclass
class Services:
    """Looks up the ready endpoints of a Service, and remembers them for a moment."""

    kubeconfig: Path
    turn: int = 0
    _api: Api | None = None
    _known: dict[str, tuple[float, list[str]]] = field(default_factory=dict)

    def addresses(self, namespace: str, name: str) -> list[str]:
        """The ready addresses, rotated with each call; empty when there is none. Raises ApiError."""
        key = f"{namespace}/{name}"
        found_at, found = self._known.get(key, (-KNOWN_SECONDS, []))
        if not found or time.monotonic() - found_at > KNOWN_SECONDS:
            self._api = self._api or Api.from_kubeconfig(self.kubeconfig)
            slices = self._api.items(
                f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
                labelSelector=f"kubernetes.io/service-name={name}",
            )
            found = ready_addresses(slices)
            self._known[key] = (time.monotonic(), found)
        self.turn += 1
        start = self.turn % len(found) if found else 0
        return found[start:] + found[:start]


def ready_addresses(slices: list[dict[str, Any]]) -> list[str]:
    """The addresses of ready endpoints in EndpointSlices; a missing `ready` means yes, as the API says."""
    return sorted(
        address
        for row in slices
        for endpoint in row.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready", True)
        for address in endpoint["addresses"]
    )


class Doorway:
    """All doors of one control plane."""

    def __init__(self, services: Services) -> None:
        """Take what finds the endpoints of Services."""
        self.services = services
        self.servers: list[asyncio.Server] = []

    async def open(self, listener: socket.socket, target: str) -> None:
        """Serve a listening socket."""

        async def arrive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                await self._lead(target, reader, writer)
            writer.close()

        self.servers.append(await asyncio.start_server(arrive, sock=listener))

    async def _lead(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inside = await self._connect(target)
        except (OSError, ApiError, ApiUnreachableError) as error:
            if "/" in target:
                text = f"The doorway of the rehearsal cannot reach {target}: {error}\n".encode()
                writer.write(DENIED % (len(text), text))
                await writer.drain()
            return
        inner_reader, inner_writer = inside
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            inner_writer.close()

    async def _connect(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        place, _, port = target.rpartition(":")
        namespace, _, name = place.rpartition("/")
        addresses = [place]
        if namespace:
            addresses = await asyncio.to_thread(self.services.addresses, namespace, name)
        problem = "no endpoint of the Service is ready"
        for address in addresses:
            try:
                return await asyncio.wait_for(
                    asyncio.open_connection(address, int(port)), timeout=CONNECT_SECONDS
                )
            except (OSError, TimeoutError) as error:
                problem = f"{address}: {error or 'no answer'}"
        raise OSError(problem)

    async def receive(self, link: socket.socket) -> None:
        """Take one socket over an accepted Unix connection and say `open`, or what is wrong."""
        link.settimeout(ASK_SECONDS)
        answer = "open"
        try:
            line, descriptors, _, _ = await asyncio.to_thread(socket.recv_fds, link, CHUNK, 1)
            if not line:  # only asked whether someone is here
                link.close()
                return
            listener = socket.socket(fileno=descriptors[0])
            listener.setblocking(False)
            await self.open(listener, str(json.loads(line)["target"]))
        except (OSError, ValueError, LookupError, TypeError) as error:
            answer = f"The doorway did not understand what it was given: {error}"
        with contextlib.suppress(OSError):
            link.send(answer.encode())
        link.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end, and pass the end on while the other direction goes on."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def serve(state: Path, kubeconfig: Path) -> None:
    """Take doors until ended."""
    doorway = Doorway(Services(kubeconfig))
    loop = asyncio.get_running_loop()
    (state / SOCKET_NAME).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as entrance:
        with _short(state) as name:
            entrance.bind(name)
        (state / SOCKET_NAME).chmod(0o600)
        entrance.listen(BACKLOG)
        entrance.setblocking(False)
        terminal.show("ready")
        while True:
            link, _ = await loop.sock_accept(entrance)
            link.setblocking(True)
            await doorway.receive(link)


def main() -> int:
    """Run the doorway until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(serve(arguments.state, arguments.kubeconfig))
    return 0


if __name__ == "__main__":
    sys.exit(main())
