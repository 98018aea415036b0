"""The hosts file of a pod: every Service's names, leading straight to its ready endpoints. There is no DNS here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rehearsal.api import Manifest

SERVICE_LABEL = "kubernetes.io/service-name"
DOMAIN = "cluster.local"
# A closed port of the loopback address: a look-up of any other name fails at once instead of waiting.
RESOLVER = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"


def host_name(pod: Manifest) -> str:
    """A pod's host name: as long as the kernel allows."""
    name = pod["spec"].get("hostname") or pod["metadata"]["name"]
    return str(name)[:63].rstrip("-.")


def endpoints(slices: Iterable[Manifest]) -> dict[tuple[str, str], list[str]]:
    """(namespace, service) -> the addresses of its ready endpoints, sorted."""
    found: dict[tuple[str, str], set[str]] = {}
    for item in slices:
        metadata = item["metadata"]
        service = (metadata.get("labels") or {}).get(SERVICE_LABEL)
        if service is None or item.get("addressType") != "IPv4":
            continue
        addresses = found.setdefault((metadata["namespace"], service), set())
        for row in item.get("endpoints") or []:
            if (row.get("conditions") or {}).get("ready") is not False:
                addresses.update(row["addresses"])
    return {name: sorted(addresses) for name, addresses in found.items()}


def _names(service: str, namespace: str, own: str) -> Iterator[str]:
    yield f"{service}.{namespace}.svc.{DOMAIN}"
    yield f"{service}.{namespace}.svc"
    yield f"{service}.{namespace}"
    if namespace == own:
        yield service


def hosts(slices: Iterable[Manifest], *, namespace: str, host: str, address: str, api_address: str) -> str:
    """The text of the hosts file of a pod in a namespace, with the pod's own host name and address."""
    lines = ["127.0.0.1\tlocalhost", f"{address}\t{host}"]
    lines.append(f"{api_address}\tkubernetes.default.svc.{DOMAIN} kubernetes.default.svc kubernetes.default")
    for (where, service), addresses in sorted(endpoints(slices).items()):
        if (where, service) != ("default", "kubernetes"):
            names = " ".join(_names(service, where, namespace))
            lines += [f"{one}\t{names}" for one in addresses]
    return "\n".join(lines) + "\n"
