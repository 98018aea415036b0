"""Installs one Helm chart, always in the same way: pinned, atomic, and waited for."""

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_kubernetes.helm.v3 import Release, RepositoryOptsArgs

from components import pins

TIMEOUT = 600  # seconds; images of operators come from the internet the first time


def install_chart(
    name: str,
    chart: pins.Chart,
    values: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
    *,
    skip_crds: bool = False,
    timeout: int = TIMEOUT,
) -> Release:
    """Install a chart under its own name in the namespace that `pins` gives it.

    A `Release` is one resource that Helm installs, waits for and rolls back as a whole, which a chart rendered into
    single objects is not.

    Args:
        name: name of the Pulumi resource.
        chart: what to install.
        values: the chart's values; Outputs only at leaves.
        opts: options of the resource.
        skip_crds: the CRDs come from a chart of their own, because Helm never upgrades those inside a chart.
        timeout: seconds until Helm gives up and rolls back.
    """
    oci = chart.repository.startswith("oci://")
    return Release(
        name,
        name=chart.name,
        chart=chart.reference,
        version=chart.version,
        repository_opts=None if oci else RepositoryOptsArgs(repo=chart.repository),
        namespace=chart.namespace,
        create_namespace=chart.namespace != "kube-system",
        values=dict(values),
        skip_crds=skip_crds,
        atomic=True,
        timeout=timeout,
        opts=opts,
    )
