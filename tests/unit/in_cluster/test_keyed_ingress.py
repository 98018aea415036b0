"""The ingress class, over a stand-in for Ray's."""

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "in_cluster"


class StandIn:
    """What Ray's OpenAiIngress and Serve's wrapper give."""

    def __init__(self, deployments: str) -> None:
        self.deployments, self.app = deployments, "application"

    async def check_health(self) -> None:
        """Healthy."""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`keyed_ingress` with the stand-in in Ray's place."""
    stub = ModuleType("ray.serve.llm.ingress")
    stub.__dict__["OpenAiIngress"] = StandIn
    for name in ("ray", "ray.serve", "ray.serve.llm"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "ray.serve.llm.ingress", stub)
    monkeypatch.syspath_prepend(FOLDER)
    for name in ("keyed_ingress", "endpoint_keys"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("keyed_ingress")
    for name in ("keyed_ingress", "endpoint_keys"):
        sys.modules.pop(name, None)


def _app_of(ingress: Any) -> Any:
    return asyncio.run(ingress.__serve_build_asgi_app__())


def test_keys_stand_before_the_application(module: ModuleType) -> None:
    """With a file of keys the guard is between Serve and the application."""
    app = _app_of(module.KeyedIngress("d", keys_file="/k"))

    assert type(app).__name__ == "RetryAfter"
    assert type(app.app).__name__ == "RequireKey"
    assert app.app.app == "application"


def test_without_keys_everybody_may_call(module: ModuleType) -> None:
    """An internal endpoint without keys has only the header for overload."""
    app = _app_of(module.KeyedIngress("d"))

    assert type(app).__name__ == "RetryAfter"
    assert app.app == "application"


def test_an_ingress_without_its_guard_is_unhealthy(module: ModuleType) -> None:
    """Should Ray stop calling the hook, the ingress never serves: it does not serve without keys."""
    ingress = module.KeyedIngress("d", keys_file="/k")

    with pytest.raises(RuntimeError, match="keys would not be checked"):
        asyncio.run(ingress.check_health())


def test_a_guarded_ingress_is_healthy(module: ModuleType) -> None:
    """After the hook was called the check is Ray's own."""
    ingress = module.KeyedIngress("d", keys_file="/k")
    _app_of(ingress)

    asyncio.run(ingress.check_health())
