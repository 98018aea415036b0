"""Whether a process of the control plane answers yet."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from collections.abc import Callable

from rehearsal.places import Places

PROBE_SECONDS = 2.0


def answers(url: str) -> bool:
    """Whether a URL is answered with 200."""
    # Only "is it up": these ports hold nothing, and each process makes its own certificate.
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - loopback health check without secrets
    # No proxy of the machine's environment: the address means something in this namespace only.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(url, timeout=PROBE_SECONDS) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except (OSError, urllib.error.URLError, ValueError):
        return False


def healthz(name: str, scheme: str = "https") -> Callable[[Places], bool]:
    """A probe of `/healthz` at the port of that name."""
    return lambda places: answers(f"{places.inside(name, scheme)}/healthz")
