"""One row for each tool: where its source is pinned, how it is built, and how it names its version.

The rows stand in build order: what a test needs first is built first. A new tool is a new row and a folder
with `go.mod` and `go.sum`; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent

KUBERNETES = "1.36.3"
PULUMI = "3.274.1"
ETCD = "3.7.3"
# The provider's newest module is older than its Python SDK; both are taken when they are on PATH.
PROVIDER_MODULE = "4.25.0"
PROVIDER_SDK = "4.34.2"
# The newest module that is served; the charts pin a newer operator (components/pins.py).
KUBERAY = "1.5.0"
KARPENTER = "1.14.1"
KWOK = "0.8.0"


class ToolsError(Exception):
    """A tool cannot be had. The message says what to do, in a sentence for the person at the terminal."""


@dataclass(frozen=True)
class Tool:
    """How one tool is built and recognized. `minutes` is the time its build takes on two cores."""

    name: str
    binary: str
    module: str
    package: str
    versions: tuple[str, ...]
    version_args: tuple[str, ...]
    minutes: float
    ldflags: str = "-s -w"
    env: Mapping[str, str] = field(default_factory=dict)
    # A Go module whose schema files are put beside main.go before the build (empty: none).
    schema_module: str = ""
    # For a program without a version flag: the module whose version Go wrote into the binary (empty: it is asked).
    stamped_module: str = ""

    @property
    def folder(self) -> Path:
        """The folder with this tool's go.mod and go.sum."""
        return HERE / self.module

    @property
    def flags(self) -> tuple[str, ...]:
        """The arguments of `go build` that shape the binary."""
        return ("-trimpath", "-ldflags", self.ldflags)


def _kubernetes(name: str, minutes: float) -> Tool:
    major, minor, _ = KUBERNETES.split(".")
    base = "k8s.io/component-base/version"
    return Tool(
        name=name,
        binary=name,
        module="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        versions=(KUBERNETES,),
        version_args=("--version",),
        minutes=minutes,
        # Without these the API server calls itself v0.0.0 and the provider refuses its version.
        ldflags=f"-s -w -X {base}.gitVersion=v{KUBERNETES} -X {base}.gitMajor={major} -X {base}.gitMinor={minor}",
        env={"CGO_ENABLED": "0"},
    )


TOOLS: tuple[Tool, ...] = (
    Tool("etcd", "etcd", "etcd", "go.etcd.io/etcd/server/v3", (ETCD,), ("--version",), 0.7),
    _kubernetes("kube-apiserver", 3.5),
    _kubernetes("kube-controller-manager", 1.2),
    Tool(
        name="pulumi",
        binary="pulumi",
        module="pulumi",
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        versions=(PULUMI,),
        version_args=("version",),
        minutes=5.5,
        ldflags=f"-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={PULUMI}",
    ),
    Tool(
        name="pulumi-kubernetes",
        binary="pulumi-resource-kubernetes",
        module="pulumi-kubernetes",
        package=".",
        versions=(PROVIDER_MODULE, PROVIDER_SDK),
        version_args=("-version",),
        minutes=7.8,
        schema_module="github.com/pulumi/pulumi-kubernetes/provider/v4",
    ),
    _kubernetes("kube-scheduler", 0.5),
    Tool(
        name="kuberay",
        binary="kuberay-operator",
        module="kuberay",
        package="github.com/ray-project/kuberay/ray-operator",
        versions=(KUBERAY,),
        version_args=(),
        minutes=0.8,
        env={"CGO_ENABLED": "0"},
        stamped_module="github.com/ray-project/kuberay/ray-operator",
    ),
    Tool(
        name="kwok",
        binary="kwok",
        module="kwok",
        package="sigs.k8s.io/kwok/cmd/kwok",
        versions=(KWOK,),
        version_args=(),
        minutes=1,
        env={"CGO_ENABLED": "0"},
        stamped_module="sigs.k8s.io/kwok",
    ),
    Tool(
        name="karpenter",
        # The provider with a simulated EC2 in it. The real controller has another package, so it is never taken for this.
        binary="karpenter-kwok",
        module="karpenter",
        package="github.com/aws/karpenter-provider-aws/kwok",
        versions=(KARPENTER,),
        version_args=(),
        minutes=3.3,
        env={"CGO_ENABLED": "0"},
        stamped_module="github.com/aws/karpenter-provider-aws",
    ),
)


def find(name: str) -> Tool:
    """The row of a tool, by its name or its binary's name. Raises ToolsError with the names there are."""
    for tool in TOOLS:
        if name in (tool.name, tool.binary):
            return tool
    known = ", ".join(tool.name for tool in TOOLS)
    message = f"There is no tool named {name!r}. The tools are: {known}."
    raise ToolsError(message)
