"""The AWS half of the real program: every Kubernetes object and chart is an empty component, so no cluster is needed."""

import runpy
from pathlib import Path
from typing import Any

import pulumi

from components import chart, kubernetes_object

ROOT = Path(__file__).resolve().parent.parent.parent.parent


class Nothing(pulumi.ComponentResource):
    """Stands where an object or a chart would, so that the order of creation and deletion stays."""

    def __init__(
        self, name: str, _what: Any = None, opts: pulumi.ResourceOptions | None = None, *_: Any
    ) -> None:
        super().__init__("rehearsal:test:Nothing", name, None, opts)


kubernetes_object.KubernetesObject = Nothing
chart.install_chart = lambda name, _chart, _values, opts, **_: Nothing(name, None, opts)
runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
